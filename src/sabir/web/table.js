// Tables that stay readable on a phone, where the cells of a row stand below each other.
import { make, visible } from "./dom.js";

export function table(heads, rows) {
  const wide = heads.length > 2;
  const head = make("tr", { role: "row" }, ...heads.map((name) => make("th", { scope: "col", role: "columnheader" }, visible(name))));
  return make("table", { className: wide ? "rows wide" : "rows", role: "table" }, // the roles survive the styles of a phone
    make("thead", { role: "rowgroup" }, head), make("tbody", { role: "rowgroup" }, ...rows.map((row) => tableRow(row, heads))));
}

export function tableRow(cells, heads = []) { // on a phone, each cell has its head before it
  return make("tr", { role: "row" }, ...cells.map((cell, place) => make("td", { role: "cell", dataset: { head: heads[place] ?? "" } }, cell)));
}
