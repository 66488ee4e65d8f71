// The record line by line, and what the process that was launched from here says.
import { get } from "./api.js";
import { Rows, count, fill, h, onPhone } from "./dom.js";

export function open(page, body) {
  const state = { kinds: "all", dead: false, held: true };
  const bar = h("div", { class: "bar" });
  const list = h("div", { class: "log panel", role: "log", ariaLabel: "Record", tabIndex: 0 });
  const whole = h("pre", { class: "said", hidden: true });
  const said = h("pre", { class: "output", tabIndex: 0, ariaLabel: "Output of the process" });
  const output = h("section", { class: "panel" }, h("header", { class: "panel-head" }, h("h2", {}, "What the process says")), said);
  fill(body, bar, list, whole, output);
  // Lines are cut to one height; the one that is clicked is shown whole.
  const rows = new Rows(list, onPhone() ? 44 : 24, (line) => h("div", { class: `log-line ${line.kind}`, title: line.text, onclick: () => { whole.textContent = line.text; whole.hidden = false; } }, h("span", { class: "soft num at" }, line.position), h("span", { class: "kind" }, line.kind), h("span", { class: "words" }, line.text)));
  let lines = [];
  let known = 0;
  let wrote = 0;

  function draw() {
    const shown = lines.filter((line) => state.kinds === "all" || (state.kinds === "warnings" ? line.kind === "warning" || line.kind === "stopped" : line.kind !== "time"));
    const end = list.scrollTop + list.clientHeight > list.scrollHeight - 60 || !known;
    fill(bar, h("div", { class: "segments", role: "group", ariaLabel: "Which lines" }, [["all", "everything"], ["facts", "without times"], ["warnings", "warnings"]].map(([name, title]) => h("button", { type: "button", class: state.kinds === name ? "on" : "", ariaPressed: String(state.kinds === name), onclick: () => { state.kinds = name; draw(); } }, title))), h("span", { class: "soft num" }, count(shown.length, "line")), h("span", { class: "soft at-note" }, "the number in front is the position in events.jsonl"));
    rows.set(shown);
    if (!shown.length) fill(rows.inner, h("p", { class: "empty" }, "No such line."));
    if (end) { list.scrollTop = list.scrollHeight; rows.draw(); }
    known = lines.length;
  }

  (async () => {
    try { const told = await get(`runs/${encodeURIComponent(page.id)}/log`); if (!state.dead) { lines = told.lines; draw(); } } catch (error) { if (!state.dead) fill(rows.inner, h("p", { class: "problem" }, error.message)); }
  })();

  function update() {
    const last = lines.length ? lines.at(-1).position : -1;
    const more = page.lines.filter((line) => line.position > last);
    if (more.length) { lines = lines.concat(more); draw(); }
    if (page.output.length !== wrote) { wrote = page.output.length; said.textContent = page.output.join("\n"); said.scrollTop = said.scrollHeight; }
    output.hidden = !page.output.length;
  }
  update();
  return { update, close() { state.dead = true; } };
}
