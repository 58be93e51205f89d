// The timeline of a turn. A question with a trace id of the gateway gets one; it is shown as lanes.
import { at, button, make, visible } from "./dom.js";

const NS = "http://www.w3.org/2000/svg";
const WIDTH = 1000; // units of a lane
const DEEPEST = 4; // levels that are indented
const WORDS = { door: "Door", guard: "Guard", conversation: "Conversation", agent: "Agent", tool: "Tool", model: "Model", peer: "Peer", record: "Record", reply: "Reply" };
const milliseconds = (value) => `${value < 10 ? value.toFixed(2) : Math.round(value)} ms`;

// Trace ids of the gateway, several at a time; null if it gives none.
export class TraceIds {
  constructor(place) {
    this.place = place; // {headers()}
    this.ids = [];
    this.off = false;
  }

  async next() {
    if (!this.ids.length && !this.off) await this.fetch().catch(() => {});
    return this.ids.shift() ?? null;
  }

  async fetch() {
    const response = await fetch(at("/operate/traces"), { method: "POST", headers: this.place.headers() });
    if (response.ok) this.ids = (await response.json()).trace_ids;
    else this.off = response.status === 404; // a gateway without this door
  }
}

// The W3C trace context of a question.
export function traceparent(id) {
  const parent = [...crypto.getRandomValues(new Uint8Array(8))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return `00-${id}-${parent}-01`;
}

// The button that opens and closes the timeline of a turn.
export function traceButton(id, place) {
  const figure = make("figure", { className: "timeline", hidden: true });
  const control = button("Trace", async () => {
    const opens = figure.hidden;
    if (opens) figure.replaceChildren(...(await timeline(id, place)));
    figure.hidden = !opens;
    control.setAttribute("aria-expanded", String(opens));
  }, { className: "turn-button", title: "Where the time went" });
  control.setAttribute("aria-expanded", "false");
  return [control, figure];
}

async function timeline(id, place) {
  const response = await fetch(at(`/operate/traces/${id}`), { headers: place.headers() }).catch(() => null);
  if (!response?.ok) return [make("p", { className: "empty" }, "The gateway no longer has this timeline.")];
  const { hops } = await response.json();
  if (!hops.length) return [make("p", { className: "empty" }, "The gateway recorded no hops for this turn.")];
  const whole = Math.max(...hops.map((hop) => hop.ended ?? hop.began), 0.001);
  const caption = make("figcaption", {}, `${hops.length} hops in ${milliseconds(whole)}`, make("code", { title: "Trace id" }, id));
  return [caption, make("ol", { className: "lanes" }, ...nested(hops, null, 0).map(([hop, level]) => lane(hop, level, whole)))];
}

// Each hop with its depth, after the hop around it.
function nested(hops, parent, level) {
  const inside = hops.map((hop, index) => [hop, index]).filter(([hop]) => hop.parent === parent);
  return inside.flatMap(([hop, index]) => [[hop, Math.min(level, DEEPEST)], ...nested(hops, index, level + 1)]);
}

function lane(hop, level, whole) {
  const ended = hop.ended ?? whole;
  const svg = document.createElementNS(NS, "svg");
  const bar = document.createElementNS(NS, "rect");
  const left = (hop.began / whole) * WIDTH;
  const attributes = { x: Math.min(left, WIDTH - 3), y: 2, width: Math.max(((ended - hop.began) / whole) * WIDTH, 3), height: 10, rx: 2 };
  for (const [name, value] of Object.entries(attributes)) bar.setAttribute(name, value);
  for (const [name, value] of Object.entries({ viewBox: `0 0 ${WIDTH} 14`, preserveAspectRatio: "none", "aria-hidden": "true" })) svg.setAttribute(name, value);
  svg.append(bar);
  const state = hop.failed ? ", failed" : hop.ended === null ? ", running" : "";
  return make("li", { className: `lane hop ${hop.kind}${hop.failed ? " failed" : ""}`, title: `from ${milliseconds(hop.began)} to ${milliseconds(ended)}` },
    make("span", { className: `what level-${level}` }, make("b", {}, WORDS[hop.kind] ?? visible(hop.kind)), hop.name ? ` ${visible(hop.name)}` : "", state),
    svg,
    make("span", { className: "time" }, milliseconds(ended - hop.began)));
}
