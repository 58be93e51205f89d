// Markdown as DOM nodes. Links lead to the web only, images and HTML stay text.
import { make, link, visible } from "./dom.js";

const LIMIT = 60_000; // characters that are shown at once; the rest is behind a button
const INLINE = /(`+)([^`]|[^`][\s\S]*?[^`])\1(?!`)|\*\*([^*]+?)\*\*|__([^_]+?)__|\*([^*\s][^*]*?)\*|!?\[([^\]]+)\]\(([^)\s]+)\)|(https?:\/\/[^\s<>()]+[^\s<>().,;:!?'"])|\[(\d{1,3})\]/g;

export function inline(text, cite) {
  const nodes = [];
  let last = 0;
  for (const found of text.matchAll(INLINE)) {
    nodes.push(text.slice(last, found.index));
    const [whole, , code, strong, strong2, soft, label, target, bare, number] = found;
    if (code !== undefined) nodes.push(make("code", {}, code.trim() || code));
    else if (strong ?? strong2) nodes.push(make("strong", {}, ...inline(strong ?? strong2, cite)));
    else if (soft) nodes.push(make("em", {}, ...inline(soft, cite)));
    else if (label) nodes.push(link(target, label) ?? whole);
    else if (bare) nodes.push(link(bare, bare) ?? whole);
    else nodes.push((cite && cite(number)) || whole);
    last = found.index + whole.length;
  }
  nodes.push(text.slice(last));
  return nodes.filter((node) => node !== "");
}

// Each rule: a pattern for the first line of a block, and how to render its lines.
const FENCE = /^ {0,3}(```+|~~~+)\s*([\w+-]*)/;
const HEADING = /^ {0,3}(#{1,6})\s+(.*?)\s*#*\s*$/;
const RULE = /^ {0,3}([-*_])\s*(\1\s*){2,}$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^( {0,6})([-*+]|\d{1,3}[.)])\s+/;
const ROW = /^\s*\|.*\|\s*$/;
const DASHES = /^\s*\|[\s:|-]+\|\s*$/;

export function markdown(source, cite) {
  const text = visible(source);
  const shown = text.length > LIMIT ? text.slice(0, LIMIT) : text;
  const nodes = blocks(shown.split(/\r?\n/), cite);
  if (shown.length < text.length) {
    const more = make("button", { type: "button", className: "more" }, `Show all ${text.length.toLocaleString()} characters`);
    more.onclick = () => more.replaceWith(make("pre", {}, text.slice(LIMIT)));
    nodes.push(more);
  }
  return nodes;
}

function blocks(lines, cite) {
  const nodes = [];
  let at = 0;
  while (at < lines.length) {
    const line = lines[at];
    if (!line.trim()) {
      at += 1;
    } else if (FENCE.test(line)) {
      at = fence(lines, at, nodes);
    } else if (HEADING.test(line)) {
      const [, marks, words] = HEADING.exec(line);
      nodes.push(make(`h${Math.min(6, marks.length + 2)}`, {}, ...inline(words, cite)));
      at += 1;
    } else if (RULE.test(line)) {
      nodes.push(make("hr"));
      at += 1;
    } else if (QUOTE.test(line)) {
      const end = until(lines, at, (each) => !QUOTE.test(each));
      nodes.push(make("blockquote", {}, ...blocks(lines.slice(at, end).map((each) => each.replace(QUOTE, "")), cite)));
      at = end;
    } else if (ITEM.test(line)) {
      at = list(lines, at, nodes, cite);
    } else if (ROW.test(line) && DASHES.test(lines[at + 1] ?? "")) {
      at = table(lines, at, nodes, cite);
    } else {
      const end = until(lines, at, (each) => !each.trim() || [FENCE, HEADING, QUOTE, ITEM].some((rule) => rule.test(each)));
      const words = lines.slice(at, end).flatMap((each, place) => (place ? [make("br"), ...inline(each, cite)] : inline(each, cite)));
      nodes.push(make("p", {}, ...words));
      at = end;
    }
  }
  return nodes;
}

function until(lines, at, ends) {
  let end = at + 1;
  while (end < lines.length && !ends(lines[end])) end += 1;
  return end;
}

function fence(lines, at, nodes) {
  const [, marks, language] = FENCE.exec(lines[at]);
  const end = until(lines, at, (each) => each.trim().startsWith(marks));
  nodes.push(make("pre", { dataset: { language } }, make("code", {}, lines.slice(at + 1, end).join("\n"))));
  return end + 1;
}

function list(lines, at, nodes, cite) {
  const ordered = /\d/.test(ITEM.exec(lines[at])[2]);
  const node = make(ordered ? "ol" : "ul", ordered ? { start: parseInt(ITEM.exec(lines[at])[2], 10) } : {});
  while (at < lines.length && ITEM.test(lines[at])) {
    const indent = ITEM.exec(lines[at])[0].length;
    const end = until(lines, at, (each) => !each.trim() || (ITEM.test(each) && ITEM.exec(each)[1].length < 2) || !/^\s/.test(each));
    const [head, ...rest] = lines.slice(at, end);
    const inner = blocks(rest.map((each) => each.slice(Math.min(indent, each.length - each.trimStart().length))), cite);
    node.append(make("li", {}, ...inline(head.slice(indent), cite), ...inner));
    at = end;
  }
  nodes.push(node);
  return at;
}

function table(lines, at, nodes, cite) {
  const end = until(lines, at, (each) => !ROW.test(each));
  const cells = (line) => line.trim().slice(1, -1).split("|").map((cell) => cell.trim());
  const head = make("tr", {}, ...cells(lines[at]).map((cell) => make("th", {}, ...inline(cell, cite))));
  const rows = lines.slice(at + 2, end).map((line) => make("tr", {}, ...cells(line).map((cell) => make("td", {}, ...inline(cell, cite)))));
  nodes.push(make("div", { className: "scroll", tabIndex: 0 }, make("table", {}, make("thead", {}, head), make("tbody", {}, ...rows))));
  return end;
}
