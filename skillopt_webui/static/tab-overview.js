// The first screen: is it better, can it be believed, what changed, what does it cost, where is it stuck.
import { count, dollars, duration, fill, h, interval, outcome, short, signed } from "./dom.js";
import { ScoreChart } from "./charts.js";
import { diff } from "./text.js";
import { again, spelt } from "./view-run.js";

export function open(page, body) {
  const box = h("div", { class: "chart score-chart", role: "img", ariaLabel: "Scores over steps" });
  const sum = h("p", { class: "sr" });
  const tally = h("div", { class: "tally" });
  const costs = h("section", { class: "panel costs" });
  const change = h("section", { class: "panel change" });
  const stages = h("section", { class: "panel stages" });
  fill(body, h("div", { class: "overview-grid" }, h("div", { class: "left" }, h("section", { class: "panel scores" }, h("header", { class: "panel-head" }, h("h2", {}, "Scores and decisions"), tally), box, sum), costs), change), stages);
  const chart = new ScoreChart(box, (position) => page.app.go(page.address("steps", position)));
  let drawn = "";
  let changed = "";

  function update() {
    const { steps, head } = page.data;
    const key = `${steps.length} ${head.claim.sentence} ${head.best} ${page.data.tally.steps + page.data.tally.others}`;
    if (key !== drawn) {
      drawn = key;
      chart.draw(steps, head).catch((error) => fill(box, h("p", { class: "problem" }, error.message)));
      const numbers = page.data.tally;
      fill(tally, ["accepted", "rejected", "inconclusive", "skipped"].map((name) => (numbers[name] ? h("a", { href: `${page.address("steps")}?outcome=${name}` }, outcome(name, `${numbers[name]} ${name}`)) : null)));
      const last = steps.at(-1);
      sum.textContent = `${count(numbers.steps + numbers.others, "step")}, with ends of epochs and reviews; the current skill scores ${last.current.mean} on ${last.current.n} val items, the best ${last.best.mean}.`;
    }
    drawCost();
    drawStages();
    drawChange();
  }

  function drawCost() {
    const cost = page.data.cost;
    const total = cost.total;
    const most = Math.max(1, ...cost.roles.map((role) => role.input + role.output));
    fill(costs, h("header", { class: "panel-head" }, h("h2", {}, "Cost so far"), h("span", { class: "num" }, total.dollars === null ? h("span", { class: "soft" }, "dollars unknown,") : h("strong", {}, dollars(total.dollars)), h("span", { class: "soft" }, ` ${count(total.calls, "call")}, ${short(total.input + total.output)} tokens`))),
      cost.limits.length ? cost.limits.map((limit) => h("div", { class: "meter-row" }, h("span", {}, "limit ", limit.name), limit.used === null ? h("span", { class: "soft" }, "counted in the running process") : h("span", { class: "bar-track", role: "meter", ariaLabel: `${limit.name} used`, ariaValueMin: "0", ariaValueMax: String(limit.most), ariaValueNow: String(Math.min(limit.most, limit.used)) }, h("span", { class: `bar-fill used${limit.used > 0.9 * limit.most ? " near" : ""}`, style: { width: `${Math.min(100, (100 * limit.used) / limit.most)}%` } })), h("span", { class: "num soft" }, limit.used === null ? `at most ${limit.most}` : limit.name === "dollars" ? `${dollars(limit.used)} of ${dollars(limit.most)}` : `${short(limit.used)} of ${short(limit.most)}`))) : null,
      h("div", { class: "roles" }, cost.roles.map((role) => h("div", { class: "role-row" }, h("span", {}, role.name), h("span", { class: "bar-track", ariaHidden: "true" }, h("span", { class: "bar-fill", style: { width: `${(100 * (role.input + role.output)) / most}%` } })), h("span", { class: "num soft" }, `${short(role.input + role.output)} tokens, ${count(role.calls, "call")}`, role.dollars === null ? "" : `, ${dollars(role.dollars)}`)))),
      cost.limits.length ? null : h("p", { class: "soft small" }, "No limit is set (limits.dollars, limits.tokens, limits.calls)."));
  }

  function drawChange() {
    const made = page.data.change;
    const key = made ? `${made.position} ${made.detail.candidate}` : "none";
    if (key === changed) return;
    changed = key;
    if (!made) {
      fill(change, h("header", { class: "panel-head" }, h("h2", {}, "What changed in the skill")), h("p", { class: "empty" }, page.status === "running" ? "No candidate was accepted so far. The initial skill is current." : "No candidate was accepted: the best skill is the initial one."), h("p", {}, h("a", { href: page.address("steps") }, "What was tried")));
      return;
    }
    const { detail } = made;
    const evidence = detail.view.evidence;
    const sources = detail.proposals.filter((proposal) => proposal.fate === "applied");
    fill(change, h("header", { class: "panel-head" }, h("h2", {}, "Last change that was kept"), h("a", { href: page.address("steps", made.position) }, detail.view.title)),
      evidence ? h("p", { class: "evidence" }, h("span", { class: "num" }, outcome("accepted", ""), " ", h("strong", {}, signed(evidence.gain)), h("span", { class: "soft" }, ` [${signed(evidence.low)}, ${signed(evidence.high)}] on ${evidence.n} val items`)), h("span", { class: "flips num" }, `${evidence.better.length} better, ${evidence.worse.length} worse`), h("span", { class: "soft" }, tested(evidence))) : null,
      h("div", { class: "change-diff", tabIndex: 0, role: "region", ariaLabel: "Changes of the skill" }, diff(detail.diff, (line) => (line.kind === "added" ? because(line, sources) : null))));
  }

  function drawStages() {
    const report = page.progress;
    if (page.status !== "running" || !report) { stages.hidden = true; return; }
    stages.hidden = false;
    const last = page.data.steps.at(-1);
    fill(stages, h("header", { class: "panel-head" }, h("h2", {}, "Going on now"), h("span", { class: "soft num" }, report.total ? `${report.done} of ${report.total} planned operations done` : "")),
      report.phases.length ? report.phases.map((phase) => h("div", { class: "stage" }, h("span", { class: "stage-name" }, spelt(phase.operation), h("strong", {}, ` ${spelt(phase.phase)}`)), h("progress", phase.total ? { max: phase.total, value: phase.done, ariaLabel: phase.phase } : { ariaLabel: phase.phase }), h("span", { class: "num soft" }, phase.total ? `${phase.done} of ${phase.total}` : `${phase.done} done`, phase.reused ? `, ${phase.reused} reused` : "", phase.failed ? `, ${phase.failed} failed` : ""))) : h("p", { class: "soft" }, "Between two operations."),
      h("p", { class: "soft small num" }, `last: ${last.title}, ${last.words}, took ${duration(last.seconds)}; skill ${count(last.tokens, "token")}`),
      again(report).length ? h("p", { class: "soft small num" }, `Asked again: ${again(report).join("; ")}.`) : null,
      Object.entries(report.waiting || {}).map(([server, seconds]) => h("p", { class: "bad" }, `Waiting for ${server}, down for ${duration(seconds)}. The run goes on by itself when it is back.`)));
  }

  update();
  return { update, redraw: () => { drawn = ""; update(); }, reread: () => { changed = ""; } };
}

export function tested(evidence) {
  if (evidence.e_value !== null && evidence.e_value !== undefined) return `e-value ${evidence.e_value.toPrecision(3)}`;
  if (evidence.p !== null && evidence.p !== undefined) return `p ${evidence.p < 0.001 ? evidence.p.toExponential(0) : evidence.p.toPrecision(2)}`;
  return "not tested";
}

// The evidence under a new line: the proposal that wrote it.
export function because(line, proposals) {
  const own = line.pieces.map((piece) => piece.text).join("").trim();
  if (!own) return null;
  const from = proposals.find((proposal) => proposal.content.split("\n").some((text) => text.trim() && (text.trim() === own || own.includes(text.trim()))));
  if (!from) return null;
  return [h("span", {}, `${from.by}, ${count(from.tasks.length, from.source === "failure" ? "failed task" : "passed task")}`), from.why ? h("span", { class: "soft" }, `: ${from.why.length > 140 ? `${from.why.slice(0, 140)}…` : from.why}`) : null];
}

export { interval };
