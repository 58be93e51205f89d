// For operators: health, rates, limits and the audit log.
import { control } from "./control.js";
import { at, make, visible } from "./dom.js";
import { table } from "./table.js";

const EVERY = 2000; // milliseconds between two reads of the metrics
const POINTS = 60;
const SHOWN = [
  ["sabir_turns_total", "Turns", "rate"], ["errors", "Failed turns", "rate"], ["sabir_tasks_running", "Tasks running", "value"], ["sabir_store_waiting", "Writes waiting", "value"],
];
const PARTS = { status: "Status", version: "Version", running: "Turns running", waiting: "Turns waiting" };
let timer = null;

export async function render(root, place) {
  clearInterval(timer);
  const charts = make("div", { className: "grid charts" });
  const health = make("div", {});
  const audit = make("div", {});
  const limits = make("div", {});
  const dead = make("div", {});
  root.replaceChildren(make("h1", {}, "Operate"), make("p", {}, "What this gateway is doing now."),
    make("h2", {}, "Health"), health, make("h2", {}, "Metrics"), charts, make("h2", {}, "Limits"), limits, make("h2", {}, "Dead letters"), dead, make("h2", {}, "Audit"), audit);
  await Promise.all([showHealth(health), showLimits(limits, place), showAudit(audit, place), showDead(dead, place)]);
  const series = new Map();
  const look = () => showMetrics(charts, series, place);
  timer = setInterval(() => (root.hidden ? clearInterval(timer) : look()), EVERY);
  await look();
}

async function showHealth(root) {
  const health = await fetch(at("/health")).then((found) => found.json()).catch((error) => ({ status: error.message }));
  root.replaceChildren(table(["Part", "State"], Object.entries(health).map(([name, value]) => [PARTS[name] ?? name.replaceAll("_", " "), visible(typeof value === "object" ? JSON.stringify(value) : value)])));
}

async function showLimits(root, place) {
  const { limits = {} } = await control(place, "What are your limits?", "limits");
  root.replaceChildren(table(["Limit", "Value"], Object.entries(limits).map(([name, value]) => [name.replaceAll("_", " "), typeof value === "number" ? value.toLocaleString() : visible(JSON.stringify(value))])));
}

async function showAudit(root, place) {
  const response = await fetch(at("/operate/audit?limit=50"), { headers: place.headers() });
  if (!response.ok) {
    root.replaceChildren(make("p", { className: "empty" }, response.status === 401 || response.status === 403 ? "The audit log is for operators: sign in with an operator's key." : `The gateway answered ${response.status}.`));
    return;
  }
  const { entries } = await response.json();
  root.replaceChildren(entries.length ? table(["When", "Who", "What", "Outcome"], entries.map(auditRow)) : make("p", { className: "empty" }, "No entries yet."));
}

function auditRow({ at: seconds, caller = "", kind, door = "", agent = "", outcome = "ok" }) { // the log leaves out what is usual
  const badge = make("span", { className: outcome === "ok" ? "badge" : "badge bad" }, visible(outcome));
  return [new Date(seconds * 1000).toLocaleString(), visible(caller), visible([kind, door, agent].filter(Boolean).join(" · ")), badge];
}

async function showDead(root, place) {
  const response = await fetch(at("/operate/dead-letters"), { headers: place.headers() });
  const { dead = [] } = response.ok ? await response.json() : {};
  root.replaceChildren(dead.length ? table(["To", "Number", "Why"], dead.map((letter) => [visible(letter.name), String(letter.number), visible(letter.reason)])) : make("p", { className: "empty" }, "No dead letters."));
}

async function showMetrics(root, series, place) {
  const response = await fetch(at("/metrics"), { headers: place.headers() });
  if (!response.ok) {
    clearInterval(timer);
    root.replaceChildren(make("p", { className: "empty" }, response.status === 404 ? "Metrics are off. To see charts, set observe: {metrics: true} in the configuration, and restart the gateway." : "Metrics are for operators: sign in with an operator's key."));
    return;
  }
  const values = totals(await response.text());
  const now = performance.now();
  root.replaceChildren(...SHOWN.map(([name, title, kind]) => {
    const points = series.get(name) ?? [];
    series.set(name, points);
    const value = values.get(name) ?? 0;
    const last = points.at(-1);
    points.push({ at: now, value, shown: kind === "value" ? value : last ? Math.max(0, ((value - last.value) * 1000) / (now - last.at)) : 0 });
    if (points.length > POINTS) points.shift();
    const shown = points.at(-1).shown;
    return make("section", { className: "panel" }, make("h3", {}, title), make("div", { className: "figure" }, kind === "rate" ? `${shown.toFixed(1)} /s` : String(shown)), chart(points, title), kind === "rate" ? make("p", {}, `${value.toLocaleString()} in total`) : null);
  }));
}

function totals(text) {
  const sums = new Map();
  for (const line of text.split("\n")) {
    const found = /^([a-z_]+)(?:\{[^}]*\})? ([\d.e+-]+)/.exec(line);
    if (!found) continue;
    sums.set(found[1], (sums.get(found[1]) ?? 0) + Number(found[2]));
    if (found[1] === "sabir_turns_total" && !/outcome="(ok|Cancelled|CancelledError)"/.test(line)) sums.set("errors", (sums.get("errors") ?? 0) + Number(found[2]));
  }
  return sums;
}

function chart(points, title) { // the newest point at the right
  const NS = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(NS, "svg");
  const top = Math.max(1e-9, ...points.map((point) => point.shown));
  const line = document.createElementNS(NS, "polyline");
  const drawn = points.length > 1 ? points : [points[0], points[0]]; // one point would draw nothing
  line.setAttribute("points", drawn.map((point, place) => `${100 - ((drawn.length - 1 - place) * 100) / (POINTS - 1)},${30 - (27 * point.shown) / top}`).join(" "));
  for (const [name, value] of Object.entries({ viewBox: "0 0 100 32", preserveAspectRatio: "none", class: "chart", role: "img", "aria-label": `${title}, the last two minutes` })) svg.setAttribute(name, value);
  svg.append(line);
  return svg;
}
