// Forms for the questions that agents ask back.
import { button, make, visible, link } from "./dom.js";

export function questionForm(question, answer) {
  const fields = question.fields ?? [];
  const confirms = fields.length === 1 && isYesOrNo(fields[0]);
  const text = confirms ? question.text.replace(/\s*Reply yes to confirm\.$/, "") : question.text; // there are buttons for it
  const form = make("form", { className: "question" }, make("p", {}, visible(text)));
  if (question.url) form.append(make("p", { className: "source" }, link(question.url, question.url) ?? visible(question.url)));
  if (confirms) return confirmation(form, fields[0], answer);
  for (const field of fields) form.append(fieldset(field, question));
  if (!fields.length) form.append(make("fieldset", {}, make("input", { type: "text", name: "answer", ariaLabel: question.text, required: true })));
  const finish = (answers, words) => {
    for (const control of form.elements) control.disabled = true;
    answer(answers, words);
  };
  const isChoice = fields.length && fields.every((field) => !field.required && (field.options ?? []).length);
  const skip = isChoice ? button("No preference", () => finish({}, "no preference")) : null;
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

// NLWeb has no booleans; it uses a choice of two.
const isYesOrNo = (field) => field.type === "boolean" || (field.options ?? []).join().toLowerCase() === "yes,no";

// A yes-or-no question is two buttons.
function confirmation(form, field, answer) {
  const reply = (value) => button(value ? "Yes" : "No", () => {
    for (const control of form.elements) control.disabled = true;
    const word = value ? "yes" : "no";
    answer({ [field.id]: field.type === "boolean" ? value : word }, word);
  }, { className: value ? "primary" : null });
  form.classList.add("confirmation");
  form.addEventListener("submit", (event) => event.preventDefault());
  form.append(make("div", { className: "row" }, reply(true), reply(false)));
  return form;
}

function fieldset(field, question) {
  const node = make("fieldset", {});
  if (field.text && field.text !== question.text) node.append(make("legend", {}, `${visible(field.text)}${field.required === false ? " (optional)" : ""}`));
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
