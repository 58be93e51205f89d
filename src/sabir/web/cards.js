// Cards: the results of a site, with the facts that people look for first.
import { button, first, isWeb, link, make, plain, visible } from "./dom.js";

const FACTS_SHOWN = new Set(["price", "date", "startdate", "totaltime", "stars"]); // facts that every card shows in its own way
const DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

export function card(item, id, number) {
  const kind = String(first(item["@type"]) || "Thing");
  const title = visible(plain(item.name) || plain(item.headline) || item["@id"] || "");
  const score = typeof item.score === "number" && item.score > 0 ? item.score : null;
  return make(
    "li",
    { className: "card", id },
    picture(item),
    make(
      "div",
      { className: "top" },
      make("span", { className: "number" }, String(number)),
      make("span", { className: "kind" }, kind.replace(/([a-z])([A-Z])/g, "$1 $2")),
      make("span", { className: "site" }, item.site || ""),
      score === null ? null : make("span", { className: "score for-developers", title: "How well it fits, out of 100" },
        make("meter", { min: 0, max: 100, value: score, ariaLabel: "How well it fits" }), String(Math.round(score))),
    ),
    make("h3", {}, link(item.url, title) ?? title),
    factsOf(item),
    typeof item.description === "string" ? make("p", { className: "about" }, visible(item.description)) : null,
    hoursOf(item),
    actionsOf(item),
    groundingOf(item.grounding),
  );
}

// Pictures are shown only from this origin: loading others would reveal who asked for what.
function picture(item) {
  const source = first(item.image) ?? item.thumbnailUrl;
  const url = typeof source === "string" ? source : source?.url ?? source?.contentUrl;
  if (typeof url !== "string") return null;
  const own = url.startsWith("data:image/") || (isWeb(url) && new URL(url, location.href).origin === location.origin);
  if (own) return make("img", { src: url, alt: "", loading: "lazy", className: "picture" });
  return isWeb(url) && /^https?:/.test(url) ? link(url, `Picture at ${new URL(url).host}`, { className: "elsewhere" }) : null;
}

function factsOf(item) {
  const offer = first(item.offers) ?? {};
  const place = first(item.location) ?? item;
  const address = first(place.address) ?? {};
  const rating = first(item.aggregateRating);
  const matched = item.matched && typeof item.matched === "object" ? item.matched : {};
  const facts = [
    ...Object.entries(matched).filter(([field]) => !FACTS_SHOWN.has(field)).map(([, value]) => ["", String(value)]),
    ["", price(offer) || price(first(item.estimatedCost) ?? {}) || price(item) || matched.price],
    ["", date(item.startDate) || matched.date],
    ["", duration(item.totalTime || item.cookTime) || matched.totaltime],
    ["", plain(first(item.recipeCategory))],
    ["", plain(first(item.servesCuisine))],
    ["", plain(item.priceRange)],
    ["★", rating ? String(rating.ratingValue ?? "") : ""],
    ["", typeof address === "string" ? address : [place !== item ? plain(place.name) : "", address.addressLocality].filter(Boolean).join(", ")],
  ].filter(([, value]) => value);
  if (!facts.length) return null;
  return make("ul", { className: "facts" }, ...facts.map(([sign, value]) => make("li", {}, sign ? `${sign} ` : "", make("strong", {}, visible(value)))));
}

export function price(offer) {
  const value = [offer.price, offer.lowPrice, offer.value].find((given) => (given ?? "") !== "");
  if (value === undefined) return "";
  const amount = Number(value);
  const currency = offer.priceCurrency || offer.currency || "";
  const before = (offer.price ?? "") === "" && offer.lowPrice !== undefined ? "from " : "";
  if (amount === 0) return "Free";
  if (Number.isNaN(amount)) return `${value} ${currency}`.trim(); // "on request"
  const digits = Number.isInteger(amount) ? 0 : 2;
  const format = { minimumFractionDigits: digits, maximumFractionDigits: 2 };
  try {
    return before + new Intl.NumberFormat(undefined, currency ? { style: "currency", currency, ...format } : format).format(amount);
  } catch {
    return `${before}${value} ${currency}`; // a currency that the browser does not know
  }
}

export function date(text) { // local time of the event, whatever the browser's time zone
  const found = /^(\d{4})-(\d{2})-(\d{2})(?:[T ](\d{2}):(\d{2}))?/.exec(typeof text === "string" ? text : "");
  if (!found) return "";
  const [year, month, day, hour, minute] = found.slice(1).map(Number);
  const when = new Date(Date.UTC(year, month - 1, day, hour || 0, minute || 0));
  const clock = found[4] === undefined ? {} : { hour: "numeric", minute: "2-digit" };
  return when.toLocaleString(undefined, { weekday: "short", day: "numeric", month: "short", year: "numeric", ...clock, timeZone: "UTC" });
}

export function duration(text) {
  const found = /^P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?)?/.exec(typeof text === "string" ? text : "");
  if (!found) return "";
  return [[found[1], "d"], [found[2], "h"], [found[3], "min"]].filter(([n]) => Number(n)).map(([n, unit]) => `${n} ${unit}`).join(" ");
}

// Opening hours in words: consecutive days with the same hours are one line.
export function hoursInWords(specifications) {
  const byDay = DAYS.map(() => []);
  for (const each of [specifications].flat()) {
    for (const day of [each?.dayOfWeek].flat()) {
      const place = DAYS.indexOf(String(day ?? "").replace(/^https?:\/\/schema\.org\//, ""));
      if (place >= 0 && each.opens) byDay[place].push(`${clock(each.opens)}–${clock(each.closes)}`);
    }
  }
  if (byDay.every((hours) => !hours.length)) return [];
  const lines = [];
  byDay.forEach((hours, place) => {
    const words = hours.join(", ") || "closed";
    const last = lines.at(-1);
    if (last?.words === words) last.to = place;
    else lines.push({ from: place, to: place, words });
  });
  return lines.map(({ from, to, words }) => `${DAYS[from].slice(0, 3)}${to > from ? `–${DAYS[to].slice(0, 3)}` : ""}: ${words}`);
}

const clock = (text) => String(text ?? "").slice(0, 5).replace(/^0(\d)/, "$1");

// The short form of schema.org, "Mo-Fr 06:30-17:00", as specifications.
export function specifications(texts) {
  const short = DAYS.map((day) => day.slice(0, 2));
  return [texts].flat().flatMap((text) => {
    const found = /^([A-Z][a-z](?:[-,][A-Z][a-z])*) (\d{1,2}:\d{2})-(\d{1,2}:\d{2})$/.exec(String(text ?? ""));
    if (!found) return [];
    const days = found[1].split(",").flatMap((span) => {
      const [from, to] = span.split("-").map((day) => short.indexOf(day));
      if (from < 0 || to < 0) return [];
      const last = to ?? from;
      return DAYS.filter((_, place) => (from <= last ? place >= from && place <= last : place >= from || place <= last));
    });
    return [{ dayOfWeek: days, opens: found[2], closes: found[3] }];
  });
}

function hoursOf(item) {
  const lines = hoursInWords([item.openingHoursSpecification ?? [], specifications(item.openingHours ?? [])].flat());
  if (!lines.length) return null;
  return make("details", { className: "hours" }, make("summary", {}, "Opening hours"), make("ul", {}, ...lines.map((line) => make("li", {}, line))));
}

function actionsOf(item) {
  const actions = Array.isArray(item.actions) ? item.actions : [];
  if (!actions.length) return null;
  return make("div", { className: "actions" }, ...actions.slice(0, 3).map(actionOf));
}

// An action is a link, or a form for its inputs. It opens in a new tab, at the site that offers it.
function actionOf(action) {
  const name = visible(action.name || action["@type"] || "Action");
  const address = String(action.endpoint || "").replace(/\{[?&][^}]*\}/g, "");
  const isGet = (action.method || "GET").toUpperCase() === "GET";
  const params = Object.entries(action.params ?? {});
  if (/[{}]/.test(address) || !/^https?:/.test(address) || !isWeb(address)) return make("span", { title: action.description }, name);
  if (isGet && !params.length) return link(address, name, { title: action.description });
  if (!isGet && !address.startsWith("https:")) return make("span", { title: action.description }, name);
  const form = make("form", { action: address, method: isGet ? "get" : "post", target: "_blank", rel: "noopener noreferrer", className: "action-form", hidden: true },
    action.description ? make("p", {}, visible(action.description)) : null,
    ...params.map(([id, about]) => make("label", {}, visible(id.replaceAll("_", " ")), make("input", { type: "text", name: id, required: Boolean(about?.required) }))),
    make("button", { type: "submit", className: "primary" }, `Go to ${visible(new URL(address).host)}`));
  const open = button(name, () => {
    form.hidden = !form.hidden;
    open.setAttribute("aria-expanded", String(!form.hidden));
  }, { title: action.description });
  open.setAttribute("aria-expanded", "false");
  return [open, form];
}

function groundingOf(grounding) {
  const quotes = grounding?.citations ?? [];
  const urls = grounding?.source_urls ?? [];
  if (!quotes.length && !urls.length) return null;
  return make(
    "details",
    {},
    make("summary", {}, "Source"),
    ...quotes.slice(0, 3).map((quote) => make("blockquote", {}, visible(typeof quote === "string" ? quote : quote.text ?? ""))),
    ...urls.slice(0, 3).map((url) => make("div", { className: "source" }, link(url, url) ?? url)),
  );
}
