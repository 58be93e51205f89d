// The directory: every agent of the gateway, what it can do, and where each protocol finds it.
import { at, button, copy, make, visible } from "./dom.js";

export async function render(root, place) {
  const response = await fetch(at("/who?query="), { headers: place.headers() });
  const rows = response.ok ? (await response.json()).results ?? [] : [];
  const agents = new Map();
  for (const row of rows) {
    const entry = agents.get(row.definition.name) ?? { card: row.definition, endpoints: [] };
    entry.endpoints.push([row.protocol, row.endpoint]);
    agents.set(row.definition.name, entry);
  }
  const health = await fetch(at("/health")).then((found) => found.json()).catch(() => ({}));
  root.replaceChildren(
    make("h1", {}, "Agents"),
    make("p", { className: "for-visitors" }, agents.size === 1 ? "One agent answers here." : `${agents.size} agents answer here. Choose one, or try one of its questions.`),
    make("p", { className: "for-developers" }, `${agents.size === 1 ? "One agent" : `${agents.size} agents, each`} reachable over every protocol. The gateway is `, make("span", { className: health.status === "ok" ? "badge" : "badge bad" }, health.status ?? "unknown")),
    make("div", { className: "grid" }, ...[...agents.values()].map((entry) => panel(entry, place))),
    make("h2", { className: "for-developers" }, "Connect a client"),
    make("div", { className: "grid for-developers" }, snippet("An MCP client", mcpConfig()), snippet("Python", python()), snippet("Your own site", widget())),
  );
}

function panel({ card, endpoints }, place) {
  const examples = (card.skills ?? []).flatMap((skill) => skill.examples ?? []).slice(0, 3);
  const details = make("details", { className: "for-developers" }, make("summary", {}, "Card"), make("pre", { className: "code" }, JSON.stringify(card, null, 2)));
  return make(
    "section",
    { className: "panel" },
    make("h3", {}, visible(card.name)),
    make("p", {}, visible(card.description ?? "")),
    (card.skills ?? []).length ? make("div", { className: "tries" }, ...card.skills.flatMap((skill) => skill.tags ?? [skill.name]).slice(0, 6).map((tag) => make("span", { className: "badge soft" }, visible(tag)))) : null,
    make("ul", { className: "endpoints for-developers" }, ...endpoints.map(([protocol, endpoint]) => make("li", {}, make("b", {}, protocol), address(endpoint)))),
    make("div", { className: "tries" }, ...examples.map((text) => button(`Try: ${visible(text)}`, () => place.ask(text, card.name))), examples.length ? null : button("Say hello", () => place.ask("Hello", card.name))),
    details,
  );
}

// An address of this gateway is shown by its path; a click copies all of it.
function address(endpoint) {
  const { protocol, host, pathname } = new URL(endpoint, location.href);
  const shown = host !== location.host ? endpoint : /^ws/.test(protocol) ? `${pathname} (WebSocket)` : pathname;
  return button(visible(shown), (event) => copy(endpoint, event.target), { title: `Copy ${endpoint}` });
}

function snippet(title, text) {
  return make("section", { className: "panel" }, make("h3", {}, title), make("pre", { className: "code", tabIndex: 0 }, text), button("Copy", (event) => copy(text, event.target)));
}

const mcpConfig = () => JSON.stringify({ mcpServers: { sabir: { type: "http", url: at("/mcp") } } }, null, 2);
const python = () => `from sabir import blocking\n\nwith blocking.connect(${JSON.stringify(at("/").replace(/\/$/, ""))}) as peer:\n    print(peer.ask("Hello").text)`;
const widget = () => `<script src="${at("/web/widget.js")}" data-mode="chat" async></scr` + "ipt>";
