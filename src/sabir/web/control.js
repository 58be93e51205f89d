// Control messages of the page: what a caller may know about the gateway and about itself.
// They share one conversation of their own, so that looking does not fill the list of conversations.
let token = null;

export async function control(place, text, label) {
  const submessages = [{ format: "structured", subformat: "json", content: {}, label }, ...(token ? [token] : [])];
  const message = { messagetype: "control", format: "text", subformat: "english", content: text, submessages };
  const headers = { "Content-Type": "application/json", ...place.headers() };
  const reply = await place.wire.json(await place.wire.fetch("/nlip", { method: "POST", headers, body: JSON.stringify(message) }, { protocol: "nlip", what: label }));
  const parts = reply?.submessages ?? [];
  token = parts.find((part) => part.format === "token" && part.subformat.startsWith("conversation")) ?? token;
  return parts.find((part) => part.label === label)?.content ?? {};
}
