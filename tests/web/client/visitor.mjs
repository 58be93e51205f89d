// node visitor.mjs CHROMIUM URL SHOTS: the page as a visitor of a public site sees it, and as a developer.
import { browse, ended, last, serious, PHONE, WIDE } from "./browser.mjs";

const [chromium, url, shots] = process.argv.slice(2);

async function ask(page, agent, text) {
  await page.selectOption("#agent", agent);
  await page.fill("#text", text);
  await page.keyboard.press("Enter");
  await ended(page);
}

async function look(page, name) {
  await page.locator(`nav a[data-view="${name}"]`).click();
  if (name !== "chat") await page.locator(`#view-${name} h1`).waitFor();
  await page.waitForFunction(() => !/Looking…/.test(document.body.innerText));
  await page.screenshot({ path: `${shots}/visitor-${name}.png` });
  return page.locator("body").innerText();
}

// What a reload leaves of the conversation; the form of the last turn still works.
async function reloaded(page) {
  await page.reload();
  await page.waitForSelector("#agent option:nth-child(3)", { state: "attached" });
  const attached = await page.locator(".said .attached").allInnerTexts();
  const pictures = await page.locator(".turn img.picture").count();
  const failures = await page.locator(".turn .failure").count();
  await last(page, ".question input[value=large]").check();
  await last(page, ".question button[type=submit]").click();
  await last(page, ".words").waitFor();
  await ended(page);
  return { attached, pictures, failures, answered: await last(page, ".words").innerText() };
}

await browse(chromium, async (open) => {
  const page = await open({ viewport: WIDE, locale: "en-US", permissions: ["geolocation"], geolocation: { latitude: 43.57, longitude: -116.03 } });
  const paths = [];
  page.on("request", (request) => request.method() === "POST" && paths.push(new URL(request.url()).pathname));
  await page.goto(url);
  await page.waitForSelector("#agent option:nth-child(3)", { state: "attached" });
  await page.screenshot({ path: `${shots}/visitor-welcome.png` });
  const tabs = await page.locator("nav a:visible").allInnerTexts();
  await ask(page, "echo", "Hello");
  const words = await last(page, ".words").innerText();
  await page.setInputFiles("#files", { name: "note.txt", mimeType: "text/plain", buffer: Buffer.from("a note") });
  await ask(page, "echo", "Read this");
  const withFile = await last(page, ".words, .failure").first().innerText();
  await ask(page, "broken", "fail");
  const failure = await last(page, ".failure").innerText();
  await ask(page, "finder", "lamps");
  const prices = await last(page, ".card .facts").allInnerTexts();
  await page.click("#locate");
  await page.waitForSelector("#attached .chip");
  await ask(page, "painter", "draw");
  const drawn = { words: await last(page, ".words").innerText(), pictures: await last(page, "img.picture").count() };
  await ask(page, "barista", "coffee");
  await last(page, ".question").waitFor();
  const focus = await page.evaluate(() => document.activeElement.value);
  const kept = await reloaded(page);
  const texts = { chat: await look(page, "chat"), agents: await look(page, "agents"), activity: await look(page, "activity") };
  const wrong = await serious(page);
  await page.locator('nav a[data-view="chat"]').click();
  const asVisitor = [...paths];
  await page.locator("#developer").click();
  await page.screenshot({ path: `${shots}/visitor-developer.png` });
  const developer = { failure: await page.locator(".failure").first().innerText(), tabs: await page.locator("nav a:visible").allInnerTexts(), protocol: await page.locator("#protocol").isVisible(), wire: await page.locator("#show-wire").isVisible(), trace: await last(page, ".turn-button").isVisible() };
  await page.reload();
  await page.locator("#protocol").waitFor();
  await page.selectOption("#agent", "sleeper");
  await page.fill("#text", "sleep");
  await page.keyboard.press("Enter");
  await last(page, ".status").waitFor();
  await page.reload();
  const left = await last(page, ".failure").innerText();
  const phone = await open({ viewport: PHONE, colorScheme: "dark" });
  await phone.goto(url);
  await phone.waitForSelector("#agent option:nth-child(3)", { state: "attached" });
  await phone.screenshot({ path: `${shots}/visitor-phone-dark.png` });
  const overflow = await phone.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  return { tabs, words, withFile, failure, texts, serious: wrong, developer, paths: asVisitor, overflow, prices, drawn, focus, kept, left };
});
