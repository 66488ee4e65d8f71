// Every task under every skill: a heat map, and the attempts behind one of its cells.
import { get } from "./api.js";
import { Rows, bytes, count, fill, folded, h, middle, onPhone, reveal, short } from "./dom.js";
import { spelt } from "./view-run.js";

const CELLS = { 1: ["pass", "●", "passed"], 0: ["wrong", "✕", "wrong"], "~": ["partly", "◐", "partly right"], x: ["lost", "?", "failed by infrastructure, no score"], "!": ["own", "!", "failed only with this skill"], ".": ["none", "·", "not tried"] };

export function open(page, body, rest) {
  const query = new URLSearchParams(location.search);
  const state = { filter: query.get("show") || "", split: query.get("split") || "", all: query.get("all") === "1", text: "", at: -1, turn: 0, asked: 0, dead: false };
  const chips = h("div", { class: "chips", role: "group", ariaLabel: "Which items" });
  const tools = h("div", { class: "bar" });
  const head = h("div", { class: "heat-head", ariaHidden: "true" });
  const grid = h("div", { class: "heat", role: "grid", ariaLabel: "Outcome of each task with each skill", tabIndex: 0 });
  const legend = h("p", { class: "legend soft" }, ["1", "0", "~", "x", "!", "."].map((sign) => h("span", {}, h("span", { class: `cell ${CELLS[sign][0]}`, ariaHidden: "true" }, CELLS[sign][1]), ` ${CELLS[sign][2]} `)), h("span", {}, h("span", { class: "cell flip", ariaHidden: "true" }, "\u00a0"), " other than with the skill before"), h("span", {}, "Choose a cell to see the attempt."));
  const side = h("section", { class: "attempt panel", hidden: true, ariaLabel: "Attempts" });
  const left = h("div", { class: "heat-side" }, head, grid, legend);
  fill(body, tools, chips, h("div", { class: "items-grid" }, left, side));
  const rows = new Rows(grid, 26, row);
  // By place, not by element: rows may be drawn anew between press and release.
  grid.addEventListener("click", (event) => {
    const cell = document.elementFromPoint(event.clientX, event.clientY)?.closest(".cell[data-task]");
    if (cell && grid.contains(cell)) select(cell.dataset.task, cell.dataset.skill);
  });
  grid.addEventListener("scroll", () => fitHead(), { passive: true });
  function fitHead() { head.scrollLeft = grid.scrollLeft; rows.inner.style.width = columns.length * 18 > 500 ? `${label + 20 + columns.length * parseInt(left.style.getPropertyValue("--cell"), 10)}px` : ""; }
  let table = null;
  let columns = [];
  let shown = [];
  let size = -1;
  let label = 190;

  async function load() {
    const turn = (state.turn += 1);
    size = page.data.steps.length;
    let told;
    try { told = await get(`runs/${encodeURIComponent(page.id)}/items`, { all: state.all ? "1" : "" }); } catch (error) { if (turn === state.turn) fill(left, h("p", { class: "problem" }, error.message)); return; }
    if (state.dead || turn !== state.turn) return;
    table = told;
    draw();
    if (rest[0]) select(rest[0], query.get("skill"), query.get("against"));
    rest = [];
  }

  function draw() {
    columns = table.columns.map((column, index) => ({ ...column, index }));
    const cut = table.left_out > 0;
    const splits = [...new Set(table.rows.map((row) => row.split))];
    const inside = table.rows.filter((row) => (!state.split || row.split === state.split) && (!state.text || row.task.toLowerCase().includes(state.text) || (table.places[row.task] || "").toLowerCase().includes(state.text)));
    const counts = {};
    for (const row of inside) { counts[row.course] = (counts[row.course] || 0) + 1; if (row.failed) counts["failed by infrastructure"] = (counts["failed by infrastructure"] || 0) + 1; }
    shown = inside.filter((row) => !state.filter || (state.filter === "failed by infrastructure" ? row.failed : row.course === state.filter));
    fill(chips, ["", "regressed", "fixed", "flipped", "always wrong", "not tried again", "always right", "failed by infrastructure"].map((name) => h("button", { type: "button", class: `chip${state.filter === name ? " on" : ""}`, ariaPressed: String(state.filter === name), onclick: () => { state.filter = name; page.app.setQuery({ show: name }); draw(); } }, name || "all", h("span", { class: "soft num" }, ` ${name ? counts[name] || 0 : inside.length}`))));
    const search = tools.querySelector("input[type=search]") || h("input", { type: "search", placeholder: "Find an item", ariaLabel: "Find an item", oninput: (event) => { state.text = event.target.value.trim().toLowerCase(); draw(); } });
    const had = document.activeElement === search;
    fill(tools, h("div", { class: "segments", role: "group", ariaLabel: "Split" }, ["", ...splits].map((name) => h("button", { type: "button", class: state.split === name ? "on" : "", ariaPressed: String(state.split === name), onclick: () => { state.split = name; page.app.setQuery({ split: name }); draw(); } }, name || "all splits"))),
      h("label", { class: "field" }, h("input", { type: "checkbox", checked: state.all, onchange: (event) => { state.all = event.target.checked; page.app.setQuery({ all: state.all ? "1" : "" }); load(); } }), " also candidates that were not kept"),
      h("span", { class: "soft num" }, `${count(shown.length, "item")}, ${count(columns.length, "skill")}${cut ? ` (${count(table.left_out)} earlier ones left out)` : ""}`), h("span", { class: "end" }, search));
    if (had) search.focus();
    // Names get what they need and the columns leave.
    const room = (left.clientWidth || 700) - 20;
    const least = onPhone() ? 120 : 190;
    const wide = Math.max(18, Math.min(128, Math.floor((room - least) / Math.max(1, columns.length))));
    const longest = table.rows.reduce((most, each) => Math.max(most, (table.places[each.task] || each.task).length + each.split.length), 0);
    label = Math.max(least, Math.min(480, longest * 7 + 24, room - wide * columns.length));
    left.style.setProperty("--cell", `${wide}px`);
    left.style.setProperty("--label", `${label}px`);
    grid.style.width = `${Math.min(room + 20, label + wide * columns.length + 32)}px`;
    const every10 = wide < 26 ? Math.ceil(26 / wide) * (columns.length > 60 ? 5 : 2) : 1;
    fill(head, h("span", { class: "heat-label soft" }, wide > 60 ? "" : "after step"), columns.map((column, index) => h("span", { class: "heat-title", title: spelt(column.name) }, index % every10 ? "" : wide > 60 ? spelt(column.name).replace("initial skill", "initial").replace("slow update epoch", "epoch") : `${column.step}`)));
    fitHead();
    rows.set(shown);
    if (!shown.length) fill(rows.inner, h("p", { class: "empty" }, "No item is like that."));
  }

  function row(each, index) {
    let before = null;
    const at = index === state.at;
    return h("div", { class: `heat-row${at ? " at" : ""}`, role: "row" },
      h("button", { type: "button", class: "heat-label quiet", role: "rowheader", tabIndex: -1, title: `${each.task}${table.places[each.task] ? ` (${table.places[each.task]})` : ""}: ${each.course}`, onclick: () => select(each.task) }, middle(table.places[each.task] || each.task, Math.floor(label / 7) - each.split.length - 2), h("small", { class: "soft" }, ` ${each.split}`)),
      columns.map((column) => {
        const sign = each.cells[column.index] || ".";
        const [kind, glyph, words] = CELLS[sign];
        const flip = before !== null && sign !== "." && sign !== "x" && (sign === "1") !== (before === "1");
        if (sign !== "." && sign !== "x") before = sign;
        return h("span", { class: `cell ${kind}${flip ? " flip" : ""}`, role: "gridcell", title: `${spelt(column.name)}: ${words}`, "data-task": sign === "." ? null : each.task, "data-skill": column.name }, glyph);
      }));
  }

  // A cell opens its attempt, beside that of the skill before it.
  function select(task, skill, against) {
    const place = shown.findIndex((each) => each.task === task);
    const found = place >= 0 ? shown[place] : table.rows.find((each) => each.task === task);
    if (!found) { page.app.setQuery({}); return; }
    const tried = table.columns.map((column, index) => ({ ...column, sign: found.cells[index] })).filter((column) => column.sign !== ".");
    const kept = tried.filter((column) => column.kept);
    const now = skill ? tried.find((column) => column.name === skill) : kept.at(-1) || tried.at(-1);
    if (!now) return;
    const order = tried.filter((column) => column.kept || column.name === now.name);
    const old = against ? tried.find((column) => column.name === against) : order[order.findIndex((column) => column.name === now.name) - 1];
    state.at = place;
    rows.set(shown);
    if (place >= 0) rows.show(place);
    history.replaceState(null, "", `${page.address("items", task)}?${new URLSearchParams({ ...(state.filter ? { show: state.filter } : {}), ...(state.split ? { split: state.split } : {}), skill: now.name, ...(old ? { against: old.name } : {}) })}`);
    attempt(found, now, old, tried);
  }

  async function attempt(item, now, old, tried) {
    const turn = (state.asked += 1);
    if (side.hidden) { side.hidden = false; body.classList.add("opened"); draw(); if (state.at >= 0) rows.show(state.at); }
    let told;
    try { told = await get(`runs/${encodeURIComponent(page.id)}/attempts`, { task: item.task, skill: old ? [old.skill, now.skill] : [now.skill] }); } catch (error) { if (turn === state.asked) fill(side, h("p", { class: "problem" }, error.message)); return; }
    if (state.dead || turn !== state.asked) return;
    const pick = (label, chosen, set) => h("label", { class: "field" }, label, " ", h("select", { onchange: (event) => set(event.target.value) }, tried.map((column) => h("option", { value: column.name, selected: chosen && column.name === chosen.name }, `${spelt(column.name)} ${CELLS[column.sign][1]}`))));
    fill(side, h("header", { class: "panel-head" }, h("h2", {}, told.place || item.task), h("span", { class: "soft" }, `${item.split}, ${item.course}`), h("span", { class: "spring" }), h("button", { type: "button", class: "quiet", ariaLabel: "Close", onclick: close }, "✕")),
      h("div", { class: "bar" }, old ? pick("before", old, (name) => select(item.task, now.name, name)) : null, pick(old ? "after" : "with", now, (name) => select(item.task, name))),
      h("div", { class: `sides${told.sides.length > 1 ? " two" : ""}` }, told.sides.map((each, index) => oneSide(each, told.sides.length > 1 && index === 0 ? old : now))));
    side.scrollTop = 0;
    reveal(side);
  }

  function oneSide(told, column) {
    const lost = told.recorded.filter((each) => each.failure);
    return h("div", { class: "side" }, h("h3", {}, spelt(column.name), " ", h("span", { class: `cell ${CELLS[column.sign][0]}`, title: CELLS[column.sign][2] }, CELLS[column.sign][1])),
      told.attempts.length ? told.attempts.map((each, index) => oneAttempt(each, told.attempts.length > 1 ? index + 1 : 0)) : h("p", { class: "empty" }, lost.length ? `No score: ${lost.at(-1).failure}` : "The attempt itself is no longer kept; only its score is in the record."));
  }

  function oneAttempt(each, number) {
    const details = Object.entries(each.details || {}).filter(([, value]) => value !== null && value !== "");
    return h("article", {}, number ? h("h4", {}, `attempt ${number}`) : null,
      h("p", {}, each.failure ? h("span", { class: "bad" }, `failed: ${each.failure}`) : [h("strong", { class: "num" }, each.passed ? "passed" : `hard ${each.hard}`), h("span", { class: "soft num" }, ` soft ${each.soft}`)], h("span", { class: "soft num" }, each.usage ? `, ${count(each.turns, "turn")}, ${short(each.usage.input)} + ${short(each.usage.output)} tokens` : "", each.limit ? `, stopped by its limit of ${each.limit}` : "", each.exit === null || each.exit === undefined ? "" : `, exit status ${each.exit}`, each.skill_opened === false ? ", did not open the skill" : "")),
      each.feedback ? h("p", { class: "feedback" }, each.feedback) : null,
      details.length ? h("dl", { class: "figures" }, details.map(([key, value]) => [h("dt", {}, key.replace(/_/g, " ")), h("dd", {}, typeof value === "string" ? folded(value, 240) : h("code", {}, JSON.stringify(value)))])) : null,
      each.messages.map(message), each.more ? h("p", { class: "soft" }, `and ${count(each.more, "more message")} in the run directory`) : null,
      (each.files || []).length ? h("section", {}, h("h4", {}, "Files it left"), each.files.map((file) => h("details", {}, h("summary", {}, h("code", {}, file.path), h("span", { class: "soft num" }, ` ${bytes(file.size)}`)), file.text === null ? h("p", { class: "soft" }, "Not text.") : folded(file.text, 2000)))) : null);
  }

  function message(each) {
    return h("details", { class: `message ${each.role}`, open: each.role !== "system" }, h("summary", {}, each.role), each.text ? folded(each.text, 900) : null,
      each.images.map((source) => h("img", { src: source, alt: "Image in the conversation", loading: "lazy" })),
      each.calls.map((call) => h("div", { class: "call" }, h("code", {}, call.name), folded(call.arguments, 400))));
  }

  function close() { side.hidden = true; body.classList.remove("opened"); state.at = -1; history.replaceState(null, "", page.address("items")); if (table) draw(); }

  fill(tools, h("span", { class: "soft" }, "Counting outcomes…"));
  load();
  return {
    update() { if (page.data.steps.length !== size && size >= 0) load(); },
    again(next) { if (next[0] && table) select(next[0]); return true; },
    escape: close,
    close() { state.dead = true; },
    key(key) {
      if ((key !== "j" && key !== "k") || !table) return false;
      const place = Math.max(0, Math.min(shown.length - 1, state.at + (key === "j" ? 1 : -1)));
      if (shown[place]) select(shown[place].task);
      return true;
    },
  };
}
