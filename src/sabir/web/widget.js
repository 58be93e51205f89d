// A chat box or a search box for any site that the gateway allows (`origins`):
//   <script src="https://gateway.example/web/widget.js" data-mode="chat" data-agent="shop" data-title="Ask us" data-accent="#0f766e" async></script>
// It uses a shadow DOM, so that its styles and the page's do not mix, and builds everything from text.
(() => {
  const script = document.currentScript;
  const gateway = new URL("..", script.src);
  const { mode = "chat", agent = "", title = "Ask us", accent = "#0f766e", placeholder = "Ask something…", greeting = "Ask a question in your own words.", target = "", theme = mode === "search" ? "light" : "auto" } = script.dataset; // a search box has the background of its page
  const auto = (rules) => `@media (prefers-color-scheme: dark) { ${rules} }`;
  const dark = { light: () => "", dark: (rules) => rules }[theme] ?? auto;
  const host = document.createElement("sabir-widget");
  const root = host.attachShadow({ mode: "open" });
  const style = new CSSStyleSheet();
  style.replaceSync(`
    :host { all: initial; --accent: ${/^#[0-9a-f]{3,8}$/i.test(accent) ? accent : "#0f766e"}; font: 15px/1.5 system-ui, sans-serif; color: #17211f; }
    .chat { position: fixed; right: 20px; bottom: 20px; z-index: 2147483000; display: grid; justify-items: end; gap: 12px; }
    .open { width: 56px; height: 56px; border: 0; border-radius: 50%; background: var(--accent); color: #fff; cursor: pointer; box-shadow: 0 4px 16px rgb(0 0 0 / 25%); }
    .box { display: grid; grid-template-rows: auto minmax(0, 1fr) auto; width: min(380px, calc(100vw - 40px)); height: min(560px, calc(100vh - 120px)); border-radius: 14px; background: #fff; box-shadow: 0 8px 40px rgb(0 0 0 / 22%); overflow: hidden; }
    .search { display: grid; gap: 10px; } .search .log { display: grid; gap: 10px; }
    [hidden] { display: none !important; }
    h2 { margin: 0; padding: 12px 16px; font-size: 16px; background: var(--accent); color: #fff; } .search h2 { display: none; }
    .log { padding: 14px 16px; overflow-y: auto; } .search .log { padding: 0; }
    .open svg { display: block; margin: auto; fill: none; stroke: currentColor; stroke-width: 1.9; stroke-linecap: round; stroke-linejoin: round; }
    .open[aria-expanded="true"] .closed, .open[aria-expanded="false"] .opened { display: none; }
    .hello { margin: 0; color: #5b6a66; }
    .said { width: fit-content; margin: 0 0 8px auto; padding: 6px 12px; border-radius: 12px; background: var(--accent); color: #fff; overflow-wrap: anywhere; }
    .words { margin: 0 0 10px; overflow-wrap: anywhere; } .plain { white-space: pre-wrap; } .soft { color: #5b6a66; }
    .words > :first-child { margin-top: 0; } .words > :last-child { margin-bottom: 0; } .words p, .words ul, .words ol { margin: 6px 0; } .words ul, .words ol { padding-left: 22px; }
    .words h3, .words h4, .words h5, .words h6 { margin: 10px 0 4px; font-size: 15px; } .words a { color: var(--accent); } .words code { font-size: .9em; } .words pre, .scroll { overflow-x: auto; }
    .words table { border-collapse: collapse; font-size: 13px; } .words th, .words td { padding: 3px 8px; border: 1px solid #dfe4e2; text-align: left; }
    .item { margin: 0 0 10px; padding: 10px 12px; border: 1px solid #dfe4e2; border-radius: 10px; } .item a { color: var(--accent); font-weight: 600; text-decoration: none; } .item p { margin: 4px 0 0; font-size: 13px; }
    form { display: flex; gap: 8px; padding: 10px 12px; border-top: 1px solid #dfe4e2; } .search form { padding: 0; border: 0; }
    input { flex: 1; min-width: 0; padding: 9px 12px; border: 1px solid #dfe4e2; border-radius: 10px; font: inherit; } input::placeholder { color: #5b6a66; opacity: 1; } button.go { padding: 0 14px; border: 0; border-radius: 10px; background: var(--accent); color: #fff; font: inherit; cursor: pointer; }
    :focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
  ` + dark(`:host { color: #e6edeb; } .box { background: #171e1c; } input { background: #101514; color: inherit; border-color: #2c3835; } .item, form { border-color: #2c3835; } .soft, .hello, input::placeholder { color: #9db0ab; } :focus-visible { outline-color: color-mix(in srgb, var(--accent) 45%, white); } .item a, .words a { color: color-mix(in srgb, var(--accent) 45%, white); }`));
  root.adoptedStyleSheets = [style];

  const markdown = import(new URL("markdown.js", script.src)).catch(() => null); // without it, the words stay plain

  const make = (tag, className, text) => {
    const node = document.createElement(tag);
    if (className) node.className = className;
    if (text !== undefined) node.textContent = text;
    return node;
  };
  const icon = (className, path) => {
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    for (const [name, value] of Object.entries({ viewBox: "0 0 24 24", width: 26, height: 26, class: className, "aria-hidden": "true" })) svg.setAttribute(name, value);
    svg.append(document.createElementNS(svg.namespaceURI, "path"));
    svg.firstChild.setAttribute("d", path);
    return svg;
  };
  const isWeb = (url) => {
    try {
      return ["http:", "https:"].includes(new URL(url).protocol);
    } catch {
      return false;
    }
  };

  const frame = make("div", mode === "search" ? "search" : "chat");
  const box = make("section", mode === "search" ? "search" : "box");
  const log = make("div", "log");
  log.setAttribute("aria-live", "polite");
  const form = make("form");
  const input = make("input");
  input.placeholder = placeholder;
  input.setAttribute("aria-label", placeholder);
  input.maxLength = 4000;
  const go = make("button", "go", mode === "search" ? "Search" : "Ask");
  form.append(input, go);
  box.append(make("h2", "", title), log, form);
  if (mode === "search") box.append(log);
  frame.append(box);
  if (mode !== "search") {
    const open = make("button", "open");
    const label = (isOpen) => {
      open.setAttribute("aria-label", isOpen ? `Close ${title}` : title);
      open.setAttribute("aria-expanded", String(isOpen));
    };
    open.append(icon("closed", "M5 5h14a2 2 0 0 1 2 2v8a2 2 0 0 1-2 2h-7l-5 4v-4H5a2 2 0 0 1-2-2V7a2 2 0 0 1 2-2z"), icon("opened", "M6 6l12 12M18 6L6 18"));
    box.hidden = true;
    label(false);
    log.append(make("p", "hello", greeting));
    open.onclick = () => {
      box.hidden = !box.hidden;
      label(!box.hidden);
      if (!box.hidden) input.focus();
    };
    box.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      open.click();
      open.focus();
    });
    frame.append(open);
  }
  root.append(frame);
  (target ? document.querySelector(target) ?? document.body : document.body).append(host);

  let session = null;
  let promise = null; // of an answer that takes long
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const text = input.value.trim();
    if (!text || go.disabled) return;
    input.value = "";
    go.disabled = true;
    if (mode === "search") log.replaceChildren();
    else log.append(make("p", "said", text));
    log.querySelector(".hello")?.remove();
    const wait = make("p", "words soft", "…");
    log.append(wait);
    try {
      promise = null;
      await ask(text, wait);
      if (promise) await later(wait);
    } catch (error) {
      const message = error instanceof TypeError ? "The connection failed. Try again in a moment." : error.message; // TypeError: no answer at all
      log.append(make("p", "words soft", message));
    } finally {
      wait.remove();
      go.disabled = false;
      log.scrollTop = log.scrollHeight;
    }
  });

  async function ask(text, wait) {
    const body = { query: { text }, prefer: { streaming: true, response_format: "conv_search", mode: "list,summarize" }, meta: { api_version: "0.54", ...(session ? { session_context: session } : {}) } };
    const path = agent ? `ask/${encodeURIComponent(agent)}` : "ask";
    const response = await fetch(new URL(path, gateway), { method: "POST", headers: { "Content-Type": "application/json", Accept: "text/event-stream" }, body: JSON.stringify(body) });
    if (!(response.headers.get("content-type") ?? "").startsWith("text/event-stream")) { // it was refused
      const refusal = await response.json().catch(() => null);
      throw new Error(refusal?.error?.message ?? `The service answered ${response.status}. Try again in a moment.`);
    }
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let left = "";
    let words = null;
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const blocks = (left + value).split(/\r?\n\r?\n/);
      left = blocks.pop();
      for (const block of blocks) {
        const name = /^event: ?(.*)$/m.exec(block)?.[1] ?? "message";
        const data = /^data: ?(.*)$/m.exec(block)?.[1];
        if (!data) continue;
        words = show(name, JSON.parse(data), words, wait);
        if (mode !== "search") log.scrollTop = log.scrollHeight;
      }
    }
  }

  // A long answer is promised, and looked for until it is there.
  async function later(wait) {
    for (let body = { promise }; ; ) {
      if (!body.promise) {
        let words = null;
        for (const item of body.results ?? body.structuredData ?? []) words = show("result", { item }, words, wait);
        for (const { text } of body.content ?? []) if (text) words = show("content", { text }, words, wait);
        for (const name of ["elicitation", "error"]) if (body[name]) show(name, body, words, wait);
        return;
      }
      wait.textContent = body.promise.message || "Still working on it…";
      await new Promise((done) => setTimeout(done, 1000));
      body = await (await fetch(new URL(`await/${encodeURIComponent(promise.token)}`, gateway))).json();
    }
  }

  function show(name, data, words, wait) {
    if (data._meta?.session_context) session = data._meta.session_context;
    if (name === "result" && data.item.url) wait.before(itemOf(data.item));
    const isSummary = name === "result" && !data.item.url && data.item.text;
    if (name === "content" || (isSummary && !words)) { // a streamed summary is repeated as a whole
      if (!words) log.insertBefore((words = make("div", "words plain")), log.querySelector(".item") ?? wait);
      words.source = (words.source ?? "") + (data.text ?? data.item.text);
      write(words);
    }
    if (name === "elicitation") wait.before(make("p", "words plain", [data.elicitation.text, ...(data.elicitation.questions ?? []).flatMap((each) => each.options ?? [])].join("\n· ")));
    if (name === "promise") promise = data.promise;
    if (name === "progress") wait.textContent = data.message || "…";
    if (name === "error") wait.before(make("p", "words soft", data.error.message));
    return words;
  }

  async function write(words) {
    const written = await markdown;
    if (!written) words.textContent = words.source;
    else words.replaceChildren(...written.markdown(words.source));
    words.classList.toggle("plain", !written);
  }

  const shortened = (text) => (text.length <= 200 ? text : `${text.slice(0, 200).replace(/\s+\S*$/, "")}…`);

  function itemOf(item) {
    const node = make("div", "item");
    const head = make(isWeb(item.url) ? "a" : "strong", "", item.name ?? item.url);
    if (isWeb(item.url)) Object.assign(head, { href: item.url, target: "_blank", rel: "noopener noreferrer" });
    node.append(head);
    if (item.description) node.append(make("p", "", shortened(String(item.description))));
    return node;
  }
})();
