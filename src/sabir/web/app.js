// The page asks over NLWeb (POST /ask, server-sent events) like any other client. Everything shown is built
// with textContent: nothing that comes from a site is ever read as HTML.

const EXAMPLES = 4; // questions to try that are shown, of those on the agent's card
const POLL = 1000; // milliseconds between two looks at a promise

const $ = (id) => document.getElementById(id);
const talk = $("talk");
let session = null; // returned to the server as it came, like a cookie
let running = null; // the request that is under way

// -- building -----------------------------------------------------------------------------------

function make(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null) continue;
    if (name in node && name !== "list") node[name] = value;
    else node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
  return node;
}

function link(url, text, props = {}) {
  return isWeb(url) ? make("a", { href: url, target: "_blank", rel: "noopener noreferrer", ...props }, text) : null;
}

function isWeb(url) {
  try {
    return ["http:", "https:"].includes(new URL(url).protocol);
  } catch {
    return false;
  }
}

const first = (value) => (Array.isArray(value) ? value[0] : value);
const plain = (value) => (value && typeof value === "object" ? value.name ?? value["@value"] ?? "" : value ?? "");

// -- one turn -----------------------------------------------------------------------------------

class Turn {
  constructor(text) {
    this.text = text;
    this.node = make("section", { className: "turn" }, make("p", { className: "said" }, text));
    this.number = talk.querySelectorAll(".turn").length;
    this.count = 0;
    this.status = null;
    talk.append(this.node);
    this.wait();
    this.node.scrollIntoView({ block: "start", behavior: "smooth" });
  }

  wait(fraction, note, cancel) {
    this.status ??= this.node.appendChild(make("div", { className: "status", role: "status" }));
    const dots = make("span", { className: "dots" }, make("i"), make("i"), make("i"));
    const bar = typeof fraction === "number" ? make("progress", { max: 1, value: fraction }) : dots;
    const stop = cancel ? make("button", { type: "button", onclick: cancel }, "Cancel") : null;
    this.status.replaceChildren(bar, make("span", {}, note || (cancel ? "Still working on it" : "")), ...(stop ? [stop] : []));
    this.node.append(this.status);
  }

  done() {
    this.status?.remove();
    this.status = null;
  }

  put(node) {
    this.node.insertBefore(node, this.status);
  }

  understood(query) {
    if (!query || query === this.text || this.rewritten === query) return;
    this.rewritten = query;
    this.put(make("p", { className: "understood" }, `Searched for: ${query}`));
  }

  about(meta) {
    this.understood(meta.decontextualized_query);
    const ignored = Object.entries(meta.ignored_because ?? {}).map(([name, why]) => (name === "text" ? why.replace(": ", " – ") : `${name} – ${why}`));
    if (meta.note && !this.noted) {
      this.noted = true;
      this.put(make("p", { className: "understood" }, meta.note));
    }
    if (ignored.length && !this.ignored) {
      this.ignored = true;
      this.put(make("p", { className: "understood" }, `Left aside: ${ignored.join("; ")}`));
    }
    if (meta.coverage < 1 && !this.young) {
      this.young = true;
      const share = Math.floor(meta.coverage * 100);
      this.put(make("p", { className: "understood" }, `This index is new: ${share} % of it is known by meaning, the rest by its words. Answers get better in a moment.`));
    }
  }

  say(text) {
    if (!text) return;
    // A list in words repeats the cards; a summary cites them.
    if (this.count && !/\[\d+\]/.test(text)) return;
    this.words ??= make("p", { className: "words" });
    this.words.append(...this.cited(text));
    if (!this.words.isConnected) this.cards ? this.cards.before(this.words) : this.put(this.words);
  }

  cited(text) {
    return text.split(/(\[\d+\])/).map((piece) => {
      const number = /^\[(\d+)\]$/.exec(piece)?.[1];
      return number ? make("a", { className: "cite", href: `#${this.id(number)}`, title: "Its source" }, number) : piece;
    });
  }

  id(number) {
    return `r${this.number}-${number}`;
  }

  result(item) {
    if (["Summary", "SearchSummary"].includes(first(item["@type"]))) {
      if (!this.words) this.say(item.text);
      return;
    }
    if (first(item["@type"]) === "Answer" && !item.url) {
      if (!this.words) this.say(item.text);
      return;
    }
    this.count += 1;
    if (!this.cards) this.put((this.cards = make("ol", { className: "cards" })));
    this.cards.append(card(item, this.id(this.count), this.count));
  }

  fail(error) {
    const mild = ["NO_RESULTS", "CANCELLED"].includes(error.code);
    this.put(make("p", { className: mild ? "failure mild" : "failure", role: "alert" }, error.message || error.code));
  }

  ask(elicitation) {
    this.put(questionForm(elicitation, this));
  }
}

// -- cards --------------------------------------------------------------------------------------

function card(item, id, number) {
  const kind = first(item["@type"]) || "Thing";
  const title = plain(item.name) || plain(item.headline) || item["@id"];
  const score = typeof item.score === "number" && item.score > 0 ? item.score : null;
  return make(
    "li",
    { className: "card", id },
    make(
      "div",
      { className: "top" },
      make("span", { className: "number" }, String(number)),
      make("span", { className: "kind" }, kind.replace(/([a-z])([A-Z])/g, "$1 $2")),
      make("span", { className: "site" }, item.site || ""),
      score === null ? null : make("span", { className: "score", title: "How well it fits, of 100" },
        make("meter", { min: 0, max: 100, value: score }), String(Math.round(score))),
    ),
    make("h2", {}, link(item.url, title) ?? title),
    factsOf(item),
    typeof item.description === "string" ? make("p", { className: "about" }, item.description) : null,
    actionsOf(item),
    groundingOf(item.grounding),
  );
}

function factsOf(item) {
  const offer = first(item.offers) ?? {};
  const place = first(item.location) ?? item;
  const address = first(place.address) ?? {};
  const rating = first(item.aggregateRating);
  const matched = item.matched && typeof item.matched === "object" ? item.matched : {};
  const facts = [
    ...Object.entries(matched).filter(([field]) => !SHOWN.has(field)).map(([, value]) => ["", String(value)]),
    ["", price(offer) || price(first(item.estimatedCost) ?? {}) || price(item) || matched.price],
    ["", date(item.startDate) || matched.date],
    ["", duration(item.totalTime || item.cookTime) || matched.totaltime],
    ["", plain(first(item.recipeCategory))],
    ["", plain(first(item.servesCuisine))],
    ["", plain(item.priceRange)],
    ["★", rating ? String(rating.ratingValue ?? "") : ""],
    ["", typeof address === "string" ? address : [place !== item ? plain(place.name) : "", address.addressLocality].filter(Boolean).join(", ")],
  ].filter(([, value]) => value);
  if (!facts.length) return null;
  return make("ul", { className: "facts" }, ...facts.map(([sign, value]) => make("li", {}, sign ? `${sign} ` : "", make("strong", {}, value))));
}

const SHOWN = new Set(["price", "date", "startdate", "totaltime", "stars"]); // facts that every card shows in its own way

function price(offer) {
  const value = offer.price ?? offer.lowPrice ?? offer.value;
  if (value === undefined || value === "") return "";
  if (Number(value) === 0) return "Free";
  try {
    const digits = Number.isInteger(Number(value)) ? 0 : 2;
    return new Intl.NumberFormat(undefined, { style: "currency", currency: offer.priceCurrency || offer.currency || "USD", minimumFractionDigits: digits }).format(Number(value));
  } catch {
    return `${value} ${offer.priceCurrency ?? offer.currency ?? ""}`;
  }
}

function date(text) { // by the clock of the place, whatever zone this browser is in
  const found = /^(\d{4})-(\d{2})-(\d{2})(?:[T ](\d{2}):(\d{2}))?/.exec(typeof text === "string" ? text : "");
  if (!found) return "";
  const [year, month, day, hour, minute] = found.slice(1).map(Number);
  const when = new Date(Date.UTC(year, month - 1, day, hour || 0, minute || 0));
  const clock = found[4] === undefined ? {} : { hour: "numeric", minute: "2-digit" };
  return when.toLocaleString(undefined, { weekday: "short", day: "numeric", month: "short", year: "numeric", ...clock, timeZone: "UTC" });
}

function duration(text) {
  const found = /^P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?)?/.exec(typeof text === "string" ? text : "");
  if (!found) return "";
  return [[found[1], "d"], [found[2], "h"], [found[3], "min"]].filter(([n]) => Number(n)).map(([n, unit]) => `${n} ${unit}`).join(" ");
}

function actionsOf(item) {
  const actions = Array.isArray(item.actions) ? item.actions : [];
  if (!actions.length) return null;
  const shown = actions.slice(0, 3).map((action) => {
    const name = action.name || action["@type"] || "Action";
    const get = (action.method || "GET").toUpperCase() === "GET" && !/[{}]/.test(action.endpoint || "");
    return (get && link(action.endpoint, name, { title: action.description })) || make("span", { title: `${action.description || name} (${action.method || ""} ${action.endpoint || ""})` }, name);
  });
  return make("div", { className: "actions" }, ...shown);
}

function groundingOf(grounding) {
  const quotes = grounding?.citations ?? [];
  const urls = grounding?.source_urls ?? [];
  if (!quotes.length && !urls.length) return null;
  return make(
    "details",
    {},
    make("summary", {}, "Source"),
    ...quotes.slice(0, 3).map((quote) => make("blockquote", {}, typeof quote === "string" ? quote : quote.text ?? "")),
    ...urls.slice(0, 3).map((url) => make("div", { className: "source" }, link(url, url) ?? url)),
  );
}

// -- questions back -----------------------------------------------------------------------------

function questionForm(elicitation, turn) {
  const questions = elicitation.questions ?? [];
  const form = make("form", { className: "question" }, make("p", {}, elicitation.text));
  for (const question of questions) {
    const field = make("fieldset", {});
    if (question.text !== elicitation.text) field.append(make("legend", {}, question.text));
    if (question.options?.length) {
      const type = question.type === "multi_select" ? "checkbox" : "radio";
      field.append(make("div", { className: "options" }, ...question.options.map((option) =>
        make("label", {}, make("input", { type, name: question.id, value: option }), option))));
    } else {
      field.append(make("input", { type: "text", name: question.id, ariaLabel: question.text }));
    }
    form.append(field);
  }
  const answer = (answers, words) => {
    for (const control of form.elements) control.disabled = true;
    ask(words, answers);
  };
  const skip = make("button", { type: "button", onclick: () => answer({}, "no preference") }, "No preference");
  form.append(make("div", { className: "row" }, make("button", { type: "submit", className: "primary" }, "Continue"), skip));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const answers = {};
    for (const question of questions) {
      const given = new FormData(form).getAll(question.id).filter(Boolean);
      if (given.length) answers[question.id] = question.type === "multi_select" ? given : given[0];
    }
    const words = Object.values(answers).flat().map((option) => option.replace(/ \(\d+\)$/, "")).join(", ");
    answer(answers, words || "no preference");
  });
  return form;
}

// -- the wire -----------------------------------------------------------------------------------

async function ask(text, answers) {
  if (running) return;
  $("welcome")?.remove();
  const turn = new Turn(text);
  busy(true);
  running = new AbortController();
  const body = {
    query: { text },
    prefer: { streaming: true, response_format: "conv_search", mode: $("mode").value },
    meta: { api_version: "0.54", ...(session ? { session_context: session } : {}) },
  };
  if (answers && Object.keys(answers).length) body.context = { answers };
  try {
    const agent = $("agent").value;
    const response = await fetch(agent ? `/ask/${encodeURIComponent(agent)}` : "/ask", {
      method: "POST",
      headers: { "Content-Type": "application/json", Accept: "text/event-stream" },
      body: JSON.stringify(body),
      signal: running.signal,
    });
    for await (const [name, data] of events(response)) await take(turn, name, data);
  } catch (wrong) {
    if (wrong.name !== "AbortError") turn.fail({ message: `The gateway could not be reached: ${wrong.message}` });
  } finally {
    turn.done();
    running = null;
    busy(false);
  }
}

async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += value;
    const blocks = text.split(/\r?\n\r?\n/);
    text = blocks.pop();
    for (const block of blocks) {
      const name = /^event: ?(.*)$/m.exec(block)?.[1] ?? "message";
      const data = [...block.matchAll(/^data: ?(.*)$/gm)].map((line) => line[1]).join("\n");
      if (data) yield [name, JSON.parse(data)];
    }
  }
}

async function take(turn, name, data) {
  if (data._meta?.session_context) session = data._meta.session_context;
  if (data._meta) turn.about(data._meta);
  if (name === "result") turn.result(data.item);
  else if (name === "content") turn.say(data.text);
  else if (name === "progress") turn.wait(data.progress, data.message);
  else if (name === "elicitation") turn.ask(data.elicitation);
  else if (name === "promise") await keep(turn, data.promise);
  else if (name === "error") turn.fail(data.error);
}

async function keep(turn, promise) {
  const cancel = () => fetch(`/await/${promise.token}`, { method: "DELETE" });
  for (;;) {
    turn.wait(promise.progress, promise.message, cancel);
    await new Promise((later) => setTimeout(later, POLL));
    const body = await (await fetch(`/await/${promise.token}`)).json();
    if (body._meta?.session_context) session = body._meta.session_context;
    if (body.promise) {
      promise = body.promise;
      continue;
    }
    for (const item of body.results ?? body.structuredData ?? []) turn.result(item);
    for (const content of body.content ?? []) turn.say(content.text);
    if (body.elicitation) turn.ask(body.elicitation);
    if (body.error) turn.fail(body.error);
    return;
  }
}

// -- the page -----------------------------------------------------------------------------------

function busy(is) {
  $("send").disabled = is;
  if (!is && matchMedia("(hover: hover)").matches) $("text").focus();
}

function grow() {
  const text = $("text");
  text.style.height = "auto";
  text.style.height = `${Math.min(text.scrollHeight + 2, innerHeight * 0.3)}px`;
}

function send() {
  const text = $("text").value.trim();
  if (!text || running) return;
  $("text").value = "";
  grow();
  ask(text);
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
$("new").addEventListener("click", () => {
  running?.abort();
  session = null;
  location.reload();
});
$("agent").addEventListener("change", () => {
  session = null;
  examples();
});

let cards = []; // of the agents that can be asked, the default first

function examples() { // which leave the page with the first question
  const card = cards[$("agent").selectedIndex];
  const texts = (card?.skills ?? []).flatMap((skill) => skill.examples ?? []).slice(0, EXAMPLES);
  $("examples")?.replaceChildren(...texts.map((text) => make("button", { type: "button", onclick: () => ask(text) }, text)));
}

async function agents() {
  const found = (await (await fetch("/who")).json()).results ?? [];
  cards = [...new Map(found.map((row) => [row.definition.name, row.definition])).values()];
  $("agent").replaceChildren(...cards.map((card, place) => make("option", { value: place ? card.name : "", title: "" }, card.name)));
  examples();
}

agents().catch(() => {});
const asked = new URLSearchParams(location.search).get("q");
if (asked) ask(asked);
