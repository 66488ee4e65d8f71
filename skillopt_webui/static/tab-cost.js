// What a run has spent: by role and stage, by move, and against its limits.
import { count, dollars, fill, h, short } from "./dom.js";
import { lines, numbered } from "./charts.js";
import { spelt } from "./view-run.js";

export function open(page, body) {
  const totals = h("section", { class: "panel" });
  const chart = h("div", { class: "chart cost-chart" });
  const moves = h("section", { class: "panel" });
  fill(body, h("div", { class: "two-columns" }, totals, h("section", { class: "panel" }, h("header", { class: "panel-head" }, h("h2", {}, "Spent so far, step by step")), chart)), moves);
  let key = "";

  const cells = (each) => [h("td", { class: "right num" }, count(each.calls)), h("td", { class: "right num" }, short(each.input)), h("td", { class: "right num" }, short(each.output)), h("td", { class: "right num soft cached" }, each.cached ? short(each.cached) : ""), h("td", { class: "right num" }, each.dollars === null ? "unknown" : dollars(each.dollars))];
  const heads = (first) => h("thead", {}, h("tr", {}, [first, "calls", "tokens in", "tokens out", "cached", "dollars"].map((title, index) => h("th", { scope: "col", class: index ? (title === "cached" ? "right cached" : "right") : "" }, title))));

  function update() {
    const cost = page.data.cost;
    const now = JSON.stringify(cost.total);
    if (now === key) return;
    key = now;
    fill(totals, h("header", { class: "panel-head" }, h("h2", {}, "By role and stage")),
      h("table", { class: "plain" }, heads("role"), h("tbody", {}, cost.roles.map((role) => [h("tr", { class: "strong" }, h("th", { scope: "row" }, role.name), cells(role)), role.parts.map((part) => h("tr", {}, h("th", { scope: "row", class: "inner" }, part.name), cells(part)))]), h("tr", { class: "total" }, h("th", { scope: "row" }, "all"), cells(cost.total)))),
      cost.limits.map((limit) => h("p", { class: "num" }, h("strong", {}, `limit ${limit.name}: `), limit.used === null ? `${limit.most}, counted in the running process` : `${limit.name === "dollars" ? dollars(limit.used) : count(Math.round(limit.used))} of ${limit.name === "dollars" ? dollars(limit.most) : count(limit.most)} used`)),
      cost.unpriced.length ? h("p", { class: "soft" }, `No price is known for ${cost.unpriced.join(" and ")}. Give one: model.input_price and model.output_price, in dollars per million tokens.`) : null,
      cost.notes.map((note) => h("p", { class: "soft" }, note)));
    fill(moves, h("details", {}, h("summary", {}, h("h2", { class: "in-line" }, `By step, epoch and review (${cost.moves.length})`)), h("div", { class: "scroller", tabIndex: 0, role: "region", ariaLabel: "Cost by step" }, h("table", { class: "plain" }, heads(""), h("tbody", {}, cost.moves.slice(0, 2000).map((move) => h("tr", {}, h("th", { scope: "row" }, spelt(move.name)), cells(move))))))));
    let sum = 0;
    const priced = cost.total.dollars !== null && cost.total.dollars > 0;
    const y = cost.moves.map((move) => (sum += priced ? move.dollars || 0 : move.input + move.output));
    lines(chart, [{ name: priced ? dollars(sum) : `${short(sum)} tokens`, x: cost.moves.map((_, index) => index), y: y.length ? y : [0] }], { x: "step", y: priced ? "dollars" : "tokens", room: 92, ticks: numbered(cost.moves.map((move, position) => ({ position, kind: move.name.split("_")[0], step: Number(move.name.split("_")[1]) })), 8) }).catch(() => {});
  }

  update();
  return { update, redraw() { key = ""; update(); } };
}
