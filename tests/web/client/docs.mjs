// node docs.mjs CHROMIUM URL SHOTS: the documentation at /docs: its pages, its search, light and dark.
import { browse, serious, PHONE, WIDE } from "./browser.mjs";

const [chromium, url, shots] = process.argv.slice(2);
const PAGES = { index: "", tutorial: "tutorial.html", configuration: "configuration.html", howto: "howto/nginx.html", api: "api/sabir.html", table: "errors.html" };

await browse(chromium, async (open) => {
  const page = await open({ viewport: WIDE });
  await page.goto(`${url}/docs`);
  await page.locator(".sidebar-tree a").first().click();
  const title = (await page.locator("h1").innerText()).replace("#", "").replace("¶", "").trim();
  await page.fill("input[name=q]", "nginx");
  await page.keyboard.press("Enter");
  await page.waitForSelector("#search-results li a");
  const results = await page.locator("#search-results li a").allInnerTexts();
  await page.screenshot({ path: `${shots}/docs-search.png` });
  const looks = {};
  for (const [size, viewport] of Object.entries({ wide: WIDE, phone: PHONE })) {
    for (const colorScheme of ["light", "dark"]) {
      const look = await open({ viewport, colorScheme });
      const overflow = {};
      for (const [name, path] of Object.entries(PAGES)) {
        await look.goto(`${url}/docs/${path}`);
        await look.screenshot({ path: `${shots}/docs-${name}-${size}-${colorScheme}.png` });
        overflow[name] = await look.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      }
      looks[`${size}-${colorScheme}`] = { overflow, back: await look.evaluate(() => getComputedStyle(document.body).backgroundColor) };
    }
  }
  await page.goto(`${url}/docs/tutorial.html`);
  const logo = await page.locator(".sidebar-logo").evaluate((image) => [image.naturalWidth > 0, image.getBoundingClientRect().width]);
  return { title, results, looks, logo, axe: await serious(page) };
});
