// Forms for the questions that agents ask back.
import { button, make, visible, link } from "./dom.js";

export function questionForm(question, answer) {
  const fields = question.fields ?? [];
  const form = make("form", { className: "question" }, make("p", {}, visible(question.text)));
  if (question.url) form.append(make("p", { className: "source" }, link(question.url, question.url) ?? visible(question.url)));
  for (const field of fields) form.append(fieldset(field, question));
  if (!fields.length) form.append(make("fieldset", {}, make("input", { type: "text", name: "answer", ariaLabel: question.text, required: true })));
  const finish = (answers, words) => {
    for (const control of form.elements) control.disabled = true;
    answer(answers, words);
  };
  const skip = fields.some((field) => field.required) || !fields.length ? null : button("No preference", () => finish({}, "no preference"));
  form.append(make("div", { className: "row" }, make("button", { type: "submit", className: "primary" }, "Continue"), skip));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const given = new FormData(form);
    if (!fields.length) {
      finish(null, given.get("answer"));
      return;
    }
    const answers = valuesOf(fields, given);
    const words = Object.values(answers).flat().map((value) => (value === true ? "yes" : value === false ? "no" : String(value).replace(/ \(\d+\)$/, ""))).join(", ");
    finish(answers, words || "no preference");
  });
  return form;
}

function fieldset(field, question) {
  const node = make("fieldset", {});
  if (field.text && field.text !== question.text) node.append(make("legend", {}, visible(field.text)));
  const options = field.type === "boolean" ? ["yes", "no"] : field.options ?? [];
  if (options.length) {
    const type = field.type === "multi_select" ? "checkbox" : "radio";
    node.append(make("div", { className: "options" }, ...options.map((option) =>
      make("label", {}, make("input", { type, name: field.id, value: option, required: Boolean(field.required) && type === "radio" }), visible(option)))));
  } else {
    const type = field.type === "number" ? "number" : "text";
    node.append(make("input", { type, step: type === "number" ? "any" : null, name: field.id, ariaLabel: field.text ?? field.id, required: Boolean(field.required) }));
  }
  return node;
}

function valuesOf(fields, given) {
  const answers = {};
  for (const field of fields) {
    const values = given.getAll(field.id).filter(Boolean);
    if (!values.length) continue;
    if (field.type === "multi_select") answers[field.id] = values;
    else if (field.type === "boolean") answers[field.id] = values[0] === "yes";
    else if (field.type === "number") answers[field.id] = Number(values[0]);
    else answers[field.id] = values[0];
  }
  return answers;
}
