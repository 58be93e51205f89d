import { at } from "./dom.js";

// The wire log: exact requests, responses, events and frames with their times and sizes.

const KEPT = 60; // exchanges that are remembered
const encoder = new TextEncoder();

export class Wire extends EventTarget {
  constructor() {
    super();
    this.exchanges = [];
  }

  add(exchange) {
    this.exchanges.push(exchange);
    if (this.exchanges.length > KEPT) this.exchanges.shift();
    this.changed();
    return exchange;
  }

  changed() {
    this.dispatchEvent(new Event("change"));
  }

  clear() {
    this.exchanges = [];
    this.changed();
  }

  // fetch, recorded. `note` names the protocol and what the request is for.
  async fetch(url, options = {}, note = {}) {
    const address = url.startsWith("/") ? at(url) : url;
    const request = {
      method: options.method ?? "GET",
      url: address,
      headers: { ...(options.headers ?? {}) },
      body: options.body ?? null,
      size: sizeOf(options.body),
    };
    const exchange = this.add({ kind: "http", ...note, request, response: null, events: [], began: performance.now(), at: new Date() });
    try {
      const response = await fetch(address, options);
      exchange.response = { status: response.status, text: response.statusText, headers: Object.fromEntries(response.headers), body: null, size: 0 };
      exchange.first = performance.now() - exchange.began;
      this.changed();
      return [response, exchange];
    } catch (error) {
      exchange.failure = error.name === "AbortError" ? "cancelled" : error.message;
      exchange.took = performance.now() - exchange.began;
      this.changed();
      throw error;
    }
  }

  async text([response, exchange]) {
    const text = await response.text();
    exchange.response.body = text;
    exchange.response.size = encoder.encode(text).length;
    exchange.took = performance.now() - exchange.began;
    this.changed();
    return text;
  }

  async json(pair) {
    const text = await this.text(pair);
    if (!text) return null;
    try {
      return JSON.parse(text);
    } catch {
      return null;
    }
  }

  // Server-sent events, one by one, as [name, data].
  async *events([response, exchange]) {
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    try {
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        exchange.response.size += encoder.encode(value).length;
        text += value;
        const blocks = text.split(/\r?\n\r?\n/);
        text = blocks.pop();
        for (const block of blocks) {
          const event = eventOf(block);
          if (!event) continue;
          event.after = performance.now() - exchange.began;
          exchange.events.push(event);
          this.changed();
          yield event;
        }
      }
    } finally {
      exchange.took = performance.now() - exchange.began;
      reader.cancel().catch(() => {});
      this.changed();
    }
  }

  // A WebSocket whose frames are recorded.
  socket(url, note = {}) {
    const exchange = this.add({
      kind: "websocket", ...note, request: { method: "GET", url, headers: { Upgrade: "websocket" }, body: null, size: 0 },
      response: null, frames: [], events: [], began: performance.now(), at: new Date(),
    });
    const socket = new WebSocket(url);
    socket.binaryType = "arraybuffer";
    const frame = (direction, data) => {
      const bytes = data instanceof ArrayBuffer ? new Uint8Array(data) : data;
      exchange.frames.push({ direction, data: bytes, size: sizeOf(bytes), after: performance.now() - exchange.began });
      this.changed();
    };
    socket.addEventListener("open", () => {
      exchange.response = { status: 101, text: "Switching Protocols", headers: {}, body: null, size: 0 };
      this.changed();
    });
    socket.addEventListener("message", ({ data }) => frame("received", data));
    socket.addEventListener("close", ({ code, reason }) => {
      exchange.took = performance.now() - exchange.began;
      exchange.closed = `${code}${reason ? ` ${reason}` : ""}`;
      this.changed();
    });
    const send = socket.send.bind(socket);
    socket.send = (data) => {
      send(data);
      frame("sent", data);
    };
    return socket;
  }
}

function sizeOf(body) {
  if (!body) return 0;
  if (typeof body === "string") return encoder.encode(body).length;
  return body.size ?? body.byteLength ?? body.length ?? 0;
}

function eventOf(block) {
  const event = { name: "message", id: null, data: "" };
  const data = [];
  for (const line of block.split(/\r?\n/)) {
    if (line.startsWith("data:")) data.push(line.slice(line[5] === " " ? 6 : 5));
    else if (line.startsWith("event:")) event.name = line.slice(6).trim();
    else if (line.startsWith("id:")) event.id = line.slice(3).trim();
  }
  event.data = data.join("\n");
  return event.data ? event : null;
}
