// Building blocks of the page. Everything is built with textContent and attributes: nothing that comes from outside is
// ever read as HTML.

export const $ = (id) => document.getElementById(id);

export function make(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "dataset") Object.assign(node.dataset, value);
    else if (name in node && name !== "list") node[name] = value;
    else node.setAttribute(name, value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== ""));
  return node;
}

export function button(text, onclick, props = {}) {
  return make("button", { type: "button", onclick, ...props }, text);
}

export function icon(path, size = 18) {
  const NS = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(NS, "svg");
  for (const [name, value] of Object.entries({ viewBox: "0 0 24 24", width: size, height: size, "aria-hidden": "true", class: "icon" })) {
    svg.setAttribute(name, value);
  }
  const line = document.createElementNS(NS, "path");
  line.setAttribute("d", path);
  svg.append(line);
  return svg;
}

export function isWeb(url) {
  try {
    return ["http:", "https:"].includes(new URL(url, location.href).protocol);
  } catch {
    return false;
  }
}

export function link(url, text, props = {}) {
  return isWeb(url) ? make("a", { href: url, target: "_blank", rel: "noopener noreferrer", ...props }, text) : null;
}

export const first = (value) => (Array.isArray(value) ? value[0] : value);
export const plain = (value) => (value && typeof value === "object" ? value.name ?? value["@value"] ?? "" : value ?? "");

// Invisible characters that change how others are read: controls, and direction overrides.
const HIDDEN = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff]/g;

export function visible(text) {
  return String(text).replace(HIDDEN, (sign) => `\u27e8${sign.codePointAt(0).toString(16).padStart(4, "0")}\u27e9`);
}

export function bytesInWords(count) {
  if (count < 1000) return `${count} B`;
  if (count < 1e6) return `${(count / 1000).toFixed(count < 1e4 ? 1 : 0)} kB`;
  return `${(count / 1e6).toFixed(1)} MB`;
}

export async function copy(text, control) {
  await navigator.clipboard.writeText(text);
  control.dataset.label ??= control.textContent;
  control.textContent = "Copied";
  setTimeout(() => (control.textContent = control.dataset.label), 1200);
}

// An address of this gateway, wherever the page is mounted.
export const at = (path) => new URL(`.${path}`, document.baseURI).href;
