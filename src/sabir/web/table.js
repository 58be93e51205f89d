// Tables that stay readable on a phone, where the cells of a row stand below each other.
import { make, visible } from "./dom.js";

export function table(heads, rows) {
  const wide = heads.length > 2;
  const head = make("tr", { role: "row" }, ...heads.map((name) => make("th", { scope: "col", role: "columnheader" }, visible(name))));
  return make("table", { className: wide ? "rows wide" : "rows", role: "table" }, // the roles survive the styles of a phone
    make("thead", { role: "rowgroup" }, head), make("tbody", { role: "rowgroup" }, ...rows.map(tableRow)));
}

export function tableRow(cells) {
  return make("tr", { role: "row" }, ...cells.map((cell) => make("td", { role: "cell" }, cell)));
}
