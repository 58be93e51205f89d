// node playground.mjs CHROMIUM URL SHOTS OTHER: every view of the page, over every protocol.
import { browse, ended, last, serious, PHONE, WIDE } from "./browser.mjs";

const [chromium, url, shots, other] = process.argv.slice(2);
const PROTOCOLS = ["nlip", "nlip-ws", "nlweb", "mcp", "a2a", "acl"];

async function ready(open, options) {
  const page = await open(options);
  await page.goto(url);
  await page.waitForSelector("#agent option:nth-child(3)", { state: "attached" });
  return page;
}

async function say(page, text) {
  await ended(page);
  await page.fill("#text", text);
  await page.keyboard.press("Enter");
}

async function answer(page, text) {
  await say(page, text);
  await last(page, ".words").waitFor();
  await ended(page);
  return last(page, ".words").innerText();
}

async function everyProtocol(page) {
  const found = {};
  for (const protocol of PROTOCOLS) {
    await page.selectOption("#protocol", protocol);
    await page.selectOption("#agent", "writer");
    await say(page, `write over ${protocol}`);
    await last(page, ".words li").nth(1).waitFor();
    await ended(page);
    const words = await last(page, ".words").innerText();
    await page.selectOption("#agent", "counter");
    const turns = [await answer(page, "first"), await answer(page, "second")];
    await page.selectOption("#agent", "barista");
    await say(page, "latte");
    await last(page, ".question").waitFor();
    const options = await last(page, ".question .options label").count();
    if (options) await last(page, ".question .options label").nth(1).click();
    else await last(page, ".question input").fill("M");
    await last(page, ".question").getByText("Continue").click();
    await page.waitForFunction(() => /One .*latte/.test(document.querySelector(".turn:last-of-type .words")?.innerText ?? ""));
    await page.selectOption("#agent", "kitchen");
    await say(page, "a stew");
    await last(page, "progress").waitFor();
    const note = await last(page, ".status").innerText();
    await page.waitForFunction(() => /Cooked a stew/.test(document.querySelector(".turn:last-of-type .words")?.innerText ?? ""));
    await page.selectOption("#agent", "sleeper");
    await say(page, "for ever");
    await last(page, ".status button").waitFor();
    await last(page, ".status button").click();
    await last(page, ".failure").waitFor();
    await ended(page);
    found[protocol] = { words, turns, options, note, cancelled: await last(page, ".failure").innerText() };
  }
  return found;
}

// A question that is answered the moment it is shown, while the response that brought it is still open.
async function hasty(page) {
  await page.selectOption("#protocol", "nlip");
  await page.selectOption("#agent", "barista");
  await ended(page);
  await page.evaluate(() => new MutationObserver((_, observer) => {
    const form = document.querySelector(".turn:last-of-type .question");
    if (!form) return;
    observer.disconnect();
    const option = form.querySelectorAll(".options input")[1];
    if (option) option.checked = true;
    else form.querySelector("input").value = "M";
    form.requestSubmit();
  }).observe(document.querySelector("#talk"), { childList: true, subtree: true }));
  await say(page, "latte");
  const words = await page.waitForFunction(() => /One .*latte/.exec(document.querySelector(".turn:last-of-type .words")?.innerText ?? "")?.[0]);
  return words.jsonValue();
}

async function wire(page) {
  await page.selectOption("#agent", "writer");
  await page.selectOption("#protocol", "nlip-ws");
  await say(page, "bytes, please");
  await last(page, ".words").waitFor();
  await ended(page);
  const frame = page.locator(".exchange .event.received").last();
  await frame.locator("summary").click();
  const hex = await frame.locator(".hex").innerText();
  const tree = await frame.locator(".tree").innerText();
  await page.screenshot({ path: `${shots}/wire-cbor.png` });
  const socket = await onSocket(page);
  await page.selectOption("#protocol", "nlip");
  await say(page, "once");
  await ended(page);
  await say(page, "twice");
  await last(page, ".words").waitFor();
  await ended(page);
  const exchange = page.locator(".exchange").first();
  const marks = await exchange.locator("pre mark").evaluateAll((all) => [...new Set(all.map((mark) => mark.className))].sort());
  const legend = await exchange.locator(".purpose + .legend mark").allInnerTexts(); // at the top, where it is seen
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  const copied = { Socket: socket.copied };
  for (const kind of ["curl", "Python"]) {
    await exchange.getByText(`Copy as ${kind}`).click();
    copied[kind] = await page.evaluate(() => navigator.clipboard.readText());
  }
  await exchange.getByText("Edit and resend").click();
  await exchange.locator(".edit").fill(JSON.stringify({ format: "text", subformat: "english", content: "edited" }));
  await exchange.locator(".editor button").click();
  await page.waitForFunction(() => /sent again, edited/.test(document.querySelector(".exchange")?.innerText ?? ""));
  await page.screenshot({ path: `${shots}/wire-json.png` });
  return { hex: hex.slice(0, 40), tree, marks, legend, copied, socket };
}

// A frame that was sent, copied as a program, edited and sent again; what is open stays open meanwhile.
async function onSocket(page) {
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  const frame = page.locator(".exchange .event.sent").last();
  await frame.locator("summary").click();
  await frame.getByText("Copy as Python").click();
  const copied = await page.evaluate(() => navigator.clipboard.readText());
  await frame.getByText("Edit and resend").click();
  await frame.locator(".edit").fill("no JSON");
  await frame.locator(".editor button").click();
  await frame.locator(".editor .failure").waitFor();
  await frame.locator(".edit").fill(JSON.stringify({ format: "text", subformat: "english", content: "edited" }));
  await say(page, "one more");
  await last(page, ".words").waitFor();
  await ended(page);
  const kept = { open: await frame.evaluate((node) => node.closest(".exchange").querySelector(".edit")?.closest("details").open), text: await page.locator(".edit").inputValue() };
  await page.locator(".editor button").click();
  await page.waitForFunction(() => /sent again, edited(.|\n)*↓ received/.test(document.querySelector(".exchange")?.innerText ?? ""));
  return { copied, kept, resent: await page.locator(".exchange").first().innerText() };
}

async function hostile(page) {
  await page.selectOption("#protocol", "nlip");
  await page.selectOption("#agent", "hostile");
  await say(page, "attack");
  await last(page, ".words").waitFor();
  await ended(page);
  await page.screenshot({ path: `${shots}/hostile.png` });
  return page.evaluate(() => {
    const node = document.querySelector(".turn:last-of-type");
    return {
      active: node.querySelectorAll("script, iframe, img, object, embed, svg:not(.icon), style, link").length,
      links: [...node.querySelectorAll("a")].map((a) => a.getAttribute("href")),
      handlers: [...node.querySelectorAll("*")].filter((each) => each.getAttributeNames().some((name) => name.startsWith("on"))).length,
      text: node.innerText.slice(0, 600), attacked: Boolean(window.attacked), more: node.querySelectorAll("button.more").length,
    };
  });
}

async function attachments(page) {
  await page.selectOption("#agent", "reader");
  const found = {};
  for (const protocol of ["nlip", "nlip-ws", "mcp", "a2a"]) {
    await page.selectOption("#protocol", protocol);
    await page.setInputFiles("#files", [{ name: "dot.png", mimeType: "image/png", buffer: Buffer.from("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==", "base64") }]);
    await page.waitForSelector("#attached .chip");
    await say(page, "look");
    await last(page, ".words").waitFor();
    await ended(page);
    found[protocol] = { said: await last(page, ".words").innerText(), shown: await last(page, ".files img").count() };
  }
  found.large = {};
  for (const protocol of ["nlip", "nlip-ws", "mcp", "a2a"]) {
    await page.selectOption("#protocol", protocol);
    await page.setInputFiles("#files", [{ name: "large.bin", mimeType: "application/octet-stream", buffer: Buffer.alloc(1_500_000, 7) }]);
    await page.waitForSelector("#attached .chip");
    await say(page, "a large one");
    await last(page, ":is(.words, .failure)").first().waitFor();
    await ended(page);
    found.large[protocol] = await last(page, ":is(.words, .failure)").first().innerText();
  }
  await page.selectOption("#protocol", "nlip");
  await page.context().grantPermissions(["geolocation"]);
  await page.context().setGeolocation({ latitude: 43.57, longitude: -116.03 });
  await page.click("#locate");
  await page.waitForSelector("#attached .chip");
  await say(page, "where am I?");
  await last(page, ".words").waitFor();
  await ended(page);
  found.location = await last(page, ".words").innerText();
  return found;
}

async function views(page) {
  const found = {};
  for (const view of ["agents", "activity", "operate"]) {
    await page.click(`nav a[data-view=${view}]`);
    await page.waitForSelector(`#view-${view} h1`);
    await page.waitForFunction((name) => !/Looking…/.test(document.getElementById(`view-${name}`).innerText), view);
    await page.screenshot({ path: `${shots}/view-${view}.png` });
    found[view] = { text: await page.locator(`#view-${view}`).innerText(), axe: await serious(page) };
  }
  await page.click("nav a[data-view=check]");
  await page.locator("#view-check button[type=submit]").click();
  await page.waitForFunction(() => document.querySelectorAll("#view-check tbody tr").length > 5, null, { timeout: 60000 });
  await page.screenshot({ path: `${shots}/view-check.png` });
  found.check = { text: await page.locator("#view-check").innerText(), axe: await serious(page) };
  return found;
}

async function kept(page) {
  await page.click("nav a[data-view=chat]");
  const before = await page.locator(".turn").count();
  await page.reload();
  await page.waitForSelector(".turn");
  const after = await page.locator(".turn").count();
  await page.waitForSelector("#agent option:nth-child(3)", { state: "attached" });
  await page.selectOption("#agent", "counter");
  const continued = {};
  for (const protocol of ["nlip", "nlweb", "mcp", "a2a"]) {
    await page.selectOption("#protocol", protocol);
    continued[protocol] = await answer(page, "still the same conversation?");
  }
  return { before, after, continued };
}

await browse(chromium, async (open) => {
  const page = await ready(open, { viewport: WIDE });
  const first = await page.evaluate(() => performance.getEntriesByType("resource").filter(({ name }) => name.endsWith(".js")).reduce((sum, { decodedBodySize }) => sum + decodedBodySize, 0));
  const welcome = await serious(page);
  await page.click("#show-wire");
  const protocols = await everyProtocol(page);
  const answeredAtOnce = await hasty(page);
  const onWire = await wire(page);
  const axe = await serious(page);
  const attack = await hostile(page);
  const files = await attachments(page);

  await page.selectOption("#agent", "another address");
  await page.fill("#address", other);
  await say(page, "hello over there");
  await last(page, ".words").waitFor();
  await ended(page);
  const remote = await last(page, ".words").innerText();
  const again = await kept(page);
  const shown = await views(page);

  const looks = {};
  for (const [size, viewport] of Object.entries({ wide: WIDE, phone: PHONE })) {
    for (const colorScheme of ["light", "dark"]) {
      const look = await ready(open, { viewport, colorScheme });
      await say(look, "write");
      await last(look, ".words").waitFor();
      await ended(look);
      await look.screenshot({ path: `${shots}/chat-${size}-${colorScheme}.png` });
      await look.click("#show-wire");
      await look.waitForSelector(".exchange");
      await look.screenshot({ path: `${shots}/wire-${size}-${colorScheme}.png` });
      looks[`${size}-${colorScheme}`] = { overflow: await look.evaluate(() => document.documentElement.scrollWidth - innerWidth), axe: await serious(look) };
    }
  }
  return { first, welcome, protocols, answeredAtOnce, onWire, axe, attack, files, remote, again, shown, looks };
});
