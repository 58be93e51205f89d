// node pictures.mjs CHROMIUM URL FOLDER: the pictures of the README.
import { browse, ended, last, ready, say } from "./browser.mjs";

const [chromium, url, folder] = process.argv.slice(2);
const SIZE = { width: 1200, height: 720 };
const shot = async (page, name) => {
  await page.evaluate(() => document.activeElement?.blur());
  await page.waitForTimeout(600); // cards rise, the page scrolls
  await page.screenshot({ path: `${folder}/${name}.png` });
};

await browse(chromium, async (open) => {
  const chat = await ready(open, url, { viewport: SIZE });
  await say(chat, "sites", "vegetarian dinner under 30 minutes without nuts", "nlweb");
  await last(chat, ".card").nth(2).waitFor();
  await ended(chat);
  await shot(chat, "chat");

  const wire = await ready(open, url, { viewport: SIZE });
  await wire.click("#show-wire");
  await say(wire, "guide", "How do I cross the harbour?", "nlip-ws");
  await last(wire, ".words code").waitFor();
  await ended(wire);
  const frame = wire.locator(".exchange .event.received").last();
  await frame.locator("summary").click();
  await frame.scrollIntoViewIfNeeded();
  await shot(wire, "wire");

  const panel = await ready(open, url, { viewport: SIZE, colorScheme: "dark" });
  await say(panel, "panel", "Which river is the longest?", "nlip");
  await last(panel, ".member.winner").waitFor();
  await ended(panel);
  await last(panel, ".turn-button").getByText("Trace").click();
  await last(panel, ".hop").first().waitFor();
  await shot(panel, "panel");
  return {};
});
