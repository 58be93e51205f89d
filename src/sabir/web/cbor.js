// CBOR (RFC 8949), the part that NLIP messages use, and a tree that explains each byte.

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: false });
const SIMPLE = { 20: false, 21: true, 22: null, 23: undefined };

export function encode(value) {
  const pieces = [];
  write(value, pieces);
  const size = pieces.reduce((sum, piece) => sum + piece.length, 0);
  const bytes = new Uint8Array(size);
  let at = 0;
  for (const piece of pieces) {
    bytes.set(piece, at);
    at += piece.length;
  }
  return bytes;
}

function head(major, length, pieces) {
  const view = new DataView(new ArrayBuffer(9));
  let size = 1;
  if (length < 24) view.setUint8(0, (major << 5) | length);
  else if (length < 0x100) { view.setUint8(0, (major << 5) | 24); view.setUint8(1, length); size = 2; }
  else if (length < 0x10000) { view.setUint8(0, (major << 5) | 25); view.setUint16(1, length); size = 3; }
  else if (length < 0x100000000) { view.setUint8(0, (major << 5) | 26); view.setUint32(1, length); size = 5; }
  else { view.setUint8(0, (major << 5) | 27); view.setBigUint64(1, BigInt(length)); size = 9; }
  pieces.push(new Uint8Array(view.buffer, 0, size));
}

function write(value, pieces) {
  if (value === null || value === undefined) pieces.push(Uint8Array.of(0xf6));
  else if (typeof value === "boolean") pieces.push(Uint8Array.of(value ? 0xf5 : 0xf4));
  else if (typeof value === "number") writeNumber(value, pieces);
  else if (typeof value === "string") writeBytes(3, encoder.encode(value), pieces);
  else if (value instanceof Uint8Array) writeBytes(2, value, pieces);
  else if (Array.isArray(value)) {
    head(4, value.length, pieces);
    for (const item of value) write(item, pieces);
  } else {
    const entries = Object.entries(value).filter(([, item]) => item !== undefined);
    head(5, entries.length, pieces);
    for (const [name, item] of entries) {
      writeBytes(3, encoder.encode(name), pieces);
      write(item, pieces);
    }
  }
}

function writeBytes(major, bytes, pieces) {
  head(major, bytes.length, pieces);
  pieces.push(bytes);
}

function writeNumber(value, pieces) {
  if (Number.isSafeInteger(value)) {
    if (value >= 0) head(0, value, pieces);
    else head(1, -1 - value, pieces);
    return;
  }
  const view = new DataView(new ArrayBuffer(9));
  view.setUint8(0, 0xfb);
  view.setFloat64(1, value);
  pieces.push(new Uint8Array(view.buffer));
}

// A node of the tree: {start, head, end, kind, value, children}. `value` of a container is the JavaScript value.
export function parse(bytes) {
  const [node, end] = read(bytes, 0, 0);
  if (end !== bytes.length) throw new RangeError(`expected ${end} bytes of CBOR and found ${bytes.length}`);
  return node;
}

export const decode = (bytes) => parse(bytes).value;

const KINDS = ["unsigned", "negative", "bytes", "text", "array", "map", "tag", "simple"];

function read(bytes, start, depth) {
  if (depth > 64 || start >= bytes.length) throw new RangeError(`expected CBOR at byte ${start}`);
  const major = bytes[start] >> 5;
  const info = bytes[start] & 31;
  const [length, at] = argument(bytes, start, info);
  const node = { start, head: at, kind: KINDS[major], children: [] };
  let end = at;
  if (major === 0) node.value = length;
  else if (major === 1) node.value = -1 - length;
  else if (major === 2 || major === 3) end = readBytes(bytes, node, major, length, at);
  else if (major === 4 || major === 5) end = readItems(bytes, node, major, length, depth);
  else if (major === 6) {
    const [inner, after] = read(bytes, at, depth + 1);
    node.children.push(inner);
    node.value = inner.value;
    end = after;
  } else readSimple(bytes, node, info, length);
  node.end = end;
  return [node, end];
}

function argument(bytes, start, info) {
  if (info < 24) return [info, start + 1];
  if (info === 31) return [Infinity, start + 1];
  const size = 2 ** (info - 24);
  if (info > 27 || start + 1 + size > bytes.length) throw new RangeError(`expected a CBOR head at byte ${start}`);
  let value = 0;
  for (const byte of bytes.subarray(start + 1, start + 1 + size)) value = value * 256 + byte;
  return [value, start + 1 + size];
}

function readBytes(bytes, node, major, length, at) {
  if (at + length > bytes.length) throw new RangeError(`expected ${length} bytes at byte ${at}`);
  const body = bytes.subarray(at, at + length);
  node.value = major === 3 ? decoder.decode(body) : body;
  return at + length;
}

function readItems(bytes, node, major, length, depth) {
  let end = node.head;
  node.value = major === 4 ? [] : {};
  for (let count = 0; count < length; count += 1) {
    if (bytes[end] === 0xff && length === Infinity) return end + 1;
    let item;
    [item, end] = read(bytes, end, depth + 1);
    if (major === 5) {
      const name = item.value;
      node.children.push(item);
      [item, end] = read(bytes, end, depth + 1);
      item.name = String(name);
      node.value[name] = item.value;
    } else node.value.push(item.value);
    node.children.push(item);
  }
  return end;
}

function readSimple(bytes, node, info, length) {
  const view = new DataView(bytes.buffer, bytes.byteOffset + node.start + 1);
  node.kind = info >= 25 && info <= 27 ? "float" : "simple";
  if (info === 27) node.value = view.getFloat64(0);
  else if (info === 26) node.value = view.getFloat32(0);
  else if (info === 25) node.value = half(view.getUint16(0));
  else node.value = length in SIMPLE ? SIMPLE[length] : length;
}

function half(bits) {
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  const sign = bits & 0x8000 ? -1 : 1;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : 2 ** -14 * (fraction / 1024));
}
