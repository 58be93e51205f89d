// One conversation on the page: questions, answers, and what is kept across reloads.
import { $, button, bytesInWords, icon, link, make, visible } from "./dom.js";
import { card } from "./cards.js";
import { markdown } from "./markdown.js";
import { questionForm } from "./forms.js";
import { Panel } from "./panel.js";
import { base64, protocolOf, unbase64 } from "./protocols.js";
import { TraceIds, traceButton, traceparent } from "./trace.js";

const KEPT = 60; // turns that are remembered across reloads
const STORE = "sabir.chat";
const CARDS = 12; // cards that are shown at once
const HERE = "my location";
const SMALL = 200_000; // bytes; a larger file of an answer is not remembered across reloads

export class TurnView {
  constructor(talk, text, attached, ask) {
    this.text = text;
    this.ask = ask;
    this.number = talk.querySelectorAll(".turn").length;
    this.items = [];
    this.source = "";
    this.files = [];
    this.events = []; // beside words, results and files: what was understood, asked back, or failed
    this.attached = attached;
    const names = attached.map((name) => make("span", { className: "attached" }, name === HERE ? null : icon("M8 12l5-5a3 3 0 0 1 4 4l-7 7a5 5 0 0 1-7-7l7-7", 14), visible(name)));
    this.node = make("section", { className: "turn", ariaLabel: "Turn" }, make("p", { className: "said" }, visible(text), ...names));
    talk.append(this.node);
  }

  scroll() {
    this.node.scrollIntoView({ block: "start", behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
  }

  put(node) {
    this.node.insertBefore(node, this.status ?? null);
  }

  above(node) { // what was understood stands over the answer, whichever came first
    const answer = [this.box, this.facets, this.cards].filter((part) => part?.isConnected);
    if (answer.length) answer[0].before(node);
    else this.put(node);
  }

  wait(fraction, note, cancel) {
    this.status ??= this.node.appendChild(make("div", { className: "status", role: "status" }));
    if (cancel) this.cancel = cancel;
    const dots = make("span", { className: "dots" }, make("i"), make("i"), make("i"));
    const bar = typeof fraction === "number" ? make("progress", { max: 1, value: fraction, ariaLabel: "Progress" }) : dots;
    const stop = this.cancel ? button("Cancel", this.cancel) : null;
    this.status.replaceChildren(...[bar, make("span", {}, visible(note || "")), stop].filter(Boolean));
  }

  done() {
    this.status?.remove();
    this.status = null;
    this.panel?.end();
  }

  progress(fraction, note) {
    this.wait(fraction, note);
    if (this.panel) this.panel.note(note);
    else this.members(Panel.opened(note), note);
  }

  members(panel, note) {
    if (!panel) return;
    this.panel = panel;
    if (note) panel.note(note);
    this.put(panel.node);
  }

  trace(id, place) {
    if (!id) return;
    this.traceId = id;
    const [control, figure] = traceButton(id, place);
    this.put(make("div", { className: "turn-tools for-developers" }, control));
    figure.classList.add("for-developers");
    this.put(figure);
  }

  words(text, whole) {
    this.source = whole ? text : this.source + text;
    if (!this.source.trim()) return;
    if (this.repeatsCards()) return;
    if (!this.box) {
      this.box = make("div", { className: "words" });
      const found = this.facets ?? this.cards;
      if (found) found.before(this.box);
      else this.put(this.box);
    }
    this.box.replaceChildren(...markdown(this.source, (number) => this.cite(number)));
    this.sayOnce();
  }

  sayOnce() { // a summary often begins with what a note says
    if (this.note && this.source.startsWith(this.note.textContent)) this.note.remove();
  }

  // A list in words repeats the cards and makes way for them; a summary cites them and stays.
  repeatsCards() {
    if (!this.items.length || /\[\d+\]/.test(this.source) || !/^\s*1[.)] /.test(this.source)) return false;
    this.source = "";
    this.box?.remove();
    this.box = null;
    return true;
  }

  cite(number) {
    return make("a", { className: "cite", href: `#${this.id(number)}`, title: "Go to the source" }, number);
  }

  id(number) {
    return `r${this.number}-${number}`;
  }

  item(item) {
    this.items.push(item);
    this.repeatsCards();
    if (!this.cards) this.put((this.cards = make("ol", { className: "cards" })));
    if (this.items.length <= CARDS) this.cards.append(card(item, this.id(this.items.length), this.items.length));
    else if (!this.more) {
      this.more = button("", () => this.rest(), { className: "more" });
      this.cards.after(this.more);
    }
    if (this.more) this.more.textContent = `Show ${this.items.length - CARDS} more`;
    if (this.items.length === CARDS || this.facets) this.facet();
  }

  rest() {
    this.items.slice(CARDS).forEach((item, place) => this.cards.append(card(item, this.id(CARDS + place + 1), CARDS + place + 1)));
    this.more.remove();
    this.narrow(this.kind ?? null);
  }

  narrow(kind) { // shows the cards of one kind, or all
    this.kind = kind;
    for (const node of this.cards.children) node.hidden = kind !== null && node.querySelector(".kind").textContent.replaceAll(" ", "") !== kind;
    for (const choice of this.facets?.children ?? []) choice.ariaPressed = String((choice.dataset.kind || null) === kind);
  }

  // The kinds of results, to filter by one.
  facet() {
    const kinds = new Map();
    for (const item of this.items) {
      const kind = String([item["@type"]].flat()[0] ?? "Thing");
      kinds.set(kind, (kinds.get(kind) ?? 0) + 1);
    }
    if (kinds.size < 2) return;
    this.facets ??= make("div", { className: "facets", role: "group", ariaLabel: "Kinds of results" });
    const choice = (label, kind) => button(label, () => this.narrow(kind), { dataset: { kind: kind ?? "" } });
    this.facets.replaceChildren(choice("All", null), ...[...kinds].map(([kind, count]) => choice(`${kind.replace(/([a-z])([A-Z])/g, "$1 $2")} ${count}`, kind)));
    if (!this.facets.isConnected) this.cards.before(this.facets);
    this.narrow(this.kind ?? null);
  }

  file(file) {
    this.files.push(file);
    this.gallery ??= make("div", { className: "files" });
    if (!this.gallery.isConnected) this.put(this.gallery);
    this.gallery.append(fileNode(file));
  }

  about(meta) {
    const query = meta.decontextualized_query;
    if (query && query !== this.text && query !== this.rewritten) {
      this.rewritten = query;
      this.above(make("p", { className: "understood" }, `Searched for: ${visible(query)}`));
    }
    if (meta.note && !this.note) {
      this.note = make("p", { className: "understood" }, visible(meta.note));
      this.above(this.note);
      this.sayOnce();
    }
    this.chips(meta);
    const ignored = Object.entries(meta.ignored_because ?? {}).map(([name, why]) => (name === "text" ? why.replace(": ", " – ") : `${name} – ${why}`));
    if (ignored.length && !this.ignored) {
      this.ignored = true;
      this.above(make("p", { className: "understood" }, `Ignored: ${visible(ignored.join("; "))}`));
    }
    if (meta.coverage < 1 && !this.young) {
      this.young = true;
      this.above(make("p", { className: "understood" }, `This site is still being indexed (${Math.floor(meta.coverage * 100)} %). Answers get better in a moment.`));
    }
  }

  // The understood filters; each can be removed, if its words are in the question.
  chips(meta) {
    if (!Array.isArray(meta.applied) || !meta.applied.length || this.filters) return;
    const applied = [...new Set(meta.applied.map(String))];
    this.filters = make("div", { className: "chips", role: "group", ariaLabel: "Filters that were understood" }, ...applied.map((words) => {
      const rest = without(this.rewritten ?? this.text, words);
      const remove = rest && button("×", () => this.ask(rest, { standalone: true }), { ariaLabel: `Search without ${words}`, title: "Search without this" });
      return make("span", { className: remove ? "chip" : "chip fixed" }, visible(words), remove);
    }));
    this.above(this.filters);
  }

  question(question, answer) {
    this.put(questionForm(question, answer));
  }

  answered() { // its questions were answered, or left
    for (const control of this.node.querySelectorAll(".question :is(input, button)")) control.disabled = true;
  }

  fail(fault) {
    const mild = ["NO_RESULTS", "CANCELLED", "cancelled", "canceled"].includes(fault.code);
    this.put(make("p", { className: mild ? "failure mild" : "failure", role: "alert" }, ...inWords(fault)));
  }
}

// What failed, for whoever reads it: developers see the message itself, visitors what to do.
const FAILED = /^.+ failed; the operator's log says why(?: \(turn (\w+)\))?$/;

function inWords(fault) {
  const message = visible(fault.message || fault.code || "The request failed.");
  const found = FAILED.exec(message);
  if (!found) return [message];
  const reference = found[1] ? ` If it happens again, tell whoever runs this service the number ${found[1].slice(0, 12)}.` : "";
  return [
    make("span", { className: "for-visitors" }, `This question could not be answered. Try again in a moment.${reference}`),
    make("span", { className: "for-developers" }, message),
  ];
}

// A question without some of its words; null if they are not in it, or nothing else remains.
export function without(question, words) {
  const place = question.toLowerCase().indexOf(words.toLowerCase());
  if (place < 0) return null;
  const rest = `${question.slice(0, place)} ${question.slice(place + words.length)}`.replace(/\s+/g, " ").replace(/\s([,.?!])/g, "$1").trim();
  return /\p{L}/u.test(rest) ? rest : null;
}

export function fileNode(file) {
  const url = file.url ?? URL.createObjectURL(new Blob([file.bytes], { type: file.type }));
  const kind = (file.type ?? "").split("/")[0];
  const own = url.startsWith("blob:") || new URL(url, location.href).origin === location.origin;
  if (kind === "image" && own && file.type !== "image/svg+xml") return make("img", { src: url, alt: visible(file.name), className: "picture" });
  if (kind === "audio" && own) return make("audio", { src: url, controls: true, ariaLabel: visible(file.name) });
  if (kind === "video" && own) return make("video", { src: url, controls: true, ariaLabel: visible(file.name) });
  const size = file.bytes ? `, ${bytesInWords(file.bytes.length)}` : "";
  if (url.startsWith("blob:")) return make("a", { href: url, download: file.name, className: "file" }, icon("M12 4v11m0 0l-4-4m4 4l4-4M5 19h14"), `${visible(file.name)}${size}`);
  return link(url, visible(file.name), { className: "file" }) ?? make("span", { className: "file" }, visible(file.name));
}

// Tasks of this tab: anonymous callers cannot list their tasks at the gateway.
const TASKS = "sabir.tasks";
export const remembered = () => JSON.parse(sessionStorage.getItem(TASKS) ?? "[]"); // [{id, agent}]

function remember(id, agent) {
  sessionStorage.setItem(TASKS, JSON.stringify([{ id, agent }, ...remembered().filter((known) => known.id !== id)].slice(0, 20)));
}

export class Chat {
  constructor(place) {
    this.place = place; // {wire, headers()}
    this.talk = $("talk");
    this.running = null;
    this.speakers = new Map(); // by protocol and agent
    this.traceIds = new TraceIds(place);
    this.kept = [];
  }

  speaker(protocol, agent, name) {
    const key = `${protocol} ${agent}`;
    if (!this.speakers.has(key)) {
      const made = new (protocolOf(protocol))({ ...this.place, agent, name });
      made.session = this.sessions?.[key] ?? {};
      this.speakers.set(key, made);
    }
    return this.speakers.get(key);
  }

  async ask(text, input = {}) {
    if ("answers" in input) await this.ended; // a question can be answered before the last byte of its turn
    if (this.running) return;
    $("welcome")?.remove();
    const { protocol, agent, name, mode } = this.place.chosen(input);
    const attached = [...(input.files ?? []).map((file) => file.name), ...(input.location ? [HERE] : [])];
    const view = new TurnView(this.talk, text, attached, (words, more) => this.ask(words, more));
    view.agent = name;
    this.kept.push({ text, attached, items: [], events: [{ kind: "fault", code: "cancelled", message: "The page was left before the answer was complete. Ask again." }] });
    this.store();
    view.wait();
    view.scroll();
    this.busy(true);
    const stop = (this.running = new AbortController());
    let end;
    this.ended = new Promise((resolve) => (end = resolve));
    view.cancel = () => stop.abort();
    const speaker = this.speaker(protocol, agent, name);
    if (input.standalone && !["nlip", "nlip-ws", "nlweb"].includes(protocol)) speaker.session = {}; // the others have no such option
    const trace = await this.traceIds.next();
    speaker.trace = trace && traceparent(trace);
    try {
      if (input.files?.length && speaker.constructor.noFiles) throw new Error(`${speaker.constructor.noFiles} Choose NLIP, MCP or A2A above.`);
      for await (const event of speaker.ask({ text, mode, ...input }, stop.signal)) this.take(view, this.explained(event, input, speaker));
    } catch (error) {
      const message = error instanceof TypeError ? "The connection failed. Check your network, and try again." : error.message;
      this.take(view, { kind: "fault", ...(stop.signal.aborted ? { code: "cancelled", message: "Cancelled." } : { message }) });
    } finally {
      view.done();
      view.trace(trace, this.place);
      this.running = null;
      this.busy(false);
      this.keep(view);
      this.place.finished?.(view);
      end();
    }
  }

  // Only NLIP uploads large files; elsewhere, a limit on the size of a request says nothing about files.
  explained(event, input, speaker) {
    const isTooLarge = event.kind === "fault" && input.files?.length && this.place.wire.exchanges.at(-1)?.response?.status === 413;
    return isTooLarge ? { ...event, message: `This is too large to send over ${speaker.constructor.label}. Choose NLIP above, which uploads large files.` } : event;
  }

  take(view, event) {
    if (["meta", "question", "fault"].includes(event.kind)) view.events.push(event);
    if (event.kind === "delta") view.words(event.text);
    else if (event.kind === "summary") view.words(view.source ? "" : event.text);
    else if (event.kind === "reply" && !event.streamed) view.words(event.data === undefined ? event.text : `\`\`\`json\n${JSON.stringify(event.data, null, 2)}\n\`\`\`\n\n${event.text}`, true);
    else if (event.kind === "item") view.item(event.item);
    else if (event.kind === "file") view.file(event.file);
    else if (event.kind === "meta") view.about(event.meta);
    else if (event.kind === "progress") view.progress(event.fraction, event.note);
    else if (event.kind === "outcome") view.panel?.outcome(event.outcome);
    else if (event.kind === "question") view.question(event.question, (answers, words) => this.ask(words, { answers }));
    else if (event.kind === "fault") view.fail(event);
    else if (event.kind === "cancellable") {
      view.cancel = () => event.cancel();
      if (event.task) remember(event.task, view.agent);
    }
  }

  busy(is) {
    $("send").disabled = is;
    if (is || !matchMedia("(hover: hover)").matches) return;
    const field = this.talk.querySelector(".turn:last-of-type .question :is(input, button):enabled"); // what the agent asks comes first
    (field ?? $("text")).focus({ preventScroll: true });
  }

  // -- across reloads ---------------------------------------------------------------------------

  keep(view) {
    const files = view.files.filter((file) => !file.bytes || file.bytes.length < SMALL).map((file) => ({ ...file, bytes: undefined, base64: file.bytes && base64(file.bytes) }));
    this.kept[this.kept.length - 1] = { // in place of what was kept when it began
      text: view.text, attached: view.attached, source: view.source, items: view.items.slice(0, CARDS), files,
      events: view.events, trace: view.traceId, panel: view.panel?.events,
    };
    this.store();
  }

  store() {
    this.kept = this.kept.slice(-KEPT);
    const sessions = Object.fromEntries([...this.speakers].map(([key, speaker]) => [key, speaker.session]));
    const stored = (kept) => sessionStorage.setItem(STORE, JSON.stringify({ kept, sessions: { ...this.sessions, ...sessions } }));
    try {
      stored(this.kept);
    } catch { // storage is full: the files take most of it
      try {
        stored((this.kept = this.kept.map((turn) => ({ ...turn, files: [] }))));
      } catch {
        sessionStorage.removeItem(STORE);
      }
    }
  }

  restore() {
    try {
      const stored = JSON.parse(sessionStorage.getItem(STORE));
      if (!stored?.kept?.length) return;
      this.sessions = stored.sessions;
      this.kept = stored.kept;
    } catch {
      return;
    }
    $("welcome")?.remove();
    for (const turn of this.kept) {
      const view = new TurnView(this.talk, turn.text, turn.attached ?? [], (words, more) => this.ask(words, more));
      for (const item of turn.items) view.item(item);
      if (turn.panel?.length) view.members(new Panel(turn.panel));
      if (turn.source) view.words(turn.source, true);
      for (const file of turn.files ?? []) view.file(file.base64 ? { ...file, bytes: unbase64(file.base64) } : file);
      for (const event of turn.events ?? []) this.take(view, event);
      if (turn !== this.kept.at(-1)) view.answered();
      view.trace(turn.trace, this.place);
    }
    this.talk.lastElementChild?.scrollIntoView({ block: "start" });
  }

  forget() {
    this.running?.abort();
    sessionStorage.removeItem(STORE);
    for (const speaker of this.speakers.values()) speaker.close?.();
    this.speakers.clear();
    this.sessions = null;
    this.kept = [];
    this.talk.querySelectorAll(".turn").forEach((node) => node.remove());
  }
}
