// The members of an ensemble, a federation or a group while they answer, and afterwards as a replay.
//
// Progress notes say who is asked, answers, votes and fails; every protocol carries them. The outcome
// at the end (labels "ensemble" and "sources") has the same as data, if the protocol carries data.
import { button, make, visible } from "./dom.js";

const NAME = "[A-Za-z0-9_.-]{1,64}";
const ASKING = new RegExp(`^Asking (${NAME}(?:, ${NAME})+)$`);
const NOTES = [
  [new RegExp(`^(${NAME}) has answered$`), (member) => { member.state = "answered"; member.answers += 1; }],
  [new RegExp(`^(${NAME}) votes for (${NAME})$`), (member, choice) => { member.state = "voted"; member.vote = choice; }],
  [new RegExp(`^(${NAME}) failed: (.*)$`, "s"), (member, reason) => { member.state = "failed"; member.reason = reason; member.vote = ""; }],
  [new RegExp(`^(${NAME}) starts over$`), (member) => { member.state = "asked"; }],
];
const WORDS = { asked: "is answering", answered: "has answered", failed: "failed", winner: "presents the answer" };
const STEP = [150, 900]; // the shortest and the longest time between two steps of a replay, in milliseconds

export class Panel {
  // The panel that a note opens, or null.
  static opened(note) {
    return ASKING.test(note ?? "") ? new Panel() : null;
  }

  constructor(events = []) {
    this.events = []; // {after, note} or {after, outcome}: enough to show it again
    this.began = performance.now();
    this.list = make("ol", { className: "members" });
    this.title = make("span", {});
    this.tools = make("span", {});
    this.node = make("section", { className: "team", ariaLabel: "Members" }, make("p", { className: "team-title" }, this.title, this.tools), this.list);
    for (const event of events) this.add(event);
    if (events.length) this.end();
  }

  note(note) {
    this.add({ after: performance.now() - this.began, note });
  }

  outcome(outcome) {
    this.add({ after: performance.now() - this.began, outcome });
  }

  add(event) {
    this.events.push(event);
    this.apply(event);
    this.render();
  }

  apply({ note, outcome }) {
    if (outcome) {
      this.decide(outcome);
      return;
    }
    const asked = ASKING.exec(note);
    if (asked && !this.members) this.members = new Map(asked[1].split(", ").map((name) => [name, { name, state: "asked", answers: 0, vote: "", reason: "" }]));
    for (const [pattern, change] of NOTES) {
      const found = pattern.exec(note);
      const member = found && this.members?.get(found[1]);
      if (member) change(member, found[2]);
    }
  }

  // The outcome as data: {answered, failed} of a federation, {winner, votes, answers, failed} of an ensemble.
  decide(outcome) {
    for (const member of this.members.values()) {
      if (outcome.failed?.[member.name] !== undefined) [member.state, member.reason] = ["failed", String(outcome.failed[member.name])];
      else if (Array.isArray(outcome.answered) && outcome.answered.includes(member.name)) member.state = "answered";
      if (outcome.votes?.[member.name]) member.vote = String(outcome.votes[member.name]);
      if (outcome.winner === member.name) member.state = "winner";
    }
  }

  render() {
    const members = [...this.members.values()];
    const done = members.filter((member) => member.state !== "asked").length;
    this.title.textContent = `${done} of ${members.length} members`;
    this.list.replaceChildren(...members.map((member) => {
      const votes = members.filter((other) => other.vote === member.name).length;
      const words = member.state === "failed" ? `failed: ${member.reason}` : member.state === "voted" ? `votes for ${member.vote}` : WORDS[member.state];
      return make("li", { className: `member ${member.state}` },
        make("b", {}, visible(member.name)), make("span", {}, visible(words)), votes ? make("span", { className: "votes" }, votes === 1 ? "1 vote" : `${votes} votes`) : null);
    }));
  }

  end() {
    this.replayButton ??= button("Replay", () => this.replay(), { className: "turn-button", title: "Show again how the members answered" });
    this.tools.replaceChildren(this.replayButton);
  }

  async replay() {
    this.replayButton.disabled = true;
    this.members = null;
    let before = 0;
    for (const event of this.events) {
      await new Promise((done) => setTimeout(done, Math.min(Math.max(event.after - before, STEP[0]), STEP[1])));
      before = event.after;
      this.apply(event);
      this.render();
    }
    this.replayButton.disabled = false;
  }
}
