// A person's word on proposals: what it makes is measured on val before it becomes current.
import { get, post, session } from "./api.js";
import { fill, h, outcome, reveal, signed, toast } from "./dom.js";
import { tested } from "./tab-overview.js";
import { diff } from "./text.js";

const STANDS = { in: "It is in the skill already", "in part": "It is in the skill in part", out: "" };
const NAME = "skillopt-reviewer";

// A candidate that was not kept may be in the skill all the same.
const standing = (item) => (STANDS[item.stands] ? `${STANDS[item.stands]}${item.outcome === "accepted" ? "" : ": another step or a review brought the same lines"}. ` : "");

export function open(page, body, rest) {
  // Kept with the page: what was typed is there again when the tab is.
  const state = (page.review ||= { turn: 0, busy: false, items: [], sent: null, form: null, forms: new Map() });
  state.at = rest[0] || "";
  let dead = false;
  const list = h("div", { class: "timeline", role: "list", ariaLabel: "Proposals" });
  const detail = h("div", { class: "step-detail" });
  fill(body, h("div", { class: "split" }, list, detail));
  let steps = -1;

  async function load() {
    const turn = (state.turn += 1);
    steps = page.data.steps.length;
    let told;
    try { told = await get(`runs/${encodeURIComponent(page.id)}/proposals`); } catch (error) { if (turn === state.turn) fill(list, h("p", { class: "problem" }, error.message)); return; }
    if (dead || turn !== state.turn) return;
    state.items = told.proposals;
    draw();
  }

  // What was sent is forgotten once it is recorded; if that failed, it stays to be sent again,
  // and so does what was typed since.
  function ended() {
    const { form, value } = state.sent;
    state.sent = null;
    if (page.job.code === 0 && form.value() === value) form.clear();
    if (page.job.code === 0) toast("Recorded.");
    load();
  }

  const locked = () => page.status === "running" || page.status === "starting";

  // What was typed and not sent yet stays, whatever others decide meanwhile.
  function draw() {
    if (!state.items.length) {
      fill(list);
      fill(detail, h("div", { class: "hello" }, h("h2", {}, "Nothing to decide yet"), h("p", {}, "Proposals appear here when the first step is done.")));
      return;
    }
    if (!state.items.some((item) => item.id === state.at)) state.at = state.items[0].id;
    fill(list, state.items.map((item) => h("button", { type: "button", role: "listitem", class: `step-row${item.id === state.at ? " here" : ""}`, onclick: () => choose(item.id) },
      h("span", { class: "step-top" }, outcome(item.outcome, ""), h("strong", {}, item.title), h("span", { class: "spring" }), item.said.length ? h("span", { class: "tag" }, `${item.said.at(-1).reviewer || "a person"}: ${item.said.at(-1).verdict}`) : item.evidence && item.evidence.gain !== null ? h("span", { class: "num" }, signed(item.evidence.gain)) : null),
      h("span", { class: "step-low soft" }, h("span", { class: "cut" }, item.gist || item.words)))));
    if (state.form && state.form.about === state.at && detail.contains(state.form.node) && state.form.typed()) state.form.refresh();
    else show(state.items.find((item) => item.id === state.at));
  }

  function choose(id) { state.at = id; history.replaceState(null, "", page.address("review", id)); draw(); reveal(detail); }

  function show(item) {
    const evidence = item.evidence;
    const kept = state.forms.get(item.id);
    state.form = kept && kept.typed() ? kept : form(item.id);
    state.forms.set(item.id, state.form);
    state.form.refresh();
    fill(detail, h("header", { class: "detail-head" }, h("h2", {}, item.title), outcome(item.outcome, item.words)),
      evidence && evidence.gain !== null ? h("p", {}, h("strong", { class: "num" }, signed(evidence.gain)), h("span", { class: "soft num" }, ` [${signed(evidence.low)}, ${signed(evidence.high)}] on ${evidence.n} val items; ${evidence.better.length} better, ${evidence.worse.length} worse; ${tested(evidence)}`)) : h("p", { class: "soft" }, evidence ? evidence.reason : "It was not measured on val."),
      item.said.map((word) => h("p", { class: "feedback" }, `${word.words}${word.comment ? `: ${word.comment}` : ""}`)),
      diff(item.diff),
      session.readOnly ? h("p", { class: "soft" }, "This dashboard is read-only.") : state.form.node);
  }

  // Where a decision about one proposal is written; the proposal may change meanwhile.
  function form(id) {
    const comment = h("textarea", { rows: 2, placeholder: "Why (recorded; the optimizer reads it when training goes on)", ariaLabel: "Why" });
    const name = h("input", { value: localStorage.getItem(NAME) || "", maxLength: 80, placeholder: "dashboard", autocomplete: "name", onchange: () => localStorage.setItem(NAME, name.value.trim()) });
    const gate = h("input", { type: "checkbox" });
    const best = h("input", { type: "checkbox" });
    const editor = h("div", { hidden: true });
    const note = h("p", {});
    const verdict = (title, style, onclick) => h("button", { type: "button", class: style, onclick }, title);
    const decide = (verdict, edited) => act(made, verdict, { comment: comment.value, by: name.value, ...edited, if_better: gate.checked, as_best: best.checked });
    const offered = [["accept", "Accept", "button primary", () => decide("accept")], ["reject", "Reject", "button", () => decide("reject")], ["edit", "Edit by hand…", "button", () => edit(id, editor, decide)]];
    const buttons = offered.map(([name, ...rest]) => [name, verdict(...rest)]);
    const options = [h("label", { class: "field" }, best, " make it the best skill whatever it scores"), h("label", { class: "field" }, gate, " an edit must pass the gate")];
    const bar = h("div", { class: "bar" });
    let shown = "";
    const refresh = () => {
      const item = state.items.find((each) => each.id === id);
      if (!item) return;
      if (shown !== String(item.open)) fill(bar, buttons.filter(([name]) => item.open.includes(name)).map(([, button]) => button), options);
      shown = String(item.open);
      for (const [, button] of buttons) button.disabled = locked() || state.busy;
      note.className = locked() ? "now stopped" : "soft";
      note.textContent = locked() ? "This run is being trained. Stop it first; then decide." : `${standing(item)}The skill that a decision makes is measured on val with the models of the run before it becomes current. Attempts that are kept cost nothing.`;
    };
    const made = {
      about: id, refresh, node: h("section", { class: "decide" }, h("h3", {}, "Your decision"), note, comment, h("label", { class: "field" }, "your name, for the record ", name), bar, editor),
      typed: () => comment.value.trim() !== "" || !editor.hidden,
      value: () => JSON.stringify([comment.value, editor.hidden ? null : editor.querySelector("textarea").value]),
      clear() { comment.value = ""; editor.hidden = true; fill(editor); },
    };
    return made;
  }

  async function edit(id, editor, decide) {
    if (!editor.hidden) { editor.querySelector("textarea").focus(); return; }
    const told = await page.app.act(() => get(`runs/${encodeURIComponent(page.id)}/proposals/text`, { about: id }));
    if (!told || !editor.hidden) return;
    const area = h("textarea", { class: "raw-edit", rows: 18, spellcheck: false, value: told.text, ariaLabel: "The skill as it shall be" });
    editor.hidden = false;
    fill(editor, area, h("div", { class: "bar" }, h("button", { type: "button", class: "button primary", onclick: () => decide("edit", { text: area.value, base: told.base }) }, "Measure and take over"), h("button", { type: "button", class: "button", onclick: () => { editor.hidden = true; fill(editor); } }, "Cancel")));
    area.focus();
  }

  async function act(form, verdict, more) {
    if (state.busy) return;
    const value = form.value();
    state.busy = true;
    state.form.refresh();
    const answer = await page.app.act(() => post(`runs/${encodeURIComponent(page.id)}/review`, { verdict, about: form.about, ...more }), "Measuring; the decision is recorded when that is done.");
    state.busy = false;
    state.form.refresh();
    if (answer) { state.sent = { form, value, pid: answer.job.pid }; page.job = answer.job; page.headKey = ""; page.drawHead(); }
  }

  let was = locked();
  load();
  return {
    update() { if (state.sent && page.job && page.job.pid === state.sent.pid && !page.job.running) ended(); else if (page.data.steps.length !== steps && steps >= 0) load(); else if (was !== locked()) { was = locked(); if (state.items.length) draw(); } },
    again(next) { if (next[0] && next[0] !== state.at) { state.at = next[0]; draw(); } return true; },
    close() { dead = true; },
    key(key) {
      if (key !== "j" && key !== "k") return false;
      const place = state.items.findIndex((item) => item.id === state.at) + (key === "j" ? 1 : -1);
      if (state.items[place]) choose(state.items[place].id);
      return true;
    },
  };
}
