// node bullets.mjs CHROMIUM URL SHOTS LOCKED KEY: one function for each thing that a person does on the page.
import { browse, last, ended, ready, say, serious, PHONE, WIDE } from "./browser.mjs";

const [chromium, url, shots, locked, key] = process.argv.slice(2);
const PROTOCOLS = ["nlip", "nlip-ws", "nlweb", "mcp", "a2a", "acl"];
const words = (page) => last(page, ".words").innerText();

async function answered(page) {
  await last(page, ".words").waitFor();
  await ended(page);
  return words(page);
}

const post = (path, message, headers = {}) => fetch(`${url}${path}`, { method: "POST", headers: { "Content-Type": "application/json", ...headers }, body: JSON.stringify(message) });
const text = (content) => ({ format: "text", subformat: "english", content });

async function streamed(page) {
  await say(page, "halves", "both", "nlip");
  const during = await answeredSoFar(page);
  await post("/nlip/opener", text("open"));
  await ended(page);
  return { during, after: await words(page) };
}

async function answeredSoFar(page) {
  await last(page, ".words").waitFor();
  return words(page);
}

async function cards(page) {
  await say(page, "market", "what is there?", "nlweb");
  await last(page, ".card").first().waitFor();
  await ended(page);
  const card = last(page, ".card").first();
  await page.waitForFunction(() => document.querySelector(".turn:last-of-type .card img")?.naturalWidth > 0);
  const picture = await card.locator("img").evaluate((img) => img.naturalWidth);
  await card.locator(".hours summary").click();
  const hours = await card.locator(".hours li").allInnerTexts();
  const links = await card.locator(".actions a").evaluateAll((all) => all.map((a) => [a.innerText, a.href]));
  const inert = await card.locator(".actions > span").allInnerTexts();
  const sent = new Promise((done) => page.context().route("https://inn.example/**", async (route) => {
    const request = route.request();
    done({ url: request.url(), method: request.method(), body: request.postData() });
    await route.fulfill({ body: "booked" });
  }));
  await card.getByRole("button", { name: "Book a table" }).click();
  await card.locator(".action-form input").fill("2");
  await page.screenshot({ path: `${shots}/action.png` });
  await card.locator(".action-form button").click();
  return { picture, hours, links, inert, posted: await sent };
}

async function many(page) {
  const shown = () => last(page, ".card:visible h3").allInnerTexts();
  const first = (await shown()).length;
  const more = await last(page, "button.more").innerText();
  await last(page, "button.more").click();
  const all = (await shown()).length;
  const facets = await last(page, ".facets button").allInnerTexts();
  await last(page, ".facets button").nth(1).click();
  return { first, more, all, facets, narrowed: await shown(), pressed: await last(page, ".facets [aria-pressed=true]").allInnerTexts() };
}

async function chips(page) {
  const found = {};
  for (const protocol of ["nlweb", "nlip"]) {
    await page.click("#new");
    await page.waitForSelector("#agent option:nth-child(3)", { state: "attached" });
    await say(page, "harbour", "vegetarian dinner under 30 minutes without nuts", protocol);
    await last(page, ".chip").first().waitFor();
    await ended(page);
    const texts = async () => (await last(page, ".chip").allInnerTexts()).map((chip) => chip.replace("×", "").trim());
    const before = await texts();
    await page.screenshot({ path: `${shots}/chips-${protocol}.png` });
    const place = (part) => last(page, part).first().evaluate((node) => node.getBoundingClientRect().top);
    found[protocol] = { before, above: (await place(".chips")) < (await place(".cards")), cards: await last(page, ".card").count(), list: await last(page, ".words ol").count(), modes: await page.locator("#mode").isVisible() };
    await last(page, ".chip button[aria-label='Search without under 30 minutes']").click();
    await page.waitForFunction(() => document.querySelectorAll(".turn").length === 2);
    await last(page, ".chip").first().waitFor();
    await ended(page);
    Object.assign(found[protocol], { asked: await last(page, ".said").innerText(), after: await texts() });
  }
  return found;
}

async function form(page) {
  await say(page, "taxi", "a taxi", "nlip");
  await last(page, ".question").waitFor();
  await ended(page);
  const question = last(page, ".question");
  await question.getByText("Harbour").click();
  await question.locator("input[type=number]").fill("3");
  await question.getByText("Ramp").click();
  await question.locator("input[type=text]").fill("soon");
  await page.screenshot({ path: `${shots}/form.png` });
  await question.getByText("Continue").click();
  await page.waitForFunction(() => /Ordered/.test(document.querySelector(".turn:last-of-type .words")?.innerText ?? ""));
  await ended(page);
  return words(page);
}

async function confirmed(page) {
  const found = {};
  for (const protocol of PROTOCOLS) {
    const outcome = {};
    for (const choice of ["Yes", "No"]) {
      const turns = await page.locator(".turn").count();
      await say(page, "booker", "book The Inn", protocol);
      await page.waitForFunction((count) => document.querySelectorAll(".turn").length > count, turns);
      await last(page, ".question").waitFor();
      await ended(page);
      outcome.buttons ??= await last(page, ".question button").allInnerTexts();
      if (protocol === "nlip" && choice === "Yes") {
        await page.waitForFunction(() => document.querySelector(".turn:last-of-type").getBoundingClientRect().top < 200); // scrolled
        await page.screenshot({ path: `${shots}/confirm.png` });
      }
      await last(page, ".question").getByRole("button", { name: choice, exact: true }).click();
      await page.waitForFunction((count) => document.querySelectorAll(".turn").length > count + 1, turns);
      outcome[choice.toLowerCase()] = await answered(page);
    }
    found[protocol] = outcome;
  }
  return found;
}

async function sound(page) {
  await page.click("#record");
  await page.waitForSelector("#record.on");
  await page.waitForTimeout(700); // something to hear
  await page.click("#record");
  await page.waitForSelector("#attached .chip");
  await say(page, "parrot", "listen", "nlip");
  const said = await answered(page);
  const players = await last(page, ".files audio").count();
  await last(page, ".files audio").evaluate((audio) => audio.play().then(() => new Promise((done) => (audio.currentTime > 0 ? done() : audio.addEventListener("timeupdate", done, { once: true })))));
  const duration = await last(page, ".files audio").evaluate((audio) => audio.currentTime);
  return { words: said, players, duration };
}

async function keys(page) {
  await page.locator("h1, .brand").first().focus();
  await page.keyboard.press("/");
  const slash = await page.evaluate(() => document.activeElement.id);
  await say(page, "halves", "and stop", "nlip");
  await last(page, ".words").waitFor();
  await page.keyboard.press("Escape");
  await last(page, ".failure").waitFor();
  await ended(page);
  return { slash, escaped: await last(page, ".failure").innerText() };
}

async function wire(page) {
  await page.click("#show-wire");
  await say(page, "harbour", "pumpkin soup", "nlweb");
  await last(page, ".card").first().waitFor();
  await ended(page);
  const exchange = page.locator(".exchange").first();
  await exchange.locator(".event").first().waitFor();
  await page.waitForFunction(() => /\d ms/.test(document.querySelector(".exchange header, .exchange summary").innerText));
  const found = { text: await exchange.innerText(), head: await exchange.locator("header, summary").first().innerText(), times: (await exchange.locator(".event summary").allInnerTexts()).map((line) => /\+[\d.]+ ms/.exec(line)?.[0] ?? line) };
  await page.click("#hide-wire");
  return found;
}

async function directory(page) {
  await page.click("nav a[data-view=agents]");
  await page.waitForSelector("#view-agents .panel");
  const panel = page.locator("#view-agents .panel", { hasText: "Orders a taxi" });
  await panel.getByText("Card", { exact: true }).click();
  const card = await panel.locator("pre").innerText();
  const health = await page.locator("#view-agents > p .badge").innerText();
  const snippet = await page.locator("#view-agents .panel", { hasText: "Your own site" }).locator("pre").innerText();
  const python = await page.locator("#view-agents .panel", { has: page.locator("h3:text-is('Python')") }).locator("pre").innerText();
  await page.locator("#view-agents .panel", { hasText: "Lists places" }).getByText("Say hello").click();
  await last(page, ".card").first().waitFor();
  await ended(page);
  return { card, health, snippet, python, tried: await last(page, ".said").innerText(), agent: await page.locator("#agent").inputValue() };
}

// The connection of the signed-in caller in the wire pane, with every frame opened.
async function socketInPane(page) {
  if ((await page.locator("#show-wire").getAttribute("aria-expanded")) !== "true") await page.click("#show-wire");
  const socket = page.locator(".exchange", { hasText: "Upgrade: websocket" }).first();
  await socket.evaluate((node) => node.querySelectorAll("details").forEach((inner) => { inner.open = true; }));
  await socket.evaluate((node) => { node.open = true; });
  const text = await socket.innerText();
  await page.click("#hide-wire");
  return text;
}

async function signIn(open) {
  const page = await open({ viewport: WIDE });
  await page.goto(locked);
  await page.waitForSelector("#sign-in[open]");
  const why = await page.locator("#sign-in-why").innerText();
  await page.screenshot({ path: `${shots}/sign-in.png` });
  await page.fill("#key", key);
  await page.locator("#sign-in button.primary").click();
  await page.waitForSelector("#agent option:nth-child(3)", { state: "attached" });
  const agents = await page.locator("#agent option").allInnerTexts();
  const words = {};
  for (const protocol of ["nlip", "nlip-ws", "nlweb", "mcp", "a2a", "acl"]) {
    await say(page, "parrot", "hello", protocol);
    words[protocol] = await answered(page);
  }
  const shown = await socketInPane(page);
  const who = await page.locator("#who").innerText();
  await page.reload();
  await page.waitForSelector("#agent option:nth-child(3)", { state: "attached" });
  const kept = await page.locator("#who").innerText();
  return [page, { why, agents, who, words, shown, kept, stored: await page.evaluate(() => localStorage.getItem("sabir.key")) }];
}

const section = (page, view, title) => page.locator(`#view-${view} h2:text-is("${title}") + div`);

async function activity(page) {
  await say(page, "parrot", "as a task", "a2a");
  await answered(page);
  const message = { mcp_version: "0.1.0", message_id: crypto.randomUUID(), performative: "TASK_REQUEST", sender: { agent_id: "jules" }, receiver: { agent_id: "eddy" }, language: "application/json", ontology: "elizaos:ontology:chat", timestamp: new Date().toISOString(), conversation_id: "c1", payload: { task_type: "ask", task_description: "ahoy" } };
  const own = { Authorization: `Bearer ${key}`, "Content-Type": "application/json" };
  await fetch(`${locked}/acl/inbox/eddy`, { headers: { ...own, Accept: "application/json" } }); // eddy is known from now on
  await fetch(`${locked}/acl`, { method: "POST", headers: own, body: JSON.stringify(message) });
  await page.click("nav a[data-view=activity]");
  await page.waitForSelector("#view-activity form input");
  const tasks = await section(page, "activity", "Tasks").innerText();
  const rows = section(page, "activity", "Conversations").locator("tbody tr");
  await rows.first().waitFor();
  const conversations = await rows.count();
  for (const view of ["operate", "activity"]) { // looking is no conversation
    await page.click(`nav a[data-view=${view}]`);
    await page.waitForFunction((name) => document.querySelectorAll(`#view-${name} tbody tr`).length > 1, view);
  }
  await rows.nth(conversations - 1).waitFor();
  const afterwards = await rows.locator("td:first-child").allInnerTexts();
  await page.fill("#view-activity form input", "eddy");
  await page.keyboard.press("Enter");
  await section(page, "activity", "Inbox").getByText("ahoy").waitFor();
  await page.screenshot({ path: `${shots}/activity-full.png` });
  return { tasks, conversations, afterwards, inbox: await section(page, "activity", "Inbox").innerText() };
}

async function operate(page) {
  await page.click("nav a[data-view=operate]");
  await page.waitForFunction(() => [...document.querySelectorAll("#view-operate polyline")].some((line) => line.getAttribute("points").split(" ").length > 1));
  const view = page.locator("#view-operate");
  const points = await view.locator("polyline").first().evaluate((line) => line.getAttribute("points").split(" ").length);
  const part = (title) => section(page, "operate", title);
  const found = { charts: await view.locator("polyline").count(), points, audit: await part("Audit").innerText(), limits: await part("Limits").locator("tbody tr").count(), dead: await part("Dead letters").innerText() };
  await page.screenshot({ path: `${shots}/operate-full.png` });
  return found;
}

await browse(chromium, async (open) => {
  const axe = {};
  const look = async (name, page) => (axe[name] = [await page.evaluate(() => document.documentElement.scrollWidth - innerWidth), ...(await serious(page))]);
  const page = await ready(open, url, { viewport: WIDE, permissions: ["microphone"] });
  const found = { streamed: await streamed(page), cards: await cards(page), many: await many(page) };
  await look("cards", page);
  Object.assign(found, { form: await form(page), confirmed: await confirmed(page), sound: await sound(page), keys: await keys(page), wire: await wire(page), directory: await directory(page) });
  await look("sound", page);
  found.chips = await chips(page);
  await look("chips", page);
  const [own, seen] = await signIn(open);
  Object.assign(found, { signIn: seen, activity: await activity(own) });
  await look("activity", own);
  found.operate = await operate(own);
  await look("operate", own);
  await own.setViewportSize(PHONE);
  for (const colorScheme of ["light", "dark"]) {
    await own.emulateMedia({ colorScheme });
    for (const view of ["agents", "activity", "operate"]) {
      await own.click(`nav a[data-view=${view}]`);
      await own.waitForFunction((name) => !/Looking…/.test(document.getElementById(`view-${name}`).innerText), view);
      await own.screenshot({ path: `${shots}/${view}-phone-${colorScheme}.png` });
      await look(`${view} on a phone, ${colorScheme}`, own);
    }
  }
  return { ...found, axe };
});
