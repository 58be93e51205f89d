// node official.mjs CHROMIUM PAGE SHOTS: the official client asks once for results, once for nothing, once for a refusal.
import { browse } from "./browser.mjs";

const [chromium, url, shots] = process.argv.slice(2);

async function search(page, text) {
  await page.locator("[contenteditable=true], textarea, input[type=text]").first().click();
  await page.keyboard.type(text);
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => ["answered", "failed"].includes(document.getElementById("app").dataset.state));
}

await browse(chromium, async (open) => {
  const page = await open({ viewport: { width: 1280, height: 1000 } });
  await page.goto(url);
  await search(page, "pumpkin breakfast");
  await page.waitForFunction(() => document.querySelectorAll("h3").length > 1);
  await page.screenshot({ path: `${shots}/official-results.png` });
  const titles = await page.locator("h3").allTextContents();
  const text = await page.locator("body").innerText();
  const summary = await page.locator("#summary").textContent();

  const none = await open();
  await none.goto(url);
  await search(none, "zzyzx qqfoo");
  await none.getByText("No results found").waitFor();
  await none.screenshot({ path: `${shots}/official-none.png` });

  const failing = await open();
  await failing.goto(url.replace("%2Fask", "%2Fask%2Fnobody"));
  await search(failing, "anything");
  const error = await failing.locator("#error").textContent();
  await failing.screenshot({ path: `${shots}/official-error.png` });
  return { titles, text, summary, error };
});
