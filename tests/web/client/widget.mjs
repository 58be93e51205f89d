// node widget.mjs CHROMIUM PAGE SHOTS: the widget on a page of another origin.
import { browse } from "./browser.mjs";

const [chromium, url, shots] = process.argv.slice(2);

await browse(chromium, async (open) => {
  const page = await open({ viewport: { width: 1000, height: 760 } });
  await page.goto(url);
  const chat = page.locator("body > sabir-widget");
  await chat.locator("button.open").click();
  await chat.locator("input").fill("write");
  await chat.locator("input").press("Enter");
  await chat.locator(".words:not(.soft)").waitFor();
  await page.waitForFunction(() => /streamed/.test(document.querySelector("body > sabir-widget").shadowRoot.textContent));
  await chat.locator(".words li").nth(1).waitFor();
  await page.screenshot({ path: `${shots}/widget.png` });
  const words = await chat.locator(".words").first().innerText();
  const bullets = await chat.locator(".words li").allInnerTexts();
  const accent = await chat.locator("button.open").evaluate((node) => getComputedStyle(node).backgroundColor);
  const inside = await chat.locator("h2").evaluate((node) => getComputedStyle(node).color);
  const outside = await page.locator("h2").first().evaluate((node) => getComputedStyle(node).color);
  const search = page.locator("#search sabir-widget");
  await search.locator("input").fill("write again");
  await search.locator("button.go").click();
  await search.locator(".words:not(.soft)").waitFor();
  await chat.locator("input").fill("later");
  await chat.locator("input").press("Enter");
  await page.waitForFunction(() => /At last/.test(document.querySelector("body > sabir-widget").shadowRoot.textContent));
  const dark = await open({ viewport: { width: 1000, height: 760 }, colorScheme: "dark" });
  await dark.goto(url);
  const colour = (place) => dark.locator(place).locator("input").first().evaluate((node) => getComputedStyle(node.getRootNode().host).color);
  await dark.setViewportSize({ width: 360, height: 740 });
  await dark.locator("body > sabir-widget").locator("button.open").click();
  await dark.screenshot({ path: `${shots}/widget-phone-dark.png` });
  const themes = { search: await colour("#search sabir-widget"), chat: await colour("body > sabir-widget") };
  const refused = await open({ viewport: { width: 1000, height: 760 } });
  await refused.route("**/ask*", (route) => route.fulfill({ status: 429, contentType: "application/json", headers: { "Access-Control-Allow-Origin": "*" }, body: JSON.stringify({ error: { code: "RATE_LIMITED", message: "Too many questions. Try again in 5 seconds." } }) }));
  await refused.goto(url);
  const box = refused.locator("body > sabir-widget");
  await box.locator("button.open").click();
  await box.locator("input").fill("again");
  await box.locator("input").press("Enter");
  await box.locator(".words.soft").getByText("Too many").waitFor();
  const refusal = await box.locator(".words.soft").innerText();
  await box.locator("input").press("Escape");
  const closed = { box: await box.locator(".box").isHidden(), focus: await refused.evaluate(() => document.activeElement.shadowRoot?.activeElement?.className) };
  return { refusal, closed, words, bullets, accent, inside, outside, themes };
});
