// A headless Chromium that reports every host it asks and every error in its pages.
import { readFileSync } from "node:fs";
import { chromium } from "playwright-core";

const AXE = readFileSync(new URL("./node_modules/axe-core/axe.min.js", import.meta.url), "utf8");
export const WIDE = { width: 1360, height: 900 };
export const PHONE = { width: 360, height: 740 };

const FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync", "--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"];

export async function browse(executablePath, steps) {
  const browser = await chromium.launch({ executablePath, args: FLAGS });
  const told = { hosts: new Set(), wrong: [] };
  const open = async (options = {}) => {
    const page = await (await browser.newContext({ reducedMotion: "reduce", ...options })).newPage();
    page.setDefaultTimeout(60000); // only ends what hangs
    page.on("request", (request) => /^(blob|data):/.test(request.url()) || told.hosts.add(new URL(request.url()).host));
    page.on("pageerror", (error) => told.wrong.push(error.message));
    page.on("console", (line) => line.type() === "error" && told.wrong.push(line.text()));
    return page;
  };
  try {
    const result = await steps(open);
    console.log(JSON.stringify({ ...result, hosts: [...told.hosts], wrong: told.wrong }));
  } finally {
    await browser.close();
  }
}

// What axe finds that keeps people out.
export async function serious(page) {
  await page.evaluate(AXE);
  const { violations } = await page.evaluate(() => axe.run(document, { resultTypes: ["violations"] }));
  return violations.filter(({ impact }) => ["serious", "critical"].includes(impact)).map(({ id, nodes }) => `${id}: ${nodes[0].html.slice(0, 160)}`);
}

// What the scripts of the page share: a page that is ready, a question, its answer.
export const ended = (page) => page.waitForFunction(() => !document.querySelector(".status"));
export const last = (page, inner) => page.locator(`.turn:last-of-type ${inner}`);

export async function ready(open, url, options) {
  const page = await open(options);
  await page.goto(url);
  await page.waitForSelector("#agent option:nth-child(3)", { state: "attached" });
  return page;
}

// A question that is sent while the page still shows an answer is ignored, so each waits for the one before.
export async function say(page, agent, text, protocol) {
  await ended(page);
  if (protocol) await page.selectOption("#protocol", protocol);
  await page.selectOption("#agent", agent);
  await page.fill("#text", text);
  await page.keyboard.press("Enter");
}
