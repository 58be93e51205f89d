// The wire pane: the exact bytes of every request and response.
import { $, button, bytesInWords, copy, make, visible } from "./dom.js";
import * as cbor from "./cbor.js";
import { signed } from "./protocols.js";

const PREVIEW = 40_000; // characters of a body that are shown
function milliseconds(value) {
  if (value === undefined) return "…";
  return value < 999.5 ? `${value < 10 ? value.toFixed(1) : Math.round(value)} ms` : `${(value / 1000).toFixed(value < 10_000 ? 2 : 1)} s`;
}

export class WirePane {
  constructor(wire, place) {
    this.wire = wire;
    this.place = place;
    this.list = $("exchanges");
    this.nodes = new Map();
    wire.addEventListener("change", () => this.later());
  }

  later() { // at most one rendering a frame
    this.planned ??= requestAnimationFrame(() => {
      this.planned = null;
      this.render();
    });
  }

  render() {
    const { exchanges } = this.wire;
    $("wire-empty").hidden = exchanges.length > 0;
    for (const exchange of exchanges) {
      const stamp = `${exchange.events.length} ${exchange.frames?.length} ${exchange.took} ${exchange.response?.size} ${exchange.failure}`;
      const known = this.nodes.get(exchange);
      if (known?.stamp === stamp) continue;
      const node = this.exchange(exchange, known ? known.node.open : exchange === exchanges.at(-1));
      if (known) replace(known.node, node);
      else this.list.prepend(node);
      this.nodes.set(exchange, { node, stamp });
    }
    for (const [exchange, { node }] of this.nodes) {
      if (exchanges.includes(exchange)) continue;
      node.remove();
      this.nodes.delete(exchange);
    }
  }

  exchange(exchange, open) {
    const { request, response } = exchange;
    const path = new URL(request.url).pathname;
    const status = response ? String(response.status) : exchange.failure ? "failed" : "…";
    const sent = request.size + sum(exchange.frames, "sent");
    const received = (response?.size ?? 0) + sum(exchange.frames, "received");
    const tokens = new Tokens(exchange, this.place.key());
    const bodies = [ // drawn before the legend, which says what kinds of tokens they have
      section("Request", headers(requestLine(request), request.headers), body(request.body, tokens, "sent"), this.tools(exchange)),
      exchange.frames ? this.frames(exchange, tokens) : null,
      response && !exchange.frames ? section("Response", headers(`HTTP ${response.status} ${response.text}`, response.headers), body(response.body, tokens, "received")) : null,
      exchange.events.length ? events(exchange, tokens) : null,
    ];
    return make(
      "details",
      { className: "exchange", open },
      make(
        "summary",
        {},
        make("span", { className: "method" }, exchange.kind === "websocket" ? "WS" : request.method),
        make("span", { className: "path" }, path),
        make("span", { className: response && response.status < 400 ? "code good" : "code" }, status),
        make("span", { className: "sizes", title: "sent, received, time" }, `↑ ${bytesInWords(sent)}  ↓ ${bytesInWords(received)}  ${milliseconds(exchange.took)}`),
      ),
      make("p", { className: "purpose" }, `${exchange.protocol ?? ""} ${exchange.what ?? ""} · ${exchange.at.toLocaleTimeString()}${exchange.first ? ` · first byte ${milliseconds(exchange.first)}` : ""}${exchange.closed ? ` · closed ${exchange.closed}` : ""}`),
      tokens.legend(),
      ...bodies,
      exchange.failure ? make("p", { className: "failure" }, visible(exchange.failure)) : null,
    );
  }

  tools(exchange) {
    if (exchange.kind === "websocket") return null;
    return make(
      "div",
      { className: "tools" },
      button("Copy as curl", (event) => copy(asCurl(exchange.request), event.target)),
      button("Copy as Python", (event) => copy(asPython(exchange.request), event.target)),
      button("Edit and resend", (event) => this.edit(exchange, event.target)),
    );
  }

  edit({ request, protocol }, control) {
    editor(control, pretty(request.body) ?? String(request.body ?? ""), async (text) => {
      const headers = Object.fromEntries(Object.entries(request.headers).filter(([name]) => name !== "Idempotency-Key"));
      const options = { method: request.method, headers, ...(request.method === "GET" ? {} : { body: text }) };
      const pair = await this.wire.fetch(request.url, options, { protocol, what: AGAIN });
      if ((pair[0].headers.get("content-type") ?? "").startsWith("text/event-stream")) for await (const _ of this.wire.events(pair)); // reading records them
      else await this.wire.text(pair);
    });
  }

  frames(exchange, tokens) {
    const rows = exchange.frames.map((frame) => make(
      "details",
      { className: `event ${frame.direction}` },
      make("summary", {}, make("span", { className: "time" }, `+${milliseconds(frame.after)}`), make("b", {}, frame.direction === "sent" ? "↑ sent" : "↓ received"), ` ${typeof frame.data === "string" ? "text" : "CBOR"}, ${bytesInWords(frame.size)}`),
      frame.direction === "sent" ? this.frameTools(exchange, frame) : null,
      body(frame.data, tokens, frame.direction),
    ));
    return section(`Frames (${rows.length})`, ...rows);
  }

  frameTools({ request, protocol }, { data }) {
    if (!(data instanceof Uint8Array)) return null;
    const message = unsigned(cbor.decode(data));
    const tools = [button("Copy as Python", (event) => copy(socketPython(request.url, message, this.place.key()), event.target))];
    if (!hasBytes(message)) tools.push(button("Edit and resend", (event) => editor(event.target, JSON.stringify(message, null, 2), (text) => this.resend(request.url, protocol, JSON.parse(text)))));
    return make("div", { className: "tools" }, ...tools);
  }

  // On a connection of its own, so that the chat does not take the answer for one of its own.
  resend(url, protocol, message) {
    const socket = this.wire.socket(url, { protocol, what: AGAIN });
    socket.onopen = () => socket.send(cbor.encode(signed(message, this.place.key())));
    socket.onmessage = ({ data }) => {
      const reply = typeof data === "string" ? JSON.parse(data) : cbor.decode(new Uint8Array(data));
      if (reply.messagetype !== "partial") socket.close();
    };
  }
}

const AGAIN = "sent again, edited";

// A new rendering in the place of the old one; what was opened stays open, and what is being edited stays.
function replace(old, node) {
  const opened = [...old.querySelectorAll("details")].map((details) => details.open);
  node.querySelectorAll("details").forEach((details, at) => { details.open = opened[at] ?? details.open; });
  const tools = [...node.querySelectorAll(".tools")];
  const focus = document.activeElement;
  const editing = [...old.querySelectorAll(".tools")].map((place) => (place.nextElementSibling?.matches(".editor") ? place.nextElementSibling : null));
  old.replaceWith(node);
  editing.forEach((form, at) => {
    if (!form || !tools[at]) return;
    tools[at].after(form);
    tools[at].lastElementChild.disabled = true;
    if (form.contains(focus)) focus.focus();
  });
}

// A text area below the buttons; `send` takes its text.
function editor(control, text, send) {
  const area = make("textarea", { className: "edit", rows: 10, spellcheck: false, ariaLabel: "Body to send" }, text);
  const problem = make("p", { className: "failure", role: "alert", hidden: true });
  const submit = button("Send", async () => {
    try {
      problem.hidden = true;
      await send(area.value);
    } catch (error) {
      problem.textContent = visible(error.message);
      problem.hidden = false;
    }
  }, { className: "primary" });
  control.parentNode.after(make("div", { className: "editor" }, area, submit, problem));
  control.disabled = true;
  area.focus();
}

const sum = (frames, direction) => (frames ?? []).filter((frame) => frame.direction === direction).reduce((total, frame) => total + frame.size, 0);
const requestLine = (request) => `${request.method} ${new URL(request.url).pathname}${new URL(request.url).search}`;

function section(title, ...children) {
  return make("section", {}, make("h4", {}, title), ...children);
}

const SECRET = /^(authorization|x-api-key)$/i;
const HIDDEN = "••••••";

function headers(line, values) {
  const rows = Object.entries(values).map(([name, value]) => make("div", {}, make("b", {}, `${name}: `), SECRET.test(name) ? HIDDEN : visible(value)));
  return make("div", { className: "headers" }, make("div", {}, visible(line)), ...rows);
}

function pretty(text) {
  if (typeof text !== "string") return null;
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return null;
  }
}

function body(data, tokens, direction) {
  if (!data) return null;
  if (data instanceof Blob) return make("p", { className: "purpose" }, `${bytesInWords(data.size)} of ${data.type || "bytes"}`);
  if (data instanceof Uint8Array) return binary(data, tokens, direction);
  const text = pretty(data) ?? data;
  const shown = text.slice(0, PREVIEW);
  return make("pre", { className: "body", tabIndex: 0 }, ...tokens.mark(shown, direction), shown.length < text.length ? `\n… ${text.length - shown.length} more characters` : "");
}

function events(exchange, tokens) {
  const rows = exchange.events.map((event) => make(
    "details",
    { className: "event" },
    make("summary", {}, make("span", { className: "time" }, `+${milliseconds(event.after)}`), make("b", {}, event.name), event.id ? ` #${event.id}` : "", ` ${visible(event.data.slice(0, 80))}`),
    body(event.data, tokens, "received"),
  ));
  return section(`Events (${rows.length})`, ...rows);
}

// -- CBOR: hex next to a tree that explains each byte -----------------------------------------------------------

function binary(bytes, tokens, direction) {
  let tree;
  try {
    tree = cbor.parse(bytes);
  } catch (error) {
    return make("div", {}, make("p", { className: "failure" }, error.message), hex(bytes));
  }
  const dump = hex(bytes, tokens.hidden(tree));
  const light = (node, on) => {
    const cells = dump.querySelectorAll("span");
    for (let at = node.start; at < Math.min(node.end, cells.length); at += 1) cells[at].classList.toggle("lit", on);
  };
  return make("div", { className: "cbor" }, dump, make("div", { className: "tree", tabIndex: 0 }, branch(tree, light, tokens, direction)));
}

const HEX_SHOWN = 4096;

function hex(bytes, hidden = []) {
  const isHidden = (at) => hidden.some(({ start, end }) => at >= start && at < end);
  const cells = [...bytes.subarray(0, HEX_SHOWN)].map((byte, at) => make("span", {}, isHidden(at) ? "••" : byte.toString(16).padStart(2, "0")));
  const rest = bytes.length > HEX_SHOWN ? ` … ${bytes.length - HEX_SHOWN} more bytes` : "";
  return make("div", { className: "hex", tabIndex: 0, ariaLabel: "Bytes in hexadecimal" }, ...cells, rest);
}

function branch(node, light, tokens, direction) {
  const range = make("span", { className: "range" }, `${node.start}–${node.end - 1}`);
  const name = node.name === undefined ? null : make("b", {}, `${visible(node.name)}: `);
  const line = make("div", { className: "leaf" }, range, name, make("i", {}, node.kind), " ", ...valueOf(node, tokens, direction));
  line.onmouseenter = () => light(node, true);
  line.onmouseleave = () => light(node, false);
  const inner = node.children.filter((child) => child.name !== undefined || node.kind !== "map").map((child) => branch(child, light, tokens, direction));
  return make("div", { className: "branch" }, line, ...inner);
}

function valueOf(node, tokens, direction) {
  if (node.kind === "map" || node.kind === "array") return [`(${node.kind === "map" ? node.children.length / 2 : node.children.length})`];
  if (node.kind === "bytes") return [bytesInWords(node.value.length)];
  return tokens.mark(JSON.stringify(node.value ?? null).slice(0, 400), direction);
}

// -- tokens: whose they are, and whether they came back ------------------------------------------------------

const GATEWAY = /sb1\.[\w-]{20,}/g;
const OWN = /page-[0-9a-f]{8}-[0-9a-f-]{27}/g;

class Tokens {
  constructor({ request, frames = [] }, key) {
    this.key = key; // of the caller: never shown
    const sent = [request.body, ...frames.filter((frame) => frame.direction === "sent").map((frame) => frame.data)];
    this.sent = new Set(sent.flatMap((data) => asText(data).match(new RegExp(`${GATEWAY.source}|${OWN.source}`, "g")) ?? []));
    this.seen = new Set();
  }

  hidden(node) { // the nodes of a CBOR tree that hold the key
    if (!this.key) return [];
    return node.value === this.key ? [node] : node.children.flatMap((child) => this.hidden(child));
  }

  mark(whole, direction) {
    const text = this.key ? whole.replaceAll(this.key, HIDDEN) : whole;
    const nodes = [];
    let last = 0;
    for (const found of text.matchAll(new RegExp(`${GATEWAY.source}|${OWN.source}`, "g"))) {
      const kind = direction === "received" && this.sent.has(found[0]) ? "echoed" : found[0].startsWith("sb1.") ? "theirs" : "ours";
      this.seen.add(kind);
      nodes.push(visible(text.slice(last, found.index)), make("mark", { className: kind, title: LEGEND[kind] }, found[0]));
      last = found.index + found[0].length;
    }
    nodes.push(visible(text.slice(last)));
    return nodes;
  }

  legend() {
    if (!this.seen.size) return null;
    return make("p", { className: "legend" }, "Tokens: ", ...[...this.seen].map((kind) => make("mark", { className: kind }, LEGEND[kind])));
  }
}

const LEGEND = { ours: "made by this page", theirs: "made by the gateway", echoed: "returned unchanged" };

function asText(data) {
  if (typeof data === "string") return data;
  return data instanceof Uint8Array ? new TextDecoder().decode(data) : "";
}

// -- copy ---------------------------------------------------------------------------------------------------

const quoted = (text) => `'${String(text).replaceAll("'", `'\\''`)}'`;

export function asCurl(request) {
  const parts = ["curl -sN", quoted(request.url)];
  if (!["GET", "POST"].includes(request.method)) parts.push(`-X ${request.method}`);
  for (const [name, value] of Object.entries(request.headers)) parts.push(`-H ${quoted(`${name}: ${SECRET.test(name) ? "…" : value}`)}`);
  if (typeof request.body === "string") parts.push(`--data-raw ${quoted(request.body)}`);
  return parts.join(" \\\n  ");
}

export function asPython(request) {
  const headers = Object.fromEntries(Object.entries(request.headers).map(([name, value]) => [name, SECRET.test(name) ? "…" : value]));
  const content = typeof request.body === "string" ? `, content=${JSON.stringify(request.body)}.encode()` : "";
  return `import httpx2\n\nwith httpx2.stream(${JSON.stringify(request.method)}, ${JSON.stringify(request.url)}, headers=${JSON.stringify(headers)}${content}) as response:\n    print(response.status_code)\n    for line in response.iter_lines():\n        print(line)\n`;
}

// What `signed` added is taken out again: keys are not copied and not edited.
function unsigned(message) {
  if (!Array.isArray(message?.submessages)) return message;
  return { ...message, submessages: message.submessages.filter((part) => !(part.format === "token" && part.subformat === "authentication")) };
}

const hasBytes = (value) => value instanceof Uint8Array || (typeof value === "object" && value !== null && Object.values(value).some(hasBytes));

export function socketPython(url, message, key) {
  const bytes = [...cbor.encode(message)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  const headers = key ? ', additional_headers={"Authorization": "Bearer …"}' : "";
  return `from websockets.sync.client import connect\n\nwith connect(${JSON.stringify(url)}${headers}) as socket:\n    socket.send(bytes.fromhex("${bytes}"))  # CBOR\n    for answer in socket:\n        print(answer)\n        if b"messagetypegpartial" not in answer:  # the last one\n            break\n`;
}
