// node views.mjs CHROMIUM URL SHOTS: the timeline of a turn, and the members of a panel while they answer.
import { browse, ended, last, serious, PHONE, WIDE } from "./browser.mjs";

const [chromium, url, shots] = process.argv.slice(2);
const PROTOCOLS = ["nlip", "nlip-ws", "nlweb", "mcp", "a2a", "acl"];

const texts = (page, inner) => last(page, inner).allInnerTexts();
const ring = () => fetch(`${url}/nlip/bell`, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ format: "text", subformat: "english", content: "ring" }) });

async function ready(open, options) {
  const page = await open(options);
  await page.goto(url);
  await page.waitForSelector("#agent option:nth-child(3)", { state: "attached" });
  return page;
}

async function say(page, agent, text) {
  await ended(page);
  await page.selectOption("#agent", agent);
  await page.fill("#text", text);
  await page.keyboard.press("Enter");
}

async function trace(page, agent, text) {
  await say(page, agent, text);
  await last(page, ".turn-tools").waitFor();
  await ended(page);
  await last(page, ".turn-button").getByText("Trace").click();
  await last(page, ".hop").first().waitFor();
  return { hops: await texts(page, ".hop .what"), bars: await last(page, ".hop rect").count(), failed: await last(page, ".hop.failed").count() };
}

// Two members are done, the third waits for the bell: the page shows it while the turn runs.
async function live(page) {
  await say(page, "team", "how much?");
  await last(page, ".member.answered").waitFor();
  await last(page, ".member.failed").waitFor();
  const during = await texts(page, ".member");
  await ring();
  await ended(page);
  return { during, after: await texts(page, ".member"), words: await last(page, ".words").innerText() };
}

async function replay(page) {
  const before = await texts(page, ".member");
  await last(page, ".team").getByText("Replay").click();
  await last(page, ".member.asked").first().waitFor();
  await page.waitForFunction(() => document.querySelector(".turn:last-of-type .team button").disabled === false);
  return { before, after: await texts(page, ".member") };
}

await browse(chromium, async (open) => {
  const page = await ready(open, { viewport: WIDE });
  const traced = {};
  const panels = {};
  for (const protocol of PROTOCOLS) {
    await page.selectOption("#protocol", protocol);
    traced[protocol] = await trace(page, "manager", `over ${protocol}`);
    panels[protocol] = await live(page);
  }
  await page.selectOption("#protocol", "nlip");
  const failing = await trace(page, "broken", "fail");
  await page.screenshot({ path: `${shots}/trace-failed.png` });
  await say(page, "panel", "Which river?");
  await last(page, ".member.winner").waitFor();
  await ended(page);
  const ensemble = { members: await texts(page, ".member"), axe: await serious(page) };
  await page.screenshot({ path: `${shots}/ensemble.png` });
  const again = await replay(page);
  await page.reload();
  await last(page, ".member.winner").waitFor();
  const kept = await replay(page);
  await last(page, ".turn-button").getByText("Trace").click();
  await last(page, ".hop").first().waitFor();
  const keptHops = await last(page, ".hop").count();

  const looks = {};
  for (const [size, viewport] of Object.entries({ wide: WIDE, phone: PHONE })) {
    for (const colorScheme of ["light", "dark"]) {
      const look = await ready(open, { viewport, colorScheme });
      await look.selectOption("#protocol", "nlip");
      await live(look);
      await last(look, ".turn-button").getByText("Trace").click();
      await last(look, ".hop").first().waitFor();
      await look.screenshot({ path: `${shots}/team-${size}-${colorScheme}.png` });
      looks[`${size}-${colorScheme}`] = { overflow: await look.evaluate(() => document.documentElement.scrollWidth - innerWidth), axe: await serious(look) };
    }
  }
  return { traced, panels, failing, ensemble, again, kept, keptHops, looks };
});
