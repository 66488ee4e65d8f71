// One run: its head, its tabs, and what comes in while it goes on.
import { get, post, session } from "./api.js";
import { count, dollars, duration, fill, framed, h, score, short, signed } from "./dom.js";
import { menu } from "./view-runs.js";
import * as overview from "./tab-overview.js";
import * as steps from "./tab-steps.js";
import * as skill from "./tab-skill.js";
import * as items from "./tab-items.js";
import * as cost from "./tab-cost.js";
import * as log from "./tab-log.js";
import * as settings from "./tab-settings.js";
import * as review from "./tab-review.js";

const TABS = [["overview", "Overview", overview], ["steps", "Steps", steps], ["skill", "Skill", skill], ["items", "Items", items], ["cost", "Cost", cost], ["log", "Log", log], ["settings", "Settings", settings], ["review", "Review", review]];

const ACTIVE = ["running", "starting"];
const GONE = "no longer there";

let open = null;

export function page(app, main, id, rest) {
  const name = TABS.some(([key]) => key === rest[0]) ? rest[0] : "overview";
  if (open && open.id === id && !open.dead && main.contains(open.box)) { open.show(name, rest.slice(1)); return open; }
  open = new RunPage(app, main, id);
  open.load(name, rest.slice(1));
  return open;
}

class RunPage {
  constructor(app, main, id) {
    Object.assign(this, { app, main, id, dead: false, data: null, tab: null, status: "", output: [], lines: [], loaded: Date.now() });
    this.head = h("header", { class: "run-head" });
    this.tabs = h("nav", { class: "tabs", ariaLabel: "Views of this run" });
    this.body = h("div", { class: "tab-body" }, h("p", { class: "empty" }, "Reading the record…"));
    this.box = h("div", { class: "run-page" }, this.head, this.tabs, this.body);
    fill(main, this.box);
    this.drawHead = framed(() => { if (!this.dead) this.heading(); });
    this.drawTab = framed(() => { if (!this.dead && this.tab && this.tab.update) this.tab.update(); });
    this.clock = setInterval(() => { for (const node of this.head.querySelectorAll(".elapsed")) node.textContent = this.elapsed(); }, 1000);
  }

  async load(name, rest) {
    let data;
    try { data = await get(`runs/${encodeURIComponent(this.id)}`); } catch (error) {
      if (this.dead) return;
      fill(this.body, h("div", { class: "hello" }, h("h2", {}, "This run cannot be shown"), h("p", {}, error.message), h("p", {}, h("a", { class: "button", href: "/" }, "All runs"))));
      this.app.follow(null, 0, {});
      return;
    }
    if (this.dead) return;
    this.take(data);
    this.app.title(data.name);
    if (data.status === GONE) { this.leave(data.why); return; }
    this.heading();
    this.show(name, rest);
    this.app.follow(this.id, data.position, {
      record: (event) => this.recorded(event),
      state: (state) => this.stated(state),
      output: (said) => { this.output.push(...said.lines); if (this.output.length > 5000) this.output.splice(0, this.output.length - 5000); this.drawTab(); },
      reset: () => { this.load(this.name, this.rest); },
    });
  }

  take(data) {
    this.data = data;
    this.head_ = data.head || null;
    this.status = data.head ? data.head.status : data.status;
    this.job = data.job;
    this.why = data.why;
    this.progress = data.progress;
    this.since = data.since;
    this.lines = [];
    this.output = [];
  }

  // What was recorded since: rows are put in their place, each once.
  recorded(event) {
    this.lines.push(event.log);
    if (event.step && this.data.steps) {
      const known = this.data.steps.findIndex((step) => step.position === event.step.position);
      if (known < 0) this.data.steps.push(event.step);
      else this.data.steps[known] = event.step;
      this.fresh = true;
      if (event.step.outcome === "accepted") this.reread();
    }
    this.drawTab();
  }

  stated(state) {
    if (state.status === GONE) { this.leave(state.why); return; }
    const begins = state.begun && this.data && !this.data.begun;
    const ended = ACTIVE.includes(this.status) && !ACTIVE.includes(state.status);
    this.status = state.status;
    this.since = state.since;
    this.job = state.job;
    this.why = state.why;
    this.progress = state.progress;
    if (state.head) { this.head_ = { ...state.head, status: state.status }; this.data.head = this.head_; }
    if (state.cost) this.data.cost = state.cost;
    if (state.tally) this.data.tally = state.tally;
    if (begins || ended) this.reread();
    this.drawHead();
    this.drawTab();
  }

  // Its folder was removed or renamed while the page was open.
  leave(why) {
    if (this.tab && this.tab.close) this.tab.close();
    this.tab = null;
    this.status = GONE;
    fill(this.tabs);
    fill(this.head, h("div", { class: "run-title" }, menu(this.app), h("h1", {}, this.data.name)));
    fill(this.body, h("div", { class: "hello" }, h("h2", {}, "This run is no longer there"), h("p", {}, `${why}.`), h("p", {}, h("a", { class: "button primary", href: "/" }, "All runs"))));
    this.app.follow(null, 0, {});
  }

  // What follows from the record and is not sent with it: the last change, findings, versions.
  async reread() {
    const turn = (this.turn = (this.turn || 0) + 1);
    let data;
    try { data = await get(`runs/${encodeURIComponent(this.id)}`); } catch { return; }
    if (this.dead || turn !== this.turn) return;
    const begins = data.begun && !this.data.begun;
    this.data = data;
    this.head_ = data.head || this.head_;
    this.status = data.head ? data.head.status : data.status;
    this.why = data.why;
    if (begins) this.show(this.name, this.rest);
    this.drawHead();
    if (this.tab && this.tab.reread) this.tab.reread();
    this.drawTab();
  }

  address(tab, ...rest) { return ["/run", this.id, tab, ...rest].map((part, index) => (index ? encodeURIComponent(part) : part)).join("/"); }

  show(name, rest) {
    this.rest = rest;
    if (this.name !== name || !this.tab || !this.tab.again || !this.tab.again(rest)) {
      if (this.tab && this.tab.close) this.tab.close();
      this.name = name;
      fill(this.body);
      this.body.className = `tab-body ${name}`;
      const needs = name !== "log" && name !== "settings";
      if (needs && !this.data.begun) { this.tab = waiting(this); } else this.tab = TABS.find(([key]) => key === name)[2].open(this, this.body, rest);
    }
    this.navigation();
  }

  navigation() {
    const at = Date.now();
    if (this.drawnTab === this.name && this.tabs.childElementCount) return;
    this.drawnTab = this.name;
    this.tabsAt = at;
    fill(this.tabs, TABS.map(([key, title]) => h("a", { href: this.address(key), class: key === this.name ? "here" : "", ariaCurrent: key === this.name ? "page" : null, "data-title": title }, title)));
    this.tabs.querySelector(".here").scrollIntoView({ block: "nearest", inline: "center" });
  }

  heading() {
    const head = this.head_;
    const run = this.status;
    const name = this.data ? this.data.name : this.id;
    const claim = head && head.claim;
    const kind = { running: "running", starting: "running", finished: "finished", crashed: "failed", "stopped by an error": "failed", unreadable: "failed" }[run] || "stopped";
    const key = JSON.stringify([head, run, this.job, this.why, this.since, this.data && this.data.again, this.progress && this.progress.phases && this.progress.phases.map((phase) => [phase.operation, phase.phase])]);
    if (key === this.headKey) { this.moving(); return; }
    this.headKey = key;
    const stop = this.job && this.job.stopping;
    const begun = this.data && this.data.begun;
    const actions = session.readOnly ? [] : ACTIVE.includes(run)
      ? [h("button", { class: "button", type: "button", disabled: stop, onclick: () => this.stop() }, stop ? "Stopping…" : "Stop in order")]
      : begun ? [run === "finished" ? null : h("button", { class: "button primary", type: "button", onclick: () => this.resume() }, "Resume"), h("button", { class: "button", type: "button", onclick: () => this.extend() }, "More epochs")]
      : [this.data && this.data.config ? h("a", { class: "button", href: `/launch?as=config&config=${encodeURIComponent(this.data.config)}` }, "Change settings") : null, this.data && this.data.again ? h("button", { class: "button primary", type: "button", onclick: () => this.begin("resume", {}, "Started again.") }, "Try again") : null];
    fill(this.head,
      h("div", { class: "run-title" }, menu(this.app), h("h1", {}, name),
        h("span", { class: `pill ${kind}` }, h("span", { class: `dot ${kind}`, ariaHidden: "true" }), run || "reading"),
        head && head.simulated ? h("span", { class: "tag", title: "Scores say nothing about a real model" }, "simulated") : null,
        h("span", { class: "spring" }), h("span", { class: "offline-note" }, "No connection; trying again…"), h("span", { class: "actions" }, actions)),
      h("p", { class: claim && begun ? "claim" : "claim soft" }, claim && begun ? sentence(claim) : { starting: "Starting…", running: "The initial skill is being measured.", unreadable: "Its record cannot be read." }[run] || "It has not begun: the initial skill is not measured."),
      head && (begun || head.benchmark) ? h("p", { class: "facts" }, fact("target", head.target), fact("optimizer", head.optimizer), fact("data", head.benchmark ? head.data || "given in Python" : "", head.benchmark), begun ? fact("steps", count(head.steps)) : null, run === "running" ? this.since ? fact("running for", h("span", { class: "elapsed num" }, this.elapsed())) : null : begun ? fact("took", duration(head.seconds)) : null, head.seed === null ? null : fact("seed", head.seed)) : null,
      (this.strip = h("div", { class: "strip" })));
    this.moving();
  }

  elapsed() {
    const seconds = Math.max(0, Math.round((Date.now() - Date.parse(this.since)) / 1000));
    return seconds < 90 ? `${seconds} s` : duration(seconds);
  }

  // What the process said before it began, until there are steps to tell it by.
  foreseen() {
    const line = this.output.findLast((each) => each.startsWith("estimate for the whole run: "));
    return line ? `, estimated ${line.split(": ")[1].split(",")[0]} in all` : "";
  }

  // One line about what is going on, or why nothing is.
  moving() {
    if (!this.strip) return;
    const report = this.progress;
    if (this.status === "running" && report && report.phases) {
      const phase = report.phases.at(-1);
      const share = report.total ? report.done / report.total : 0;
      const gone = this.data.steps ? this.data.steps.reduce((sum, step) => sum + step.seconds, 0) : 0;
      const left = report.done > 1 && report.total ? (gone / report.done) * (report.total - report.done) : null;
      const text = phase ? `${spelt(phase.operation)}: ${spelt(phase.phase)}` : "between two operations";
      const waits = Object.entries(report.waiting || {});
      fill(this.strip, h("div", { class: "now" }, h("span", { class: "tick-dot", ariaHidden: "true" }), h("strong", {}, text), phase ? h("span", { class: "num" }, phase.total ? `${phase.done} of ${phase.total}` : `${phase.done} done`, phase.reused ? h("span", { class: "soft" }, `, ${phase.reused} reused`) : null, phase.failed ? h("span", { class: "bad" }, `, ${phase.failed} failed`) : null) : null,
        h("progress", { max: 1, value: share, ariaLabel: "Operations of the plan" }), h("span", { class: "soft num" }, report.total ? h("span", { title: "The baseline, steps, ends of epochs and the final test" }, `${report.done} of ${report.total} planned operations`) : "", left !== null ? `, about ${duration(left)} left` : this.foreseen()),
        waits.map(([server, seconds]) => h("span", { class: "bad" }, `waiting for ${server} for ${duration(seconds)}`)), again(report).map((text) => h("span", { class: "soft num" }, text))));
      return;
    }
    const why = (this.head_ && this.head_.why) || this.why;
    const findings = (this.data && this.data.findings) || [];
    const failed = this.job && this.job.said;
    const saved = session.readOnly || !this.data || !this.data.begun ? null : h("span", { class: "soft" }, " Finished work is saved; Resume goes on from there.");
    if (failed && this.status !== "running") fill(this.strip, h("div", { class: "now stopped", role: "alert" }, h("strong", {}, this.job.code < 0 ? "The last command did not end by itself: " : `The last command failed (code ${this.job.code}): `), failed, this.job.code < 0 ? "." : "", this.status === "finished" ? null : saved, " ", h("a", { href: this.address("log") }, "What it said")));
    else if (why && this.status !== "finished" && !ACTIVE.includes(this.status)) fill(this.strip, h("div", { class: "now stopped" }, h("strong", {}, `${this.status}: `), why, saved ? /[.!]$/.test(why) ? "" : "." : "", saved));
    else if (this.data && this.data.untested && this.status === "finished") fill(this.strip, h("div", { class: "now notice" }, h("span", {}, h("strong", {}, "Not tested: "), "the final test was of the skills before a review."), session.readOnly ? null : [h("span", { class: "spring" }), h("span", { class: "soft num" }, `at most ${count(this.data.untested.attempts, "attempt")}`), h("button", { class: "button", type: "button", disabled: Boolean(this.job && this.job.running), onclick: () => this.test() }, `Test on ${count(this.data.untested.items, "item")}`)]));
    else if (findings.length) fill(this.strip, h("details", { class: "now doubt" }, h("summary", {}, h("strong", {}, count(findings.length, "reason"), " to look twice: "), findings[0]), h("ul", {}, findings.slice(1).map((text) => h("li", {}, text)))));
    else fill(this.strip);
  }

  async stop() { await this.app.act(() => post(`runs/${encodeURIComponent(this.id)}/stop`), "Stopping: finished work is saved."); }
  async begin(path, body, said) {
    const answer = await this.app.act(() => post(`runs/${encodeURIComponent(this.id)}/${path}`, body), said);
    if (answer) { this.job = answer.job; this.headKey = ""; this.drawHead(); }
  }
  resume(more) { return this.begin("resume", more, "Started; it goes on where it stopped."); }
  test() { return this.begin("test", {}, "Measuring the skills on the test items."); }
  extend() {
    const now = (this.data.steps || []).reduce((most, step) => Math.max(most, step.epoch), 0);
    const { fruitless, most, over: tired } = this.data.patience;
    const epochs = h("input", { type: "number", name: "epochs", min: now + 1, max: this.data.most_epochs, required: true, value: now + 1 });
    const patience = h("input", { type: "number", name: "patience", min: 0, required: true, value: fruitless + most });
    const box = h("dialog", { ariaLabel: "More epochs" }, h("h2", {}, "More epochs"), h("p", {}, `The run has been through ${count(now, "epoch")}. It goes on after its last step, and the final test is repeated if a skill has changed.`),
      h("form", { method: "dialog" }, h("label", { class: "field" }, "epochs in all ", epochs),
      tired ? [h("p", {}, `Training ended early: ${count(fruitless, "step")} in a row changed nothing (train.patience ${most}). To train on, it has to wait for more such steps; 0: it never ends early.`), h("label", { class: "field" }, "steps without a change ", patience)] : null,
      h("div", { class: "bar" }, h("button", { class: "button primary", value: "go" }, "Train on"), h("button", { class: "button", value: "", formNoValidate: true }, "Cancel"))));
    box.addEventListener("close", () => { if (box.returnValue === "go") this.resume({ epochs: epochs.value, patience: tired ? patience.value : "" }); box.remove(); });
    document.body.append(box);
    box.showModal();
  }

  redraw() { if (this.tab && this.tab.redraw) this.tab.redraw(); }
  escape() { if (this.tab && this.tab.escape) this.tab.escape(); }
  key(key) {
    if (/^[1-8]$/.test(key)) { this.app.go(this.address(TABS[Number(key) - 1][0])); return true; }
    return this.tab && this.tab.key ? this.tab.key(key) : false;
  }
  close() { this.dead = true; clearInterval(this.clock); if (this.tab && this.tab.close) this.tab.close(); }
}

const fact = (name, value, more) => h("span", { class: "fact" }, h("span", { class: "soft" }, name, " "), value === 0 ? "0" : value || "unknown", more ? h("span", { class: "soft" }, ` (${more})`) : null);

// Calls that were made again, by role: how often, and how often because of a rate limit.
export const again = (report) => Object.entries(report.retried || {}).map(([role, times]) => `${role}: ${times === 1 ? "1 retry" : `${count(times)} retries`}${report.limited[role] ? `, ${count(report.limited[role], "rate limit")}` : ""}`);

export const spelt = (name) => name.replace(/_0*(\d+)/g, " $1").replace(/_/g, " ");

function sentence(claim) {
  if (claim.gain === null || claim.gain === undefined) return h("span", { class: "soft" }, claim.sentence);
  const from = claim.before && claim.after ? ` from ${score(claim.before.mean)} to ${score(claim.after.mean)}` : "";
  const rest = claim.sentence.replace(/^[^\]]*\]/, "");
  return [h("span", { class: "figure num" }, signed(claim.gain)), " ", h("span", { class: "num" }, `[${signed(claim.low)}, ${signed(claim.high)}]`, rest), h("span", { class: "soft" }, from)];
}

function waiting(page) {
  const said = h("pre", { class: "output", tabIndex: 0 });
  const words = h("p", {});
  const title = h("h2", {});
  fill(page.body, h("div", { class: "hello" }, title, words, said));
  function update() {
    const active = ACTIVE.includes(page.status);
    title.textContent = active ? "Not begun yet" : page.status === "unreadable" ? "The record cannot be read" : "It did not begin";
    words.textContent = active ? "The initial skill is being measured on val; scores appear when that is done." : page.output.length ? "What its process said:" : "";
    said.textContent = page.output.join("\n");
    said.hidden = !page.output.length;
    said.scrollTop = said.scrollHeight;
  }
  update();
  return { update };
}

export { dollars, short };
