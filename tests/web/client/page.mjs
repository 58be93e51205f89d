// node page.mjs CHROMIUM URL SHOTS: what a person does with the page at "/", in light and dark, wide and narrow.
import { browse } from "./browser.mjs";

const [chromium, url, shots] = process.argv.slice(2);
const SIZES = { wide: { width: 1280, height: 900 }, narrow: { width: 360, height: 740 } };

const ended = (page) => page.waitForFunction(() => !document.querySelector(".status"));
const overflow = (page) => page.evaluate(() => document.documentElement.scrollWidth - innerWidth);

async function say(page, text) {
  await ended(page);
  await page.fill("#text", text);
  await page.keyboard.press("Enter");
}

await browse(chromium, async (open) => {
  const looks = {};
  for (const [size, viewport] of Object.entries(SIZES)) {
    for (const colorScheme of ["light", "dark"]) {
      const page = await open({ viewport, colorScheme });
      await page.goto(url);
      await page.waitForSelector("#agent option:nth-child(2)", { state: "attached" });
      await page.screenshot({ path: `${shots}/page-${size}-${colorScheme}-welcome.png` });
      await say(page, "pumpkin breakfast");
      await page.waitForSelector(".card");
      await ended(page);
      await page.waitForTimeout(400); // the cards rise
      await page.screenshot({ path: `${shots}/page-${size}-${colorScheme}.png` });
      looks[`${size}-${colorScheme}`] = {
        overflow: await overflow(page),
        back: await page.evaluate(() => getComputedStyle(document.body).backgroundColor),
      };
    }
  }

  const page = await open({ viewport: SIZES.wide });
  await page.goto(url);
  await page.waitForSelector("#agent option:nth-child(2)", { state: "attached" });
  await say(page, "pumpkin breakfast");
  await page.waitForSelector(".card");
  await ended(page);
  const cards = await page.locator(".card h3").allTextContents();
  const links = await page.locator(".card h3 a").evaluateAll((all) => all.map((a) => a.href));
  await page.locator(".card details summary").first().click();
  const quote = await page.locator(".card blockquote").first().textContent();
  const cited = await page.locator(".words a.cite").count();
  await say(page, "without nuts");
  await page.waitForSelector(".turn:nth-of-type(2) .card, .turn:nth-of-type(2) .failure");
  await ended(page);
  const understood = await page.locator(".understood").textContent();

  await page.selectOption("#agent", "asker");
  await say(page, "paint");
  await page.waitForSelector(".question");
  await page.waitForTimeout(600); // the page scrolls
  await page.screenshot({ path: `${shots}/page-question.png` });
  await page.getByText("blue").click();
  await page.getByText("Continue").click();
  await page.getByText("You chose blue.").waitFor();

  await page.selectOption("#agent", "kitchen");
  await say(page, "a stew");
  await page.waitForSelector("progress");
  await page.waitForTimeout(500); // the page scrolls
  await page.screenshot({ path: `${shots}/page-progress.png` });
  const progress = await page.locator(".status").textContent();
  await page.getByText("Cooked a stew.").waitFor();

  await page.selectOption("#agent", "broken");
  await say(page, "<img src=x onerror=alert(1)>");
  await page.waitForSelector(".turn:last-of-type .failure");
  const failure = await page.locator(".failure").last().textContent();
  const injected = await page.locator("main img").count();
  await page.screenshot({ path: `${shots}/page-failure.png` });

  const far = await open({ viewport: SIZES.wide, timezoneId: "Asia/Tokyo", locale: "en-US" });
  await far.goto(url);
  await far.waitForSelector("#agent option:nth-child(2)", { state: "attached" });
  await far.selectOption("#agent", "harbour");
  await say(far, "lantern parade");
  await far.waitForSelector(".card");
  await ended(far);
  const when = await far.locator(".card .facts").first().textContent();
  await say(far, "cheapest knives");
  await far.waitForSelector(".turn:nth-of-type(2) .card");
  await ended(far);
  const priced = await far.locator(".turn:nth-of-type(2) .card .facts").first().textContent();
  const sources = await far.evaluate(() => [...document.querySelectorAll(".words")].flatMap((words) =>
    [...words.querySelectorAll("a.cite")].map((cite) => [cite.previousSibling.textContent.trim(),
      document.querySelector(cite.getAttribute("href")).querySelector(".about").textContent])));
  await say(far, "When does Salt & Sedge open?");
  await far.waitForSelector(".turn:nth-of-type(3) .words");
  await ended(far);
  const stated = await far.locator(".turn:nth-of-type(3) :is(.words, .understood)").allTextContents();
  return { when, priced, sources, stated, looks, cards, links, quote, cited, understood, progress, failure, injected };
});
