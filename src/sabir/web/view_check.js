// The conformance suite against an address, filling in as it runs.
import { at, make, visible } from "./dom.js";
import { table, tableRow } from "./table.js";

export async function render(root, place) {
  if (root.childElementCount) return;
  const url = make("input", { type: "url", value: at("/").replace(/\/$/, ""), ariaLabel: "Address to check", required: true });
  const protocol = make("select", { ariaLabel: "Protocol" }, ...Object.entries({ nlip: "NLIP", nlweb: "NLWeb", acl: "ACL" }).map(([value, name]) => make("option", { value }, name)));
  const result = make("div", {});
  let running = null;
  const form = make("form", { className: "row", onsubmit: async (event) => {
    event.preventDefault();
    running?.abort();
    running = new AbortController();
    await run(result, place, { url: url.value, protocol: protocol.value }, running.signal);
  } }, url, protocol, make("button", { type: "submit", className: "primary" }, "Check"));
  result.append(make("p", { className: "empty" }, "Choose an address and press Check. Each clause appears as soon as it has been tested. The check only sends messages to that address; it changes nothing else."));
  root.replaceChildren(make("h1", {}, "Check"), make("p", {}, "Tests a server against the standard, clause by clause: this gateway, or any other server."), form, result);
}

async function run(root, place, what, signal) {
  const tally = { passed: 0, failed: 0, skipped: 0 };
  const head = make("p", { role: "status" }, "Starting…");
  const rows = table(["", "Clause", "What", "Found"], []);
  const body = rows.querySelector("tbody");
  root.replaceChildren(head, rows);
  try {
    const headers = { "Content-Type": "application/json", Accept: "text/event-stream", ...place.headers() };
    const pair = await place.wire.fetch("/operate/check", { method: "POST", headers, body: JSON.stringify(what), signal }, { protocol: "check", what: what.url });
    if (!pair[0].ok) {
      const refusal = await place.wire.json(pair);
      head.replaceWith(make("p", { className: "failure" }, visible(refusal?.content ?? refusal?.error ?? `The gateway answered ${pair[0].status}.`)));
      return;
    }
    for await (const event of place.wire.events(pair)) {
      const outcome = JSON.parse(event.data);
      if (event.name === "done") {
        head.textContent = outcome.stopped ? `Stopped: ${visible(outcome.stopped)}` : `${tally.passed} passed, ${tally.failed} failed, ${tally.skipped} skipped.`;
        continue;
      }
      tally[outcome.state] = (tally[outcome.state] ?? 0) + 1;
      head.textContent = `${tally.passed} passed, ${tally.failed} failed, ${tally.skipped} skipped…`;
      const badge = make("span", { className: { passed: "badge", failed: "badge bad" }[outcome.state] ?? "badge soft" }, outcome.state);
      const clause = make("div", {}, visible(outcome.id), make("div", { className: "clause" }, visible(outcome.clause ?? "")));
      body.append(tableRow([badge, clause, visible(outcome.text ?? ""), visible(outcome.reason ?? "")]));
    }
  } catch (error) {
    if (!signal.aborted) head.textContent = visible(error.message);
  }
}
