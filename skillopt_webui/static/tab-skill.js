// The skill: as a document, raw, where each line is from, and how two versions differ.
import { get } from "./api.js";
import { count, fill, h, interval, signed } from "./dom.js";
import { lines, numbered } from "./charts.js";
import { spelt } from "./view-run.js";
import { diff, markdown } from "./text.js";

const WAYS = [["rendered", "Rendered"], ["blame", "Where from"], ["diff", "Changes"], ["raw", "Raw"]];

export function open(page, body) {
  const query = new URLSearchParams(location.search);
  const state = { name: query.get("v") || "best", against: query.get("from") || "initial", way: query.get("as") || "rendered", turn: 0, dead: false };
  const bar = h("div", { class: "bar" });
  const shown = h("div", { class: "skill-shown panel" });
  const side = h("aside", { class: "skill-side" });
  const chart = h("div", { class: "chart size-chart" });
  fill(body, bar, h("div", { class: "skill-grid" }, shown, side));

  async function load() {
    const turn = (state.turn += 1);
    let told;
    try { told = await get(`runs/${encodeURIComponent(page.id)}/skill`, { name: state.name, against: state.way === "diff" ? state.against : "" }); } catch (error) { if (turn === state.turn) fill(shown, h("p", { class: "problem" }, error.message)); return; }
    if (state.dead || turn !== state.turn) return;
    draw(told);
  }

  function change(more) {
    Object.assign(state, more);
    page.app.setQuery({ v: state.name, from: state.way === "diff" ? state.against : "", as: state.way });
    load();
  }

  function pick(label, value, versions, set) {
    const names = [["initial", "initial skill"], ["best", "best skill"], ["last", "current skill"], ...versions.map((version) => [version.name, `${version.title}${version.is_best ? " (best)" : ""}`])];
    const known = names.some(([name]) => name === value);
    return h("label", { class: "field" }, label, " ", h("select", { onchange: (event) => set(event.target.value) }, known ? null : h("option", { value, selected: true }, value), names.map(([name, title]) => h("option", { value: name, selected: name === value }, title))));
  }

  function draw(told) {
    fill(bar,
      h("div", { class: "segments", role: "group", ariaLabel: "How to show it" }, WAYS.map(([key, title]) => h("button", { type: "button", class: state.way === key ? "on" : "", ariaPressed: String(state.way === key), onclick: () => change({ way: key }) }, title))),
      state.way === "diff" ? pick("from", state.against, told.versions, (name) => change({ against: name })) : null,
      pick(state.way === "diff" ? "to" : "version", state.name, told.versions, (name) => change({ name })),
      h("span", { class: "end" },
        h("a", { class: "button", href: `/api/runs/${encodeURIComponent(page.id)}/skill.md?name=${encodeURIComponent(state.name)}`, download: "SKILL.md" }, "Download"),
        h("a", { class: "button", href: `/api/runs/${encodeURIComponent(page.id)}/skill.zip?name=${encodeURIComponent(state.name)}`, download: "skill.zip", title: "A folder with SKILL.md and its references" }, "Export package")));
    const files = Object.entries(told.files);
    if (state.way === "diff") fill(shown, diff(told.diff || []));
    else if (state.way === "raw") fill(shown, files.map(([path, text]) => [files.length > 1 ? h("h3", {}, path) : null, h("pre", { class: "raw", tabIndex: 0 }, text)]));
    else if (state.way === "blame") fill(shown, blame(told));
    else fill(shown, files.map(([path, text]) => [files.length > 1 ? h("h3", { class: "file" }, path) : null, guarded(told.blame, path), markdown(text)]));
    versions(told);
  }

  // Says which lines no edit can reach.
  function guarded(found, path) {
    const kept = found.lines.filter((line) => line.file === path && line.protected);
    if (!kept.length) return null;
    const kinds = [...new Set(kept.map((line) => line.protected))];
    return h("p", { class: "soft small" }, `Protected: ${kinds.map((kind) => { const own = kept.filter((line) => line.protected === kind); return `${kind} (lines ${own[0].number} to ${own.at(-1).number})`; }).join(", ")}. Edits cannot change them.`);
  }

  function blame(told) {
    const found = told.blame;
    let before = "";
    let behind = "";
    const rows = found.lines.map((line) => {
      const origin = line.origin;
      const from = origin ? spelt(origin.move).replace("initial skill", "initial").replace("slow update epoch", "end of epoch") : "";
      const same = from === before;
      if (origin) before = from;
      const tasks = origin ? [...origin.failures, ...origin.successes] : [];
      const evidence = origin ? JSON.stringify([origin.move, origin.by, tasks, origin.why]) : behind;
      const told = evidence === behind;
      behind = evidence;
      const step = origin && page.data.steps.find((each) => each.move === origin.move);
      const more = h("div", { class: "bl-more", hidden: true, role: "row" });
      const open = h("button", { type: "button", class: "link", ariaExpanded: "false", onclick: () => {
        if (!more.childElementCount) fill(more, h("div", { role: "cell" }, origin.reason ? h("p", {}, `The gate: ${origin.reason}`) : null, origin.why.map((text) => h("p", {}, text)), h("p", { class: "task-list" }, tasks.slice(0, 60).map((task) => [h("a", { class: "task", href: page.address("items", task) }, task), " "]), tasks.length > 60 ? `and ${tasks.length - 60} more` : null)));
        more.hidden = !more.hidden;
        open.setAttribute("aria-expanded", String(!more.hidden));
      } }, `${origin ? origin.by.join(", ") : ""} ${count(tasks.length, "task")}`);
      return [h("div", { class: `bl${line.protected ? " protected" : ""}${from && from !== "initial" ? " learnt" : ""}`, role: "row" },
        h("span", { class: "from", role: "cell" }, same ? "" : step ? h("a", { href: page.address("steps", step.position) }, from) : from),
        h("span", { class: "by", role: "cell" }, told || !tasks.length ? "" : open),
        h("span", { class: "worth num", role: "cell" }, line.worth ? [signed(line.worth.gain), h("span", { class: "soft" }, ` [${signed(line.worth.low)}, ${signed(line.worth.high)}]`)] : ""),
        h("span", { class: "no", role: "cell" }, line.number),
        h("span", { class: "words", role: "cell" }, line.text || " ", line.protected ? h("span", { class: "sr" }, ` (protected: ${line.protected})`) : null)), more];
    });
    return [found.measured ? null : h("p", { class: "soft small" }, "The effect of each rule is not measured yet: ", h("code", {}, `skillopt attribute ${page.data.head.folder}`), found.is_best ? "" : " (measures the best skill)"), h("div", { class: `blame${found.measured ? " measured" : ""}`, role: "table", ariaLabel: "Origin of each line", tabIndex: 0 }, rows)];
  }

  function versions(told) {
    fill(side, h("h2", {}, "Versions"), h("ol", { class: "versions", reversed: true }, [...told.versions].reverse().map((version) => h("li", {}, h("button", { type: "button", class: `version${version.name === state.name || (state.name === "best" && version.is_best) || version.digest === told.digest ? " here" : ""}`, onclick: () => change({ name: version.name }) }, h("strong", {}, version.title), version.is_best ? h("span", { class: "tag" }, "best") : null, version.is_current && !version.is_best ? h("span", { class: "tag" }, "current") : null, h("span", { class: "line" }, interval(version.score)), h("span", { class: "soft num line" }, `${count(version.tokens, "token")}, ${count(version.lines, "line")}`))))), h("h2", {}, "Size over time"), chart);
    lines(chart, [{ name: "tokens", x: page.data.steps.map((step) => step.position), y: page.data.steps.map((step) => step.tokens) }], { x: "step", y: "tokens", room: 56, ticks: numbered(page.data.steps, 5) }).catch(() => {});
  }

  load();
  return { close() { state.dead = true; }, reread: load, redraw: load, again: () => true };
}
