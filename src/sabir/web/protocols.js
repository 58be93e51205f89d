// The protocols of the gateway, one class each. All of them take the same question and yield the same events, so that
// the page can switch from one to another:
//
//   input:  {text, files: [{name, type, bytes}], location: {lat, lon} | null, answers: {field: value} | null, mode}
//   events: {kind: "delta", text} · {kind: "progress", fraction, note} · {kind: "item", item} · {kind: "file", file}
//           {kind: "meta", meta} · {kind: "question", question: {text, fields}} · {kind: "reply", text}
//           {kind: "fault", code, message} · {kind: "cancellable", cancel} · {kind: "outcome", outcome}
//
// `session` holds what the next question needs to continue the conversation; it can be stored as JSON.
import { at } from "./dom.js";

const JSON_TYPE = "application/json";
const POLL = 1000; // milliseconds between two polls of a promise

const uuid = () => crypto.randomUUID();
const segment = encodeURIComponent;

export class Protocol {
  constructor(place) {
    this.place = place; // {wire, agent, name, headers(), key(), base}
    this.session = {};
    this.trace = null; // the traceparent of the question, if it is to have a timeline
  }

  note(what) {
    return { protocol: this.constructor.id, what };
  }

  post(url, body, headers, signal, what) {
    const traced = this.trace ? { traceparent: this.trace } : {};
    const all = { "Content-Type": JSON_TYPE, ...traced, ...headers, ...this.place.headers() };
    return this.place.wire.fetch(url, { method: "POST", headers: all, body, signal }, this.note(what));
  }

  isStream([response]) {
    return (response.headers.get("content-type") ?? "").startsWith("text/event-stream");
  }
}

// -- NLIP ------------------------------------------------------------------------------------------------

const isText = (part) => part.format === "text";
const membersIn = (sources) => sources?.answered ?? []; // of a federation, whose answer already contains their texts
const OUTCOMES = ["ensemble", "sources"]; // labels of the parts with the outcome of a panel
const LARGE = 500_000; // bytes; a larger file is uploaded, and the message refers to it

class Nlip extends Protocol {
  message(input, asBytes) {
    const parts = [];
    if (input.answers) parts.push({ format: "structured", subformat: "json", content: input.answers, label: "answer" });
    if (input.standalone) parts.push({ format: "structured", subformat: "json", content: { rewritten: input.text }, label: "ask" });
    for (const file of input.files ?? []) parts.push(file.part ?? filePart(file, asBytes));
    if (input.location) parts.push({ format: "location", subformat: "gps", content: `${input.location.lat}, ${input.location.lon}` });
    this.session.own ??= `page-${uuid()}`;
    parts.push({ format: "token", subformat: "conversation_page", content: this.session.own });
    if (this.session.token) parts.push(this.session.token);
    return {
      ...(input.control ? { messagetype: "control" } : {}),
      format: "text", subformat: "english", content: input.text, submessages: parts,
    };
  }

  *read(message) {
    const parts = message.submessages ?? [];
    for (const part of parts) {
      const isConversation = part.format === "token" && part.subformat.startsWith("conversation");
      if (isConversation && part.content !== this.session.own) this.session.token = part;
    }
    const labelled = (label) => parts.find((part) => part.label === label && part.format === "structured")?.content;
    if (message.messagetype === "partial") {
      const progress = labelled("progress");
      if (progress) yield { kind: "progress", fraction: progress.fraction, note: progress.note };
      else for (const part of parts) if (isText(part)) yield { kind: "delta", text: part.content };
      return;
    }
    const status = labelled("status")?.status; // of a refusal, which is a control message if it asks for authentication
    if (message.messagetype === "error" || status >= 400) {
      yield { kind: "fault", code: status, message: message.content };
      return;
    }
    const meta = labelled("meta");
    if (meta) yield { kind: "meta", meta: metaOf(meta) };
    const question = labelled("question");
    if (question) {
      yield { kind: "question", question: { text: question.text ?? message.content, fields: question.questions ?? [] } };
      return;
    }
    yield* this.rest(message, parts);
  }

  *rest(message, parts) {
    for (const part of parts) {
      if (part.label === "result" && part.subformat === "json") yield { kind: "item", item: part.content };
      else if (OUTCOMES.includes(part.label) && part.subformat === "json") yield { kind: "outcome", outcome: part.content };
      else if (part.format === "binary") yield { kind: "file", file: fileOf(part) };
      else if (part.subformat === "uri" && part.label !== "task") yield { kind: "file", file: { name: part.label ?? part.content, url: part.content } };
    }
    const members = membersIn(parts.find((part) => part.label === "sources")?.content);
    const words = [message, ...parts].filter((part) => isText(part) && part.content && !members.includes(part.label)).map((part) => part.content);
    if (message.format === "binary") yield { kind: "file", file: fileOf(message) };
    const data = message.format === "structured" ? message.content : undefined;
    yield { kind: "reply", text: words.join("\n\n"), data };
  }

  async withUploads(input, signal) {
    const files = [];
    for (const file of input.files ?? []) files.push(file.bytes.length > LARGE ? await this.upload(file, signal) : file);
    return { ...input, files };
  }

  // A large file is uploaded separately (ECMA-430 6.4): ask where, upload it, refer to it.
  async upload(file, signal) {
    const asked = this.message({ text: "I have a large file; where can I upload it?", control: true }, false);
    const pair = await this.post("/nlip", JSON.stringify(asked), { Accept: JSON_TYPE }, signal, "where to upload");
    const reply = await this.place.wire.json(pair);
    [...this.read(reply)];
    const target = (reply.submessages ?? []).find((part) => part.subformat === "uri")?.content;
    if (!target) throw new Error(reply.content ?? "The gateway accepts no uploads.");
    const path = new URL(target, location.href); // through this origin, whatever name the gateway has elsewhere
    const headers = { "Content-Type": file.type || "application/octet-stream", ...this.place.headers() };
    const put = await this.place.wire.fetch(location.origin + path.pathname + path.search, { method: "PUT", headers, body: new Blob([file.bytes]), signal }, this.note(`upload ${file.name}`));
    await this.place.wire.text(put);
    if (!put[0].ok) throw new Error(`The upload of ${file.name} was rejected (${put[0].status}).`);
    return { ...file, part: { format: "structured", subformat: "uri", content: target, label: file.name } };
  }
}

export class NlipHttp extends Nlip {
  static id = "nlip";
  static label = "NLIP";

  async *ask(input, signal) {
    const path = this.place.agent ? `/nlip/${segment(this.place.agent)}` : "/nlip";
    const body = JSON.stringify(this.message(await this.withUploads(input, signal), false));
    const pair = await this.post(path, body, { Accept: `text/event-stream, ${JSON_TYPE}` }, signal, "ask");
    if (!this.isStream(pair)) {
      yield* this.read((await this.place.wire.json(pair)) ?? unreadable(pair[0]));
      return;
    }
    for await (const event of this.place.wire.events(pair)) yield* this.read(JSON.parse(event.data));
  }
}

// A browser sends no headers with a WebSocket, so the key of the caller is in each message.
export function signed(message, key) {
  if (!key) return message;
  return { ...message, submessages: [...(message.submessages ?? []), { format: "token", subformat: "authentication", content: key }] };
}

export class NlipSocket extends Nlip {
  static id = "nlip-ws";
  static label = "NLIP (WebSocket, CBOR)";

  async open(signal) {
    if (this.socket?.readyState === WebSocket.OPEN) return;
    this.cbor ??= await import("./cbor.js"); // only needed here
    const path = this.place.agent ? `/nlip/${segment(this.place.agent)}/ws` : "/nlip/ws";
    const url = at(path).replace(/^http/, "ws");
    this.socket = this.place.wire.socket(url, this.note("connection"));
    await new Promise((done, fail) => {
      this.socket.onopen = done;
      this.socket.onerror = () => fail(new Error("The WebSocket was closed before it opened."));
      signal?.addEventListener("abort", () => fail(signal.reason));
    });
    await this.stream(signal);
  }

  async stream(signal) {
    const wish = { format: "structured", subformat: "json", content: { on: true }, label: "stream" };
    const message = this.message({ text: "Please stream your answers.", control: true }, true);
    message.submessages.unshift(wish);
    for await (const reply of this.exchange(message, signal)) [...this.read(reply)];
  }

  async *ask(input, signal) {
    await this.open(signal);
    const message = this.message(await this.withUploads(input, signal), true);
    const asked = { ...message, ...(this.trace ? { traceparent: this.trace } : {}) };
    for await (const message of this.exchange(asked, signal)) yield* this.read(message);
  }

  async *exchange(message, signal) {
    const frames = new Frames(this.socket, signal);
    this.socket.send(this.cbor.encode(signed(message, this.place.key())));
    try {
      for (;;) {
        const data = await frames.next();
        const reply = typeof data === "string" ? JSON.parse(data) : this.cbor.decode(new Uint8Array(data));
        yield reply;
        if (reply.messagetype !== "partial") return;
      }
    } finally {
      frames.stop();
    }
  }

  close() {
    this.socket?.close();
  }
}

// The messages of a WebSocket in order; ends with an error when the connection closes.
class Frames {
  constructor(socket, signal) {
    this.waiting = [];
    this.queue = [];
    this.stopping = new AbortController();
    const options = { signal: this.stopping.signal };
    socket.addEventListener("message", ({ data }) => this.push(Promise.resolve(data)), options);
    socket.addEventListener("close", ({ code }) => this.push(Promise.reject(new Error(`The connection was closed (${code}).`))), options);
    signal?.addEventListener("abort", () => {
      socket.close();
      this.push(Promise.reject(signal.reason));
    }, options);
  }

  push(item) {
    item.catch(() => {});
    const waiting = this.waiting.shift();
    if (waiting) waiting(item);
    else this.queue.push(item);
  }

  next() {
    return this.queue.shift() ?? new Promise((done) => this.waiting.push(done));
  }

  stop() {
    this.stopping.abort();
  }
}

function filePart(file, asBytes) {
  if (file.type.startsWith("text/")) return { format: "text", subformat: "english", content: new TextDecoder().decode(file.bytes), label: file.name };
  const [kind, encoding] = file.type.split("/");
  const media = ["image", "audio", "video"].includes(kind) ? kind : "application";
  return { format: "binary", subformat: `${media}/${encoding || "octet-stream"}`, content: asBytes ? file.bytes : base64(file.bytes), label: file.name };
}

function fileOf(part) {
  const bytes = part.content instanceof Uint8Array ? part.content : unbase64(part.content);
  const [kind, encoding] = part.subformat.split("/");
  const type = kind === "sensor" ? "application/octet-stream" : `${kind}/${encoding ?? "octet-stream"}`;
  return { name: part.label ?? part.subformat, type, bytes };
}

export function base64(bytes) {
  let text = "";
  for (let at = 0; at < bytes.length; at += 0x8000) text += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  return btoa(text);
}

export function unbase64(text) {
  return Uint8Array.from(atob(text), (sign) => sign.charCodeAt(0));
}

const unreadable = (response) => ({ messagetype: "error", content: `The gateway answered ${response.status} without a message.` });

function metaOf(meta) {
  return { ...meta, decontextualized_query: meta.rewritten ? meta.question : undefined };
}

// -- NLWeb -----------------------------------------------------------------------------------------------

export class Nlweb extends Protocol {
  static id = "nlweb";
  static label = "NLWeb";
  static noFiles = "NLWeb cannot send files.";

  async *ask(input, signal) {
    const body = {
      query: { text: input.text, ...(input.standalone ? { decontextualized_query: input.text } : {}), ...(input.filters ?? {}) },
      prefer: { streaming: true, response_format: "conv_search", mode: input.mode || "list,summarize" },
      meta: { api_version: "0.54", ...(this.session.context ? { session_context: this.session.context } : {}) },
    };
    if (input.answers && Object.keys(input.answers).length) body.context = { answers: input.answers };
    const path = this.place.agent ? `/ask/${segment(this.place.agent)}` : "/ask";
    const pair = await this.post(path, JSON.stringify(body), { Accept: "text/event-stream" }, signal, "ask");
    if (!this.isStream(pair)) {
      yield* this.whole((await this.place.wire.json(pair)) ?? { error: { message: `The gateway answered ${pair[0].status}.` } });
      return;
    }
    let words = "";
    for await (const event of this.place.wire.events(pair)) {
      for await (const found of this.read(event.name, JSON.parse(event.data), signal)) {
        if (found.kind === "delta") words += found.text;
        yield found;
      }
    }
    yield { kind: "reply", text: words, streamed: true };
  }

  async *read(name, data, signal) {
    if (data._meta?.session_context) this.session.context = data._meta.session_context;
    if (data._meta) yield { kind: "meta", meta: data._meta };
    if (name === "result") yield itemOrWords(data.item);
    else if (name === "content") yield { kind: "delta", text: data.text };
    else if (name === "progress") yield { kind: "progress", fraction: data.progress, note: data.message };
    else if (name === "elicitation") yield { kind: "question", question: { text: data.elicitation.text, fields: data.elicitation.questions ?? [] } };
    else if (name === "promise") yield* this.keep(data.promise, signal);
    else if (name === "error") yield { kind: "fault", code: data.error.code, message: data.error.message };
  }

  *whole(body) {
    if (body._meta?.session_context) this.session.context = body._meta.session_context;
    for (const item of body.results ?? body.structuredData ?? []) yield itemOrWords(item);
    for (const content of body.content ?? []) if (content.text) yield { kind: "delta", text: content.text };
    if (body.elicitation) yield { kind: "question", question: { text: body.elicitation.text, fields: body.elicitation.questions ?? [] } };
    if (body.error) yield { kind: "fault", code: body.error.code, message: body.error.message };
  }

  async *keep(promise, signal) {
    const url = `/await/${segment(promise.token)}`;
    const headers = this.place.headers();
    yield { kind: "cancellable", cancel: () => this.place.wire.fetch(url, { method: "DELETE", headers }, this.note("cancel")) };
    for (;;) {
      yield { kind: "progress", fraction: promise.progress, note: promise.message || "Still working on it", task: promise.token };
      await pause(POLL, signal);
      const body = await this.place.wire.json(await this.place.wire.fetch(url, { headers, signal }, this.note("await")));
      if (!body?.promise) {
        yield* this.whole(body ?? {});
        return;
      }
      promise = body.promise;
    }
  }
}

function itemOrWords(item) {
  const type = Array.isArray(item["@type"]) ? item["@type"][0] : item["@type"];
  const isSummary = ["Summary", "SearchSummary"].includes(type) || (type === "Answer" && !item.url);
  return isSummary ? { kind: "summary", text: item.text } : { kind: "item", item };
}

function pause(milliseconds, signal) {
  return new Promise((done, fail) => {
    const timer = setTimeout(done, milliseconds);
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      fail(signal.reason);
    });
  });
}

// -- MCP -------------------------------------------------------------------------------------------------

const MCP_VERSION = "2026-07-28";

export class Mcp extends Protocol {
  static id = "mcp";
  static label = "MCP";

  async call(method, name, params, signal, what) {
    const meta = {
      ...(params._meta ?? {}),
      "io.modelcontextprotocol/protocolVersion": MCP_VERSION,
      "io.modelcontextprotocol/clientInfo": { name: "sabir-playground", version: "1" },
      "io.modelcontextprotocol/clientCapabilities": { elicitation: { form: {} } },
    };
    const body = JSON.stringify({ jsonrpc: "2.0", id: uuid(), method, params: { ...params, _meta: meta } });
    const headers = {
      Accept: `${JSON_TYPE}, text/event-stream`, "MCP-Protocol-Version": MCP_VERSION, "Mcp-Method": method, ...(name ? { "Mcp-Name": name } : {}),
    };
    return this.post("/mcp", body, headers, signal, what);
  }

  async *ask(input, signal) {
    const name = this.place.name;
    const content = (input.files ?? []).map(contentBlock);
    const waiting = this.session.waiting;
    const given = { text: input.text, ...(this.session.conversation ? { conversation: this.session.conversation } : {}), ...(content.length ? { content } : {}) };
    if (input.location) given.data = { location: input.location };
    const params = { name, arguments: waiting?.arguments ?? given, _meta: { progressToken: uuid() } };
    if (waiting) {
      params.requestState = waiting.state;
      params.inputResponses = { [waiting.key]: { action: "accept", content: input.answers ?? freeText(waiting.fields, input.text) } };
    }
    this.session.waiting = null;
    const pair = await this.call("tools/call", name, params, signal, "tools/call");
    if (!this.isStream(pair)) {
      yield* this.read((await this.place.wire.json(pair)) ?? {}, params, pair[0]);
      return;
    }
    for await (const event of this.place.wire.events(pair)) yield* this.read(JSON.parse(event.data), params, pair[0]);
  }

  *read(message, params, response) {
    if (message.method === "notifications/progress") {
      const { progress, total, message: words } = message.params;
      if (total) yield { kind: "progress", fraction: progress / total, note: words };
      else if (words) yield { kind: "delta", text: words };
      return;
    }
    if (message.error) yield { kind: "fault", code: message.error.code, message: message.error.message };
    else if (message.result?.resultType === "input_required") yield this.question(message.result, params);
    else if (message.result) yield* this.result(message.result);
    else if (!message.method) yield { kind: "fault", message: `The gateway answered ${response.status} without a result.` };
  }

  question(result, params) {
    const [key, request] = Object.entries(result.inputRequests)[0];
    const schema = request.params.requestedSchema ?? { properties: {} };
    const fields = Object.entries(schema.properties ?? {}).map(([id, about]) => fieldOf(id, about, schema.required ?? []));
    this.session.waiting = { state: result.requestState, key, fields: fields.map((field) => field.id), arguments: params.arguments };
    return { kind: "question", question: { text: request.params.message, fields, url: request.params.url } };
  }

  *result(result) {
    this.session.conversation = result.structuredContent?.conversation ?? result._meta?.["io.sabir/conversation"] ?? this.session.conversation;
    const words = [];
    const sources = (result.content ?? []).find((block) => block._meta?.["io.sabir/part"]?.label === "sources");
    const members = membersIn(sources && JSON.parse(sources.text));
    for (const block of result.content ?? []) {
      const part = block._meta?.["io.sabir/part"];
      if (part?.label === "result") yield { kind: "item", item: JSON.parse(block.text) };
      else if (OUTCOMES.includes(part?.label)) yield { kind: "outcome", outcome: JSON.parse(block.text) };
      else if (part?.label === "meta") yield { kind: "meta", meta: metaOf(JSON.parse(block.text)) };
      else if (part?.label && part.format === "structured") continue; // data that accompanies the text
      else if (block.type === "text" && !members.includes(part?.label)) words.push(block.text);
      else if (block.data) yield { kind: "file", file: { name: block.type, type: block.mimeType, bytes: unbase64(block.data) } };
      else if (block.type === "resource_link") yield { kind: "file", file: { name: block.name, url: block.uri } };
    }
    if (result.isError) yield { kind: "fault", message: words.join("\n") };
    else yield { kind: "reply", text: words.join("\n\n") };
  }
}

function contentBlock(file) {
  const kind = file.type.split("/")[0];
  if (kind === "image" || kind === "audio") return { type: kind, data: base64(file.bytes), mimeType: file.type };
  return { type: "resource", resource: { uri: `file:///${segment(file.name)}`, mimeType: file.type, blob: base64(file.bytes) } };
}

function fieldOf(id, about, required) {
  const options = about.enum ?? about.items?.enum ?? about.oneOf?.map((each) => each.const) ?? [];
  const type = about.type === "boolean" ? "boolean" : about.type === "array" ? "multi_select" : about.type === "number" || about.type === "integer" ? "number" : "text";
  return { id, text: about.title ?? about.description ?? id, type, options, required: required.includes(id) };
}

const freeText = (fields, text) => Object.fromEntries(fields.map((id) => [id, text]));

// -- A2A -------------------------------------------------------------------------------------------------

export class A2a extends Protocol {
  static id = "a2a";
  static label = "A2A";

  rpc(method, params, signal, what) {
    const path = this.place.name ? `/a2a/${segment(this.place.name)}` : "/a2a";
    const body = JSON.stringify({ jsonrpc: "2.0", id: uuid(), method, params });
    return this.post(path, body, { "A2A-Version": "1.0", Accept: `text/event-stream, ${JSON_TYPE}` }, signal, what);
  }

  async *ask(input, signal) {
    const parts = [{ text: input.text }];
    if (input.answers) parts.push({ data: input.answers, mediaType: JSON_TYPE, metadata: { nlip: { label: "answer" } } });
    for (const file of input.files ?? []) parts.push({ raw: base64(file.bytes), mediaType: file.type, filename: file.name });
    if (input.location) parts.push({ data: { location: input.location }, mediaType: JSON_TYPE });
    const { context, task } = this.session;
    const message = { messageId: uuid(), role: "ROLE_USER", parts, ...(context ? { contextId: context } : {}), ...(task ? { taskId: task } : {}) };
    this.session.task = null;
    const pair = await this.rpc("SendStreamingMessage", { message }, signal, "SendStreamingMessage");
    if (!this.isStream(pair)) {
      const body = await this.place.wire.json(pair);
      yield { kind: "fault", code: body?.error?.code, message: body?.error?.message ?? `The gateway answered ${pair[0].status}.` };
      return;
    }
    const state = { words: "", streamed: false };
    for await (const event of this.place.wire.events(pair)) yield* this.read(JSON.parse(event.data), state);
  }

  *read({ result, error }, state) {
    if (error) {
      yield { kind: "fault", code: error.code, message: error.message };
      return;
    }
    if (result.task) {
      this.session.context = result.task.contextId;
      yield this.cancellable(result.task.id);
    }
    if (result.message) yield* this.parts(result.message.parts, state);
    if (result.artifactUpdate) yield* this.artifact(result.artifactUpdate, state);
    const status = result.statusUpdate?.status;
    if (status) yield* this.status(status, result.statusUpdate, state);
    if (result.message) yield { kind: "reply", text: state.words, streamed: true };
  }

  // A repeated artifact replaces the earlier one, unless it is appended.
  *artifact({ artifact, append }, state) {
    const again = !append && state.words && state.artifact === artifact.artifactId;
    state.artifact = artifact.artifactId;
    if (!again) {
      yield* this.parts(artifact.parts, state);
      return;
    }
    state.words = "";
    for (const event of this.parts(artifact.parts, state)) if (event.kind !== "delta") yield event;
    yield { kind: "reply", text: state.words };
  }

  cancellable(id) {
    const cancel = async () => this.place.wire.json(await this.rpc("CancelTask", { id }, undefined, "CancelTask"));
    return { kind: "cancellable", cancel, task: id };
  }

  *parts(parts, state) {
    const members = membersIn((parts ?? []).find((part) => part.metadata?.nlip?.label === "sources")?.data);
    for (const part of parts ?? []) {
      const label = part.metadata?.nlip?.label;
      if (members.includes(label)) continue;
      if (part.text !== undefined) {
        state.words += part.text;
        yield { kind: "delta", text: part.text };
      } else if (label === "result") yield { kind: "item", item: part.data };
      else if (OUTCOMES.includes(label)) yield { kind: "outcome", outcome: part.data };
      else if (label === "meta") yield { kind: "meta", meta: metaOf(part.data) };
      else if (part.raw) yield { kind: "file", file: { name: part.filename ?? part.mediaType, type: part.mediaType, bytes: unbase64(part.raw) } };
      else if (part.url) yield { kind: "file", file: { name: part.filename ?? part.url, url: part.url } };
    }
  }

  *status(status, update, state) {
    const parts = status.message?.parts ?? [];
    const words = parts.filter((part) => part.text).map((part) => part.text).join("\n");
    if (status.state === "TASK_STATE_WORKING") {
      if (words) yield { kind: "progress", fraction: update.metadata?.nlip?.progress, note: words };
    } else if (["TASK_STATE_INPUT_REQUIRED", "TASK_STATE_AUTH_REQUIRED"].includes(status.state)) {
      this.session.task = update.taskId;
      const question = parts.find((part) => part.metadata?.nlip?.label === "question")?.data;
      yield { kind: "question", question: { text: question?.text ?? words, fields: question?.questions ?? [] } };
    } else if (["TASK_STATE_FAILED", "TASK_STATE_REJECTED", "TASK_STATE_CANCELED"].includes(status.state)) {
      yield { kind: "fault", code: status.state.slice(11).toLowerCase(), message: words || status.state.slice(11).toLowerCase() };
    } else if (status.state === "TASK_STATE_COMPLETED") {
      yield { kind: "reply", text: state.words || words, streamed: Boolean(state.words) };
    }
  }
}

// -- ACL -------------------------------------------------------------------------------------------------

export class Acl extends Protocol {
  static id = "acl";
  static label = "ACL";
  static noFiles = "This page cannot send files over ACL.";

  envelope(performative, payload, more = {}) {
    return {
      mcp_version: "0.1.0", message_id: uuid(), performative, sender: { agent_id: this.session.self }, receiver: { agent_id: this.place.name },
      language: "application/json", ontology: "elizaos:ontology:general/task", timestamp: new Date().toISOString(),
      conversation_id: this.session.conversation, ...(this.trace ? { traceparent: this.trace } : {}), ...more, payload,
    };
  }

  async send(message, signal) {
    const pair = await this.post("/acl", JSON.stringify(message), {}, signal, message.performative);
    const body = await this.place.wire.json(pair);
    if (!pair[0].ok) throw new Error(body?.payload?.reason_text ?? body?.payload?.error_text ?? `The gateway answered ${pair[0].status}.`);
    return body;
  }

  async *ask(input, signal) {
    this.session.self ??= `page-${uuid().slice(0, 8)}`;
    const waiting = this.session.waiting;
    this.session.waiting = null;
    let message;
    if (waiting) {
      message = this.envelope("INFORM_INPUT", { answer: input.answers ?? input.text }, { in_reply_to: waiting });
    } else {
      this.session.conversation = uuid();
      const parameters = input.location ? { task_parameters: { location: input.location } } : {};
      message = this.envelope("TASK_REQUEST", { task_type: "ask", task_description: input.text, ...parameters });
      this.session.request = message.message_id;
    }
    const reply = await this.send(message, signal);
    if (reply?.performative) {
      for (const event of this.read(reply)) {
        yield event;
        if (["reply", "fault"].includes(event.kind)) return;
      }
    }
    yield* this.follow(signal);
  }

  async *follow(signal) {
    const cancel = () => this.send(this.envelope("CANCEL", {}, { in_reply_to: this.session.request }));
    yield { kind: "cancellable", cancel };
    const headers = { Accept: "text/event-stream", ...(this.session.seen ? { "Last-Event-ID": this.session.seen } : {}), ...this.place.headers() };
    const pair = await this.place.wire.fetch(`/acl/inbox/${segment(this.session.self)}`, { headers, signal }, this.note("inbox"));
    if (!this.isStream(pair)) {
      yield { kind: "fault", message: (await this.place.wire.json(pair))?.payload?.error_text ?? `The inbox answered ${pair[0].status}.` };
      return;
    }
    for await (const event of this.place.wire.events(pair)) {
      if (event.id) this.session.seen = event.id;
      const message = JSON.parse(event.data);
      if (message.conversation_id !== this.session.conversation) continue;
      for (const found of this.read(message)) {
        yield found;
        if (["reply", "fault", "question"].includes(found.kind)) return;
      }
    }
  }

  *read(message) {
    const payload = message.payload ?? {};
    if (message.performative === "INFORM_PROGRESS") {
      if (payload.partial) yield { kind: "delta", text: payload.partial };
      else yield { kind: "progress", fraction: payload.fraction, note: payload.note };
    } else if (message.performative === "REQUEST_INPUT") {
      this.session.waiting = message.message_id;
      const schema = payload.schema ?? {};
      const fields = Object.entries(schema.properties ?? {}).map(([id, about]) => fieldOf(id, about, schema.required ?? []));
      yield { kind: "question", question: { text: payload.question, fields } };
    } else if (message.performative === "INFORM_RESULT") {
      for (const item of payload.result_details?.result ?? payload.result_details?.results ?? []) yield { kind: "item", item };
      for (const artifact of payload.artifacts ?? []) if (artifact.path) yield { kind: "file", file: { name: artifact.description ?? artifact.path, url: artifact.path } };
      yield { kind: "reply", text: payload.result_summary };
    } else if (["FAILURE", "TASK_REJECT", "NOT_UNDERSTOOD"].includes(message.performative)) {
      yield { kind: "fault", code: payload.error_code ?? payload.reason_code, message: payload.error_text ?? payload.reason_text ?? message.performative };
    } else if (message.performative === "INFORM_DONE") {
      yield { kind: "fault", code: "cancelled", message: "cancelled" };
    }
  }
}

// -- any address -----------------------------------------------------------------------------------------

// The browser talks only to this gateway, which asks the other address on its behalf (operators only).
export class Remote extends Nlip {
  static id = "remote";
  static label = "Another address";
  static noFiles = "Files can be sent only to agents of this gateway.";

  async *ask(input, signal) {
    const { agent: url, name } = this.place;
    const order = { url, text: input.text, state: this.session.state ?? {}, ...(name ? { protocol: name } : {}) };
    const pair = await this.post("/operate/ask", JSON.stringify(order), { Accept: "text/event-stream" }, signal, `ask ${url}`);
    if (!this.isStream(pair)) {
      yield* this.read((await this.place.wire.json(pair)) ?? unreadable(pair[0]));
      return;
    }
    for await (const event of this.place.wire.events(pair)) {
      const data = JSON.parse(event.data);
      if (event.name === "state") this.session.state = data;
      else yield* this.read(data);
    }
  }
}

export const PROTOCOLS = [NlipHttp, NlipSocket, Nlweb, Mcp, A2a, Acl];
export const protocolOf = (id) => [...PROTOCOLS, Remote].find((protocol) => protocol.id === id) ?? Nlweb;
