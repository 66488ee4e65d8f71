// The timeline, and one move of it with all that is known of it.
import { get } from "./api.js";
import { Rows, count, duration, fill, folded, h, interval, outcome, reveal, score, signed } from "./dom.js";
import { because, tested } from "./tab-overview.js";
import { diff } from "./text.js";

export function open(page, body, rest) {
  const query = new URLSearchParams(location.search);
  const state = { wanted: query.get("outcome") || "", at: -1, turn: 0, dead: false };
  const chips = h("div", { class: "chips", role: "group", ariaLabel: "Outcome" });
  const list = h("div", { class: "timeline", role: "list", ariaLabel: "Steps, epochs and reviews" });
  const detail = h("div", { class: "step-detail" });
  fill(body, chips, h("div", { class: "split" }, list, detail));
  const rows = new Rows(list, 60, row);
  let shown = [];
  let drawn = "";

  function row(step) {
    const evidence = step.evidence;
    return h("a", { role: "listitem", href: page.address("steps", step.position) + location.search, class: `step-row${step.position === state.at ? " here" : ""}`, ariaCurrent: step.position === state.at ? "true" : null },
      h("span", { class: "step-top" }, outcome(step.outcome, ""), h("strong", {}, step.title), h("span", { class: "soft" }, step.new_best ? "new best" : step.words.replace(/^(accepted|rejected|skipped)[,:]?\s*/, "")), h("span", { class: "spring" }), evidence && evidence.gain !== null ? h("span", { class: "num" }, signed(evidence.gain)) : null),
      h("span", { class: "step-low soft" }, h("span", { class: "cut" }, step.gist || (step.train ? `train ${score(step.train.mean)}` : `current skill ${score(step.current.mean)} on val`)), h("span", { class: "spring" }), evidence ? `${evidence.better} better, ${evidence.worse} worse` : ""));
  }

  function update() {
    const { steps } = page.data;
    const key = `${steps.length} ${state.wanted} ${state.at}`;
    if (key === drawn) return;
    drawn = key;
    const numbers = {};
    for (const step of steps) numbers[step.outcome] = (numbers[step.outcome] || 0) + 1;
    fill(chips, ["", "accepted", "rejected", "inconclusive", "skipped", "measured"].map((name) => h("button", { type: "button", class: `chip${state.wanted === name ? " on" : ""}`, ariaPressed: String(state.wanted === name), onclick: () => { state.wanted = name; page.app.setQuery({ outcome: name }); update(); } }, name ? outcome(name) : "all", h("span", { class: "soft num" }, ` ${name ? numbers[name] || 0 : steps.length}`))));
    shown = steps.filter((step) => !state.wanted || step.outcome === state.wanted);
    rows.set(shown);
  }

  async function show(position, chosen = true) {
    state.at = position;
    const turn = (state.turn += 1);
    drawn = "";
    update();
    const place = shown.findIndex((step) => step.position === position);
    if (place >= 0) rows.show(place);
    let told;
    try { told = await get(`runs/${encodeURIComponent(page.id)}/steps/${position}`); } catch (error) { if (turn === state.turn) fill(detail, h("p", { class: "problem" }, error.message)); return; }
    if (state.dead || turn !== state.turn) return;
    draw(told);
    if (chosen) reveal(detail);
  }

  function draw(told) {
    const view = told.view;
    const evidence = view.evidence;
    const applied = told.proposals.filter((proposal) => proposal.fate === "applied");
    fill(detail, h("header", { class: "detail-head" }, h("h2", {}, view.title), outcome(view.outcome, view.words), h("span", { class: "spring" }), h("span", { class: "soft num" }, view.epoch ? `epoch ${view.epoch}, ` : "", duration(view.seconds))),
      h("dl", { class: "figures" },
        view.train ? [h("dt", {}, "train, before"), h("dd", {}, interval(view.train, `n ${view.train.n}`))] : null,
        view.candidate ? [h("dt", {}, "candidate on val"), h("dd", {}, interval(view.candidate, `n ${view.candidate.n}`))] : null,
        [h("dt", {}, "current afterwards"), h("dd", {}, interval(view.current, `n ${view.current.n}`))],
        [h("dt", {}, "skill"), h("dd", { class: "num" }, count(view.tokens, "token"))]),
      evidence ? h("section", {}, h("h3", {}, "Evidence"), h("p", {}, h("strong", { class: "num" }, signed(evidence.gain)), h("span", { class: "soft num" }, ` [${signed(evidence.low)}, ${signed(evidence.high)}] paired over ${count(evidence.n, "val item")}, ${tested(evidence)}${evidence.level ? ` at level ${evidence.level.toPrecision(2)}` : ""}`)),
        h("p", { class: "soft" }, "The gate: ", evidence.reason, evidence.saved ? `; ${count(evidence.saved, "attempt")} saved because the decision was certain` : ""),
        flips("better", evidence.better), flips("worse", evidence.worse)) : null,
      told.diff.length ? h("section", {}, h("h3", {}, view.outcome === "accepted" ? "What changed" : "What was tried"), diff(told.diff, (line) => (line.kind === "added" ? because(line, applied) : null))) : null,
      told.proposals.length ? h("section", {}, h("h3", {}, `Proposals (${told.proposals.length})`), told.proposals.map(proposal)) : null,
      told.patterns.length ? h("section", {}, h("h3", {}, "What failures had in common"), h("ul", {}, told.patterns.map(([name, number, about]) => h("li", {}, h("strong", {}, name), h("span", { class: "soft" }, ` ${number}× ${about}`))))) : null,
      told.reasoning.length ? h("section", {}, h("h3", {}, "Reasoning of the optimizer"), told.reasoning.map((text) => folded(text, 400))) : null,
      told.problems.length ? h("section", {}, h("h3", {}, "Problems"), h("ul", {}, told.problems.map((text) => h("li", {}, text)))) : null,
      told.attempted.length ? h("section", {}, h("h3", {}, `Attempted (${told.attempted.length}), of them not passed ${told.wrong.length}`), h("p", { class: "task-list" }, told.wrong.slice(0, 200).map((task) => [item(task), " "]))) : null);
    detail.scrollTop = 0;
  }

  function flips(word, tasks) {
    if (!tasks.length) return h("p", { class: "soft" }, `No item went ${word}.`);
    return h("p", { class: "task-list" }, h("strong", { class: "num" }, `${tasks.length} ${word} `), tasks.slice(0, 60).map((task) => [item(task), " "]), tasks.length > 60 ? h("span", { class: "soft" }, `and ${tasks.length - 60} more`) : null);
  }

  const item = (task) => h("a", { class: "task", href: page.address("items", task) }, task);

  function proposal(each) {
    const kinds = { applied: "accepted", missed: "rejected", "left out": "skipped", repeat: "skipped" };
    return h("details", { class: "proposal" }, h("summary", {}, outcome(kinds[each.fate], each.fate), h("span", {}, ` ${each.op.replace(/_/g, " ")} `), h("span", { class: "soft" }, `by ${each.by} from ${count(each.tasks.length, `${each.source === "failure" ? "failed" : "passed"} task`)}${each.detail ? `; ${each.detail}` : ""}`)),
      each.target ? h("pre", { class: "said removed" }, each.target) : null,
      each.content ? h("pre", { class: "said added" }, each.content) : null,
      each.why ? h("p", { class: "soft" }, each.why) : null,
      h("p", { class: "task-list" }, each.tasks.slice(0, 40).map((task) => [item(task), " "])));
  }
  function again(next) {
    const place = Number(next[0]);
    if (next[0] !== undefined && next[0] !== "" && Number.isInteger(place)) { if (place !== state.at) show(place); else reveal(detail); return true; }
    return false;
  }

  update();
  const first = rest[0] !== undefined && rest[0] !== "" ? Number(rest[0]) : null;
  if (first !== null) show(first);
  else {
    const last = [...page.data.steps].reverse().find((step) => (state.wanted ? step.outcome === state.wanted : step.evidence)) || page.data.steps.at(-1);
    if (last) show(last.position, false);
  }
  return {
    update,
    again,
    close() { state.dead = true; },
    key(key) {
      if (key !== "j" && key !== "k") return false;
      const place = shown.findIndex((step) => step.position === state.at) + (key === "j" ? 1 : -1);
      if (shown[place]) page.app.go(page.address("steps", shown[place].position) + location.search, true);
      return true;
    },
  };
}
