// The page: one gateway, every protocol. It speaks only the public API, like any other client.
import { $, at, button, icon, make, visible } from "./dom.js";
import { Chat } from "./chat.js";
import { PROTOCOLS } from "./protocols.js";
import { Wire } from "./wire.js";

const EXAMPLES = 4; // questions to try that are shown, of those on the agent's card
const OTHER = "another address"; // the choice of an agent that is not of this gateway
const VIEWS = ["chat", "agents", "activity", "check", "operate"];
const otherAddress = make("option", { value: OTHER, className: "for-operators" }, "Another address…");
const settings = load("sabir.settings", {});
const wire = new Wire();
let cards = []; // of the agents that can be asked, the default first
let pane = null; // the wire pane, loaded when it is first opened
const withMore = new Set(); // agents that were given a file or a place, which NLWeb cannot carry

function load(key, otherwise) {
  try {
    return JSON.parse(localStorage.getItem(key)) ?? otherwise;
  } catch {
    return otherwise;
  }
}

function set(name, value) {
  settings[name] = value;
  localStorage.setItem("sabir.settings", JSON.stringify(settings));
}

// -- sign-in ---------------------------------------------------------------------------------------------

const key = () => sessionStorage.getItem("sabir.key") ?? "";
const headers = () => (key() ? { Authorization: `Bearer ${key()}` } : {});

export const place = {
  wire,
  headers,
  key,
  chosen(input = {}) {
    const name = $("agent").value;
    if (input.files?.length || input.location) withMore.add(name);
    const mode = $("mode").value;
    if (name === OTHER) return { protocol: "remote", agent: $("address").value.trim(), name: $("other-protocol").value, mode };
    const isDefault = cards[0]?.name === name;
    const protocol = isDeveloper() ? $("protocol").value : finds() && !withMore.has(name) ? "nlweb" : "nlip"; // visitors do not choose
    return { protocol, agent: isDefault ? "" : name, name, mode };
  },
  finished(view) {
    const status = wire.exchanges.at(-1)?.response?.status; // of a WebSocket it is that of the handshake
    if (status === 401 || view.events.at(-1)?.code === 401) signIn("Sign in to ask here. Ask the operator of this service for a key.");
  },
  cards: () => cards,
  isDeveloper: () => isDeveloper(),
  ask(text, agent) {
    if (agent) choose(agent);
    show("chat");
    return chat.ask(text);
  },
};

const chat = new Chat(place);

function signIn(why) {
  $("sign-in-why").textContent = why ?? "Your API key is kept in this tab only.";
  $("key").value = key();
  $("sign-out").hidden = !key();
  $("sign-in").showModal();
}

$("sign-in").addEventListener("close", () => {
  const how = $("sign-in").returnValue;
  if (how !== "save" && how !== "out") return;
  if (how === "save" && $("key").value) sessionStorage.setItem("sabir.key", $("key").value);
  else sessionStorage.removeItem("sabir.key");
  signedIn();
  access();
  agents().catch(() => {});
});

function signedIn() {
  $("who").textContent = key() ? "Signed in" : "Sign in";
}

// -- visitors, developers, operators ---------------------------------------------------------------------

// Visitors see a chat. Protocols, addresses, traces and the wire are for developers: a button shows them, and operators
// have them from the start. What only operators may use is shown to nobody else.
const isDeveloper = () => document.body.classList.contains("developer");

function showFor({ developer, operator }) {
  document.body.classList.toggle("developer", developer);
  document.body.classList.toggle("operator", operator);
  otherAddress.disabled = !operator; // not every browser hides an option
  $("developer").setAttribute("aria-pressed", String(developer));
  offerModes();
  if (!developer) toggleWire(false);
  else if (settings.wire) toggleWire(true);
}

async function access() {
  const response = await fetch(at("/operate/access"), { headers: headers() }).catch(() => null);
  const operator = response?.ok ? (await response.json()).operator : false;
  set("operator", operator); // so that the next load shows the right page at once
  showFor({ developer: settings.developer ?? operator, operator });
}

$("developer").addEventListener("click", () => {
  set("developer", !isDeveloper());
  showFor({ developer: settings.developer, operator: Boolean(settings.operator) });
});

// -- views ------------------------------------------------------------------------------------------------

async function show(name) {
  for (const view of VIEWS) $(`view-${view}`).hidden = view !== name;
  for (const tab of document.querySelectorAll("nav a")) {
    const current = tab.dataset.view === name;
    if (current) tab.setAttribute("aria-current", "page");
    else tab.removeAttribute("aria-current");
  }
  if (location.hash.slice(1) !== name && (name !== "chat" || VIEWS.includes(location.hash.slice(1)))) history.replaceState(null, "", `#${name}`);
  if (name === "chat") return;
  const view = await import(`./view_${name}.js`);
  await view.render($(`view-${name}`), place);
}

document.querySelector("nav").addEventListener("click", (event) => {
  const tab = event.target.closest("a[data-view]");
  if (!tab) return;
  event.preventDefault();
  show(tab.dataset.view);
});
addEventListener("hashchange", () => VIEWS.includes(location.hash.slice(1)) && show(location.hash.slice(1)));

// -- the wire ---------------------------------------------------------------------------------------------

async function toggleWire(open, remembered = false) {
  document.body.classList.toggle("with-wire", open);
  $("wire").hidden = !open;
  $("show-wire").setAttribute("aria-expanded", String(open));
  if (remembered) set("wire", open);
  if (open && !pane) {
    const { WirePane } = await import("./pane.js");
    pane = new WirePane(wire, place);
    pane.render();
  }
}

$("show-wire").addEventListener("click", () => toggleWire($("wire").hidden, true));
$("hide-wire").addEventListener("click", () => toggleWire(false, true));
$("clear-wire").addEventListener("click", () => wire.clear());

// -- agents and examples -------------------------------------------------------------------------------------

function choose(name) {
  $("agent").value = name;
  set("agent", name);
  $("protocol").parentNode.hidden = name === OTHER;
  $("other").hidden = name !== OTHER;
  examples();
}

function examples() { // which leave the page with the first question
  const card = cards[$("agent").selectedIndex];
  const texts = (card?.skills ?? []).flatMap((skill) => skill.examples ?? []).slice(0, EXAMPLES);
  $("examples")?.replaceChildren(...texts.map((text) => button(visible(text), () => chat.ask(text))));
  if ($("about-agent")) $("about-agent").textContent = visible(card?.description ?? "");
  offerModes();
}

function offerModes() { // only a search has lists and summaries, and only NLWeb can choose among them
  $("mode").parentNode.hidden = !finds() || !isDeveloper() || $("protocol").value !== "nlweb";
}

function finds() { // whether the chosen agent searches: NLWeb is made for that, and NLIP carries pictures and sound, too
  const card = cards[$("agent").selectedIndex];
  return !card || (card.skills ?? []).some((skill) => (skill.tags ?? []).includes("search"));
}

async function agents() {
  const response = await fetch(at("/who?query="), { headers: headers() });
  if (response.status === 401) {
    signIn("Sign in to ask here. Ask the operator of this service for a key.");
    return;
  }
  const found = (await response.json()).results ?? [];
  cards = [...new Map(found.map((row) => [row.definition.name, row.definition])).values()];
  const options = cards.map((card) => make("option", { value: card.name }, visible(card.name)));
  $("agent").replaceChildren(...options, otherAddress);
  $("agent").parentNode.classList.toggle("for-developers", cards.length < 2); // nothing to choose
  if (cards.some((card) => card.name === settings.agent)) $("agent").value = settings.agent;
  examples();
}

// -- attachments ------------------------------------------------------------------------------------------

let attached = [];
let location_ = null;
let recorder = null;

function showAttached() {
  const nodes = attached.map((file, at) => make("span", { className: "chip" }, visible(file.name), button("×", () => {
    attached.splice(at, 1);
    showAttached();
  }, { ariaLabel: `Remove ${file.name}` })));
  if (location_) nodes.push(make("span", { className: "chip" }, "my location", button("×", () => {
    location_ = null;
    showAttached();
  }, { ariaLabel: "Remove my location" })));
  $("attached").replaceChildren(...nodes);
}

async function attach(files) {
  for (const file of files) attached.push({ name: file.name, type: file.type || "application/octet-stream", bytes: new Uint8Array(await file.arrayBuffer()) });
  showAttached();
}

async function record() {
  if (recorder) {
    recorder.stop();
    return;
  }
  let stream;
  try {
    stream = await navigator.mediaDevices.getUserMedia({ audio: true });
  } catch {
    tell("The microphone is not available. Allow it for this page, or attach a file.");
    return;
  }
  const pieces = [];
  recorder = new MediaRecorder(stream);
  recorder.ondataavailable = ({ data }) => pieces.push(data);
  recorder.onstop = async () => {
    const type = recorder.mimeType.split(";")[0] || "audio/webm";
    stream.getTracks().forEach((track) => track.stop());
    recorder = null;
    $("record").classList.remove("on");
    await attach([new File(pieces, `recording.${type.split("/")[1]}`, { type })]);
  };
  recorder.start();
  $("record").classList.add("on");
}

function locate() {
  const found = ({ coords }) => {
    location_ = { lat: Number(coords.latitude.toFixed(5)), lon: Number(coords.longitude.toFixed(5)) };
    showAttached();
  };
  navigator.geolocation?.getCurrentPosition(found, () => tell("Your location is not available. Allow it for this page, or write where you are."));
}

function tell(text) {
  $("notice").textContent = text;
  setTimeout(() => ($("notice").textContent = ""), 4000);
}

$("attach").addEventListener("click", () => $("files").click());
$("files").addEventListener("change", () => {
  attach($("files").files);
  $("files").value = "";
});
$("record").addEventListener("click", record);
$("locate").addEventListener("click", locate);
addEventListener("dragover", (event) => event.preventDefault());
addEventListener("drop", (event) => {
  event.preventDefault();
  if (event.dataTransfer.files.length) attach(event.dataTransfer.files);
});

// -- asking -----------------------------------------------------------------------------------------------

function grow() {
  const text = $("text");
  text.style.height = "auto";
  text.style.height = `${Math.min(text.scrollHeight + 2, innerHeight * 0.3)}px`;
}

function send() {
  const text = $("text").value.trim();
  if ((!text && !attached.length) || chat.running) return;
  $("text").value = "";
  grow();
  const input = { ...(attached.length ? { files: attached } : {}), ...(location_ ? { location: location_ } : {}) };
  attached = [];
  location_ = null;
  showAttached();
  chat.ask(text || "What is this?", input);
}

$("form").addEventListener("submit", (event) => {
  event.preventDefault();
  send();
});
$("text").addEventListener("input", grow);
$("text").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    send();
  }
});
addEventListener("keydown", (event) => {
  if (event.key === "Escape" && chat.running) chat.running.abort();
  if (event.key === "/" && !/^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement?.tagName ?? "")) {
    event.preventDefault();
    $("text").focus();
  }
});
$("new").addEventListener("click", () => {
  chat.forget();
  location.reload();
});
$("agent").addEventListener("change", () => choose($("agent").value));
$("protocol").addEventListener("change", () => {
  set("protocol", $("protocol").value);
  offerModes();
});
$("mode").addEventListener("change", () => set("mode", $("mode").value));
$("who").addEventListener("click", () => signIn());

$("protocol").replaceChildren(...PROTOCOLS.map((protocol) => make("option", { value: protocol.id }, protocol.label)));
$("protocol").value = settings.protocol ?? "nlweb";
$("mode").value = settings.mode ?? "list,summarize";
for (const [id, path] of Object.entries({
  attach: "M8 12l5-5a3 3 0 0 1 4 4l-7 7a5 5 0 0 1-7-7l7-7",
  record: "M12 4a3 3 0 0 1 3 3v5a3 3 0 0 1-6 0V7a3 3 0 0 1 3-3zM6 12a6 6 0 0 0 12 0M12 18v3",
  locate: "M12 21s7-6.2 7-11a7 7 0 0 0-14 0c0 4.8 7 11 7 11zm0-8.5a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5z",
})) $(id).prepend(icon(path, 20));
signedIn();
chat.restore();
showFor({ developer: settings.developer ?? Boolean(settings.operator), operator: Boolean(settings.operator) }); // as at the last visit
const ready = Promise.all([access(), agents().catch(() => {})]);
if (VIEWS.includes(location.hash.slice(1))) ready.then(() => show(location.hash.slice(1)));
const asked = new URLSearchParams(location.search).get("q");
if (asked) ready.then(() => chat.ask(asked));
