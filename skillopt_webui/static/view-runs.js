// All runs in a table; and several of them side by side.
import { get, session } from "./api.js";
import { Rows, ago, count, dollars, duration, fill, h, interval, onPhone, score, short, signed } from "./dom.js";
import { lines } from "./charts.js";
import { diff } from "./text.js";

const COLUMNS = [
  ["name", "run", (run) => run.name],
  ["status", "status", (run) => run.status],
  ["score", "score", (run) => (run.after ? run.after.mean : -1), true],
  ["lift", "lift", (run) => (run.claim ? run.claim.mean : -9), true],
  ["cost", "cost", (run) => (run.dollars ?? (run.tokens || 0) / 1e9), true],
  ["seconds", "time", (run) => run.seconds || 0, true],
  ["modified", "last change", (run) => run.modified, true],
];

const GROUPS = { running: ["running", "starting"], finished: ["finished"], stopped: ["stopped by a limit", "interrupted", "waiting for answers", "not begun"], failed: ["crashed", "stopped by an error", "unreadable", "old format"] };

export function menu(app) {
  return h("button", { class: "quiet menu", type: "button", ariaLabel: "Show the list of runs", onclick: () => app.drawer() }, "☰");
}

export function list(app, main) {
  const query = new URLSearchParams(location.search);
  const state = { sort: query.get("sort") || "modified", down: query.get("up") !== "1", group: query.get("status") || "", text: query.get("q") || "", chosen: new Set(), at: -1 };
  const chips = h("div", { class: "chips", role: "group", ariaLabel: "Status" });
  const head = h("div", { class: "runs-head run-row", role: "row" });
  const box = h("div", { class: "runs-body", role: "rowgroup" });
  const button = h("a", { class: "button primary", hidden: true }, "Compare");
  const filter = h("input", { type: "search", placeholder: "Filter by name, model, benchmark", ariaLabel: "Filter runs", value: state.text, oninput: () => { state.text = filter.value; app.setQuery({ q: state.text }); draw(); } });
  const table = h("div", { class: "runs-table", role: "table", ariaLabel: "Runs" }, head, box);
  const nothing = h("div", { class: "welcome" });
  fill(main, h("div", { class: "page wide-page" },
    h("header", { class: "page-head" }, menu(app), h("h1", {}, "Runs"), h("span", { class: "soft" }, session.root), h("span", { class: "spring" }), button, filter),
    chips, table, nothing));
  app.title("Runs");
  const rows = new Rows(box, onPhone() ? 68 : 52, row);
  let shown = [];

  function row(run, index) {
    const mark = h("input", { type: "checkbox", ariaLabel: `Compare ${run.name}`, checked: state.chosen.has(run.id), onchange: () => { if (mark.checked) state.chosen.add(run.id); else state.chosen.delete(run.id); choice(); } });
    const kind = Object.keys(GROUPS).find((name) => GROUPS[name].includes(run.status)) || "reading";
    return h("div", { class: `run-row ${kind}${index === state.at ? " at" : ""}`, role: "row" },
      h("span", { role: "cell", class: "tick" }, mark),
      h("span", { role: "cell", class: "c-name" }, h("a", { href: `/run/${run.id}` }, run.name), h("small", { class: "soft", title: `target ${run.target || "unknown"}, optimizer ${run.optimizer || "unknown"}` }, run.target ? `${run.benchmark}: ${run.target}, ${run.optimizer}` : run.why || "")),
      h("span", { role: "cell", class: "c-status", title: run.why || "" }, h("span", { class: "state" }, h("span", { class: `dot ${kind}`, ariaHidden: "true" }), run.status), run.simulated ? h("small", { class: "soft", title: "Scores say nothing about a real model" }, "simulated") : null),
      h("span", { role: "cell", class: "c-score" }, run.after ? interval(run.after) : "", run.before ? h("small", { class: "soft num" }, `from ${score(run.before.mean)}`) : null),
      h("span", { role: "cell", class: "c-lift num", title: run.claim ? run.claim.words : "" }, run.claim ? [h("strong", {}, signed(run.claim.mean)), h("span", { class: "soft" }, ` [${signed(run.claim.low)}, ${signed(run.claim.high)}]`), h("small", { class: "soft" }, `${run.claim.n} ${run.claim.split} items${run.claim.split === "test" ? (run.claim.conclusive ? ", conclusive" : ", not conclusive") : ", not tested"}`)] : ""),
      h("span", { role: "cell", class: "c-cost num" }, run.calls === undefined ? "" : [run.dollars ? dollars(run.dollars) : "unknown", h("small", { class: "soft" }, `${short(run.tokens)} tokens`)]),
      h("span", { role: "cell", class: "c-time num" }, run.seconds ? duration(run.seconds) : ""),
      h("span", { role: "cell", class: "c-when" }, ago(run.modified)));
  }

  function choice() {
    button.hidden = state.chosen.size < 2;
    button.textContent = `Compare ${state.chosen.size}`;
    button.href = `/compare?${[...state.chosen].map((id) => `run=${encodeURIComponent(id)}`).join("&")}`;
  }

  function draw() {
    const words = state.text.trim().toLowerCase();
    const numbers = Object.fromEntries(Object.entries(GROUPS).map(([name, kinds]) => [name, app.runs.filter((run) => kinds.includes(run.status)).length]));
    fill(chips, ["", ...Object.keys(GROUPS)].map((name) => h("button", { type: "button", class: `chip${state.group === name ? " on" : ""}`, ariaPressed: String(state.group === name), onclick: () => { state.group = name; app.setQuery({ status: name }); draw(); } }, name || "all", h("span", { class: "soft num" }, ` ${name ? numbers[name] : app.runs.length}`))));
    const column = COLUMNS.find(([key]) => key === state.sort) || COLUMNS.at(-1);
    shown = app.runs.filter((run) => (!state.group || GROUPS[state.group].includes(run.status)) && (!words || `${run.name} ${run.target || ""} ${run.optimizer || ""} ${run.benchmark || ""} ${run.status}`.toLowerCase().includes(words)));
    shown.sort((one, other) => { const a = column[2](one); const b = column[2](other); return (a < b ? -1 : a > b ? 1 : 0) * (state.down ? -1 : 1); });
    fill(head, h("span", { role: "columnheader", class: "tick" }, h("span", { class: "sr" }, "compare")), COLUMNS.map(([key, title, , right]) => h("span", { role: "columnheader", class: `c-${{ score: "score", lift: "lift", cost: "cost", seconds: "time", modified: "when", name: "name", status: "status" }[key]}${right ? " right" : ""}`, ariaSort: state.sort === key ? (state.down ? "descending" : "ascending") : "none" }, h("button", { type: "button", class: "quiet", onclick: () => { if (state.sort === key) state.down = !state.down; else { state.sort = key; state.down = key !== "name"; } app.setQuery({ sort: state.sort, up: state.down ? "" : "1" }); draw(); } }, title, state.sort === key ? (state.down ? " ↓" : " ↑") : ""))));
    table.hidden = !app.runs.length;
    rows.set(shown);
    fill(nothing);
    if (!app.runs.length) fill(nothing, welcome());
    else if (!shown.length) fill(nothing, h("p", { class: "empty" }, "No run fits. Clear the filter to see all."));
  }

  function welcome() {
    return h("div", { class: "hello" }, h("h2", {}, "No runs in this folder yet"),
      h("p", {}, "A run appears here as soon as it has begun, from this page or from a terminal."),
      session.readOnly ? null : h("p", {}, h("a", { class: "button primary", href: "/launch" }, "Start a first run")),
      h("p", { class: "soft" }, "On a terminal: ", h("code", {}, "skillopt quickstart --sim"), " trains with simulated models in seconds; ", h("code", {}, "skillopt web --runs DIR"), " looks in another folder."));
  }

  draw();
  app.follow(null, 0, {});
  return {
    runsChanged: draw,
    key(key) {
      if (key === "j" || key === "k") { state.at = Math.max(0, Math.min(shown.length - 1, state.at + (key === "j" ? 1 : -1))); rows.set(shown); rows.show(state.at); return true; }
      if (key === "Enter" && shown[state.at]) { app.go(`/run/${shown[state.at].id}`); return true; }
      return false;
    },
  };
}

export function compare(app, main) {
  const names = new URLSearchParams(location.search).getAll("run");
  const view = { dead: false, close() { view.dead = true; } };
  const body = h("div", {}, h("p", { class: "empty" }, "Reading the runs…"));
  fill(main, h("div", { class: "page wide-page" }, h("header", { class: "page-head" }, menu(app), h("h1", {}, "Runs side by side"), h("span", { class: "spring" }), h("a", { href: "/", class: "button" }, "All runs")), body));
  app.title("Compare");
  app.follow(null, 0, {});
  if (!names.length) {
    fill(body, h("div", { class: "hello" }, h("h2", {}, "No runs are chosen"), h("p", {}, "Mark two or more in the list of runs, then Compare."), h("p", {}, h("a", { href: "/", class: "button primary" }, "All runs"))));
    return view;
  }
  (async () => {
    let answer;
    try { answer = await get("compare", { run: names }); } catch (error) { if (!view.dead) fill(body, h("p", { class: "problem" }, error.message)); return; }
    if (view.dead) return;
    const known = answer.runs.filter((run) => !run.problem);
    const chart = h("div", { class: "chart compare-chart" });
    const table = h("table", { class: "plain" }, h("thead", {}, h("tr", {}, ["run", "best score", "lift", "split, n", "calls", "tokens", "dollars", "skill"].map((title, index) => h("th", { scope: "col", class: index > 0 ? "right" : "" }, title)))),
      h("tbody", {}, answer.runs.map((run) => (run.problem
        ? h("tr", {}, h("th", { scope: "row" }, run.name), h("td", { colSpan: 7, class: "problem" }, run.problem))
        : h("tr", {}, h("th", { scope: "row" }, h("a", { href: `/run/${run.id}` }, title(app, run)), run.head.simulated ? h("span", { class: "tag" }, "simulated") : null),
          h("td", { class: "right" }, interval(run.head.claim.after)),
          h("td", { class: "right num" }, run.head.claim.gain === null ? h("span", { class: "soft", title: run.head.claim.sentence }, run.head.claim.sentence.split(":")[0]) : [signed(run.head.claim.gain), h("span", { class: "soft" }, ` [${signed(run.head.claim.low)}, ${signed(run.head.claim.high)}]`, run.head.claim.conclusive ? "" : " not conclusive")]),
          h("td", { class: "right num" }, `${run.head.claim.split}, ${run.head.claim.n}`),
          h("td", { class: "right num" }, count(run.total.calls)),
          h("td", { class: "right num" }, short(run.total.input + run.total.output)),
          h("td", { class: "right num" }, dollars(run.total.dollars)),
          h("td", { class: "right num" }, `${short(run.tokens)} tokens`))))));
    const pair = h("div", {});
    fill(body, chart, table, known.length > 1 ? [h("h2", {}, "How the best skills differ"), pair] : null);
    if (known.length) lines(chart, known.map((run) => ({ name: title(app, run), x: run.steps.map((step) => step.position), y: run.steps.map((step) => step.best.mean), low: run.steps.map((step) => step.best.low), high: run.steps.map((step) => step.best.high) })), { x: "step or epoch", y: `best score on val (n ${[...new Set(known.map((run) => run.steps[0].best.n))].join(", ")})`, range: [0, 1.03], room: 150 }).catch(() => {});
    if (known.length > 1) {
      const picks = [0, 1].map((index) => h("select", { ariaLabel: index ? "New skill" : "Old skill", onchange: differ }, known.map((run, place) => h("option", { value: String(place), selected: place === index }, title(app, run)))));
      const shown = h("div", {});
      fill(pair, h("div", { class: "bar" }, picks[0], " → ", picks[1]), shown);
      let turn = 0;
      async function differ() {
        const mine = (turn += 1);
        try {
          const answer = await get("compare/diff", { run: picks.map((pick) => known[Number(pick.value)].id) });
          if (mine === turn) fill(shown, diff(answer.files));
        } catch (error) { if (mine === turn) fill(shown, h("p", { class: "problem" }, error.message)); }
      }
      differ();
    }
  })();
  return view;
}

const title = (app, run) => (app.runs.find((each) => each.id === run.id) || { name: run.id }).name;
