// The caller's activity: tasks, the conversation, and messages in an inbox.
import { remembered } from "./chat.js";
import { control } from "./control.js";
import { button, make, visible } from "./dom.js";
import { table } from "./table.js";

const AGENTS = 30; // whose tasks are listed

export async function render(root, place) {
  const tasks = make("div", {}, make("p", { className: "empty" }, "Looking…"));
  const sessions = make("div", {}, make("p", { className: "empty" }, "Looking…"));
  const inbox = make("div", {});
  root.replaceChildren(
    make("h1", {}, "Activity"),
    make("p", {}, "Your tasks and your conversations here."),
    make("h2", {}, "Tasks"), tasks,
    make("h2", {}, "Conversations"), sessions,
    make("section", { className: "for-developers" }, make("h2", {}, "Inbox"), inbox),
  );
  await Promise.all([showTasks(tasks, place), showSessions(sessions, place)]);
  showInbox(inbox, place);
}

async function rpc(place, agent, method, params) {
  const headers = { "Content-Type": "application/json", "A2A-Version": "1.0", ...place.headers() };
  const body = JSON.stringify({ jsonrpc: "2.0", id: crypto.randomUUID(), method, params });
  return place.wire.json(await place.wire.fetch(`/a2a/${encodeURIComponent(agent)}`, { method: "POST", headers, body }, { protocol: "a2a", what: method }));
}

async function showTasks(root, place) {
  const listed = (await Promise.all(place.cards().slice(0, AGENTS).map(async ({ name }) =>
    ((await rpc(place, name, "ListTasks", { pageSize: 20 }))?.result?.tasks ?? []).map((task) => ({ ...task, agent: name }))))).flat();
  const ours = remembered().filter(({ id }) => !listed.some((task) => task.id === id));
  const known = await Promise.all(ours.map(async ({ id, agent }) => ({ ...(await rpc(place, agent, "GetTask", { id }))?.result, agent })));
  const moment = (task) => Date.parse(task.status.timestamp);
  const tasks = [...listed, ...known.filter((task) => task.status)].sort((one, other) => moment(other) - moment(one));
  if (!tasks.length) {
    root.replaceChildren(make("p", { className: "empty" }, "No tasks yet. A request that takes long becomes one.", make("span", { className: "for-developers" }, " Every question over A2A does, too.")));
    return;
  }
  const running = ["TASK_STATE_SUBMITTED", "TASK_STATE_WORKING", "TASK_STATE_INPUT_REQUIRED"];
  root.replaceChildren(table(["Task", "Agent", "State", "Updated", ""], tasks.map((task) => [
    task.id.slice(0, 12), visible(task.agent), badge(stateOf(task.status.state)), new Date(task.status.timestamp).toLocaleString(),
    running.includes(task.status.state) ? button("Cancel", async () => {
      await rpc(place, task.agent, "CancelTask", { id: task.id });
      await showTasks(root, place);
    }) : "",
  ])));
}

async function showSessions(root, place) {
  const found = await control(place, "Which sessions do I have?", "sessions");
  const sessions = (found.sessions ?? []).filter((session) => session.turns && !session.current); // the current one asks this
  if (!sessions.length) {
    root.replaceChildren(make("p", { className: "empty" }, place.headers().Authorization ? "No conversations yet." : "Sign in to see your earlier conversations here."));
    return;
  }
  const moment = (text) => (text ? new Date(text).toLocaleString() : "");
  root.replaceChildren(table(["Conversation", "Began", "Last turn", "Turns"], sessions.map((session) =>
    [visible(session.id ?? session.session ?? Object.values(session)[0]), moment(session.begun), moment(session.last), String(session.turns)])));
}

function showInbox(root, place) {
  const name = make("input", { type: "text", placeholder: "agent name, e.g. eddy", ariaLabel: "Agent whose inbox to read" });
  const list = make("div", {});
  let reading = null;
  const form = make("form", { className: "row", onsubmit: (event) => {
    event.preventDefault();
    reading?.abort();
    reading = new AbortController();
    follow(list, name.value.trim(), place, reading.signal);
  } }, name, make("button", { type: "submit" }, "Follow"));
  root.replaceChildren(make("p", { className: "lead" }, "Messages of the agent communication language (ACL) that wait for one of your agents."), form, list);
}

async function follow(root, agent, place, signal) {
  root.replaceChildren(make("p", { className: "empty" }, "Waiting for messages…"));
  const headers = { Accept: "text/event-stream", ...place.headers() };
  try {
    const pair = await place.wire.fetch(`/acl/inbox/${encodeURIComponent(agent)}`, { headers, signal }, { protocol: "acl", what: "inbox" });
    if (!pair[0].ok) {
      root.replaceChildren(make("p", { className: "failure" }, `The inbox answered ${pair[0].status}.`));
      return;
    }
    const rows = [];
    for await (const event of place.wire.events(pair)) {
      const message = JSON.parse(event.data);
      rows.unshift([message.performative, visible(message.sender?.agent_id ?? ""), visible(message.conversation_id ?? ""), visible(JSON.stringify(message.payload).slice(0, 300))]);
      root.replaceChildren(table(["Act", "From", "Conversation", "Payload"], rows));
    }
  } catch (error) {
    if (!signal.aborted) root.replaceChildren(make("p", { className: "failure" }, visible(error.message)));
  }
}

const KINDS = { failed: "badge bad", rejected: "badge bad", cancelled: "badge soft" };
const stateOf = (state) => state.replace("TASK_STATE_", "").toLowerCase().replace("_", " ").replace("canceled", "cancelled");
const badge = (text) => make("span", { className: KINDS[text] ?? "badge" }, text);
