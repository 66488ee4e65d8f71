// A new run: a simulated one, one's own rows, or a configuration with any setting changed.
import { get, post, session } from "./api.js";
import { bytes, count, dollars, duration, fill, h, short } from "./dom.js";
import { menu } from "./view-runs.js";

const WAYS = [["simulated", "Try it out", "Simulated models on made-up data. Takes seconds, costs nothing; its scores say nothing about a real model."], ["data", "My own rows", "A CSV, JSONL or Excel file with a question and an answer in each row; a model on this machine, or one behind a key."], ["config", "A configuration", "Any configuration file, with every setting at hand, the estimate, and the checks before it starts."]];

// The end differs between pages that are opened in the same minute.
const fresh = (word) => `${word}-${new Date().toISOString().slice(5, 16).replace(/[-:T]/g, "")}-${Math.random().toString(36).slice(2, 6)}`;

export function page(app, main) {
  const query = new URLSearchParams(location.search);
  const view = { dead: false, close() { view.dead = true; } };
  const state = { way: query.get("as") || "", settings: {}, config: query.get("config") || "" };
  const ways = h("div", { class: "ways", role: "group", ariaLabel: "What to train with" });
  const form = h("div", { class: "launch-form" });
  fill(main, h("div", { class: "page" }, h("header", { class: "page-head" }, menu(app), h("h1", {}, "New run")), session.readOnly ? h("p", { class: "problem" }, "This dashboard is read-only. Start it without --read-only to launch runs.") : [ways, form]));
  app.title("New run");
  app.follow(null, 0, {});
  if (session.readOnly) return view;

  function choose(way) {
    state.way = way;
    state.settings = {};
    app.setQuery({ as: way });
    fill(ways, WAYS.map(([key, title, about]) => h("button", { type: "button", class: `way${state.way === key ? " on" : ""}`, ariaPressed: String(state.way === key), onclick: () => choose(key) }, h("strong", {}, title), h("span", { class: "soft" }, about))));
    if (way === "simulated") simulated();
    else if (way === "data") data();
    else if (way === "config") configuration();
    else fill(form);
  }

  const nameField = (value) => h("input", { id: "run-name", value, pattern: "[A-Za-z0-9][A-Za-z0-9._\\-]{0,63}", required: true, autocomplete: "off", spellcheck: false });
  const labelled = (id, text, input, more) => h("div", { class: "form-row" }, h("label", { htmlFor: id }, text), h("div", {}, input, more ? h("p", { class: "soft small" }, more) : null));

  async function launch(body, button) {
    button.disabled = true;
    const answer = await app.act(() => post("launch", body));
    button.disabled = false;
    if (answer && !view.dead) app.go(`/run/${answer.id}`);
  }

  function simulated() {
    const name = nameField(fresh("try"));
    const seed = h("input", { id: "seed", type: "number", min: 0, value: 0 });
    const button = h("button", { class: "button primary", type: "submit" }, "Start");
    fill(form, h("form", { class: "panel", onsubmit: (event) => { event.preventDefault(); launch({ kind: "simulated", name: name.value, seed: seed.value }, button); } }, labelled("run-name", "name", name, `A folder of this name below ${session.root}.`), labelled("seed", "seed", seed), h("div", { class: "bar" }, button, h("span", { class: "soft" }, "the same as ", h("code", {}, "skillopt quickstart --sim")))));
  }

  // One's own rows.

  async function data() {
    let means = { embedded: false, models: [] };
    try { means = await get("means"); } catch { /* offered without */ }
    if (view.dead || state.way !== "data") return;
    const name = nameField(fresh("mine"));
    const file = h("input", { type: "file", id: "file", accept: ".csv,.jsonl,.json,.xlsx" });
    const paste = h("textarea", { id: "paste", rows: 6, spellcheck: false, placeholder: "input,answer\nWhat is two plus two?,4" });
    const rest = h("div", {});
    const read = h("button", { class: "button", type: "button" }, "Read the rows");
    const note = h("p", { class: "problem", hidden: true });
    let earlier = "";
    read.onclick = async () => {
      const raw = file.files[0] || new Blob([paste.value], { type: "text/csv" });
      if (!file.files[0] && !paste.value.trim()) { note.hidden = false; note.textContent = "Choose a file, or paste rows with a header."; return; }
      read.disabled = true;
      try {
        const told = await post(`data?name=${encodeURIComponent(name.value)}&filename=${encodeURIComponent(file.files[0] ? file.files[0].name : "pasted.csv")}&earlier=${encodeURIComponent(earlier)}`, null, raw);
        note.hidden = true;
        earlier = told.path;
        columns(told);
      } catch (error) { note.hidden = false; note.textContent = error.message; }
      read.disabled = false;
    };
    fill(form, h("form", { class: "panel", onsubmit: (event) => event.preventDefault() }, labelled("run-name", "name", name, `A folder of this name below ${session.root}; the rows are kept there.`), labelled("file", "file", file), labelled("paste", "or paste rows", paste, "Comma-separated, with the names of the columns in the first line."), note, h("div", { class: "bar" }, read), rest));

    function columns(told) {
      const likely = (words, index) => told.columns.find((column) => words.some((word) => column.toLowerCase().includes(word))) || told.columns[index] || told.columns[0];
      const select = (id, chosen) => h("select", { id }, told.columns.map((column) => h("option", { selected: column === chosen }, column)));
      const input = select("input-column", likely(["input", "question", "text", "prompt"], 0));
      const answer = select("answer-column", likely(["answer", "label", "output", "target"], 1));
      const scorer = h("select", { id: "scorer" }, ["exact", "contains", "f1", "numeric", "choice", "regex"].map((each) => h("option", {}, each)));
      const backend = h("select", { id: "backend" }, [["local", "a model on this machine"], ["openai_chat", "OpenAI (key in OPENAI_API_KEY)"], ["openai_compatible", "a server with OpenAI's protocol"], ["claude_chat", "Anthropic (key in ANTHROPIC_API_KEY)"]].map(([value, title]) => h("option", { value }, title)));
      const model = h("input", { id: "model", value: (means.models.find((each) => each.here) || means.models[0] || { name: "" }).name, list: "models" });
      const names = h("datalist", { id: "models" }, means.models.map((each) => h("option", { value: each.name })));
      const url = h("input", { id: "url", placeholder: "http://127.0.0.1:8000/v1" });
      const skill = h("textarea", { id: "skill", rows: 4, placeholder: "# What the agent should know\n\n- Answer with the number only." });
      const hint = h("p", { class: "soft small" });
      const out = h("div", { class: "asked" });
      const urlRow = labelled("url", "address", url);
      const about = () => {
        const local = backend.value === "local";
        urlRow.hidden = backend.value !== "openai_compatible";
        const known = means.models.find((each) => each.name === model.value);
        hint.textContent = !local ? "Keys are read from the environment or .env of the folder in which the dashboard was started; they are never asked for here." : !means.embedded ? "The embedded model is not installed: pip install xllamacpp" : known && !known.here ? `This model is not here yet (${bytes(known.size)}). Fetch it first: skillopt model fetch ${known.name}` : "It runs on the CPU of this machine; nothing leaves it.";
      };
      backend.onchange = about;
      model.oninput = about;
      const settings = () => ({ "env.name": "custom", "env.data_path": JSON.stringify(told.path), "env.input": JSON.stringify(input.value), "env.answer": JSON.stringify(answer.value), "env.scorer": scorer.value, "model.backend": backend.value, "model.target": JSON.stringify(model.value), "model.optimizer": JSON.stringify(model.value), ...(backend.value === "openai_compatible" ? { "model.base_url": JSON.stringify(url.value) } : {}), ...(skill.value.trim() ? {} : { "env.skill_init": "blank" }) });
      const button = h("button", { class: "button primary", type: "button", onclick: () => launch({ kind: "config", name: name.value, config: "", settings: settings(), skill: skill.value }, button) }, "Start");
      fill(rest, h("p", {}, h("strong", { class: "num" }, count(told.rows, "row")), `, columns ${told.columns.join(", ")}`), h("div", { class: "scroller", tabIndex: 0, role: "region", ariaLabel: "First rows" }, h("table", { class: "plain" }, h("thead", {}, h("tr", {}, told.columns.map((column) => h("th", { scope: "col" }, column)))), h("tbody", {}, told.sample.map((row) => h("tr", {}, told.columns.map((column) => h("td", {}, String(row[column] ?? "").slice(0, 160)))))))),
        labelled("input-column", "shown to the agent", input), labelled("answer-column", "right answer", answer), labelled("scorer", "scored by", scorer), labelled("backend", "model", backend), labelled("model", "its name", [model, names], hint), urlRow, labelled("skill", "first skill", skill, "Markdown; empty: it starts from a blank one."),
        h("div", { class: "bar" }, button, asking("estimate", "Estimate", () => ({ settings: settings(), skill: skill.value }), out), asking("check", "Check the data", () => ({ settings: settings(), skill: skill.value }), out)), out);
      about();
    }
  }

  // A configuration with every setting at hand.

  async function configuration() {
    fill(form, h("p", { class: "empty" }, "Looking for configuration files…"));
    let found;
    try { found = await get("configs"); } catch (error) { fill(form, h("p", { class: "problem" }, error.message)); return; }
    if (view.dead || state.way !== "config") return;
    const name = nameField(fresh("run"));
    const pick = h("select", { id: "config", onchange: () => { state.config = pick.value; app.setQuery({ config: pick.value }); state.settings = {}; keys(); } }, h("option", { value: "" }, "the defaults"), found.configs.map((config) => h("option", { value: config.id, selected: config.id === state.config }, config.path)));
    const search = h("input", { type: "search", id: "find", placeholder: "Find a setting, e.g. epochs", ariaLabel: "Find a setting", oninput: () => drawKeys() });
    const list = h("div", { class: "keys" });
    const problems = h("div", { role: "alert" });
    const resolved = h("pre", { class: "output", tabIndex: 0 });
    const out = h("div", { class: "asked" });
    const button = h("button", { class: "button primary", type: "button", onclick: () => launch({ kind: "config", name: name.value, config: state.config, settings: state.settings }, button) }, "Start");
    const changed = h("p", { class: "soft small" });
    fill(form, h("div", { class: "panel" }, labelled("config", "based on", pick, found.configs.length ? null : "No configuration file was found near the dashboard."), labelled("run-name", "name", name, `A folder of this name below ${session.root}; it gets the configuration and the run.`), problems,
      h("div", { class: "bar" }, button, asking("estimate", "Estimate", () => ({ config: state.config, settings: state.settings }), out), asking("check", "Check data and scorer", () => ({ config: state.config, settings: state.settings }), out), asking("doctor", "Doctor", () => ({ config: state.config, settings: state.settings }), out)), out),
    h("div", { class: "panel" }, h("header", { class: "panel-head" }, h("h2", {}, "Settings"), search), changed, list), h("details", { class: "panel" }, h("summary", {}, h("h2", { class: "in-line" }, "The whole configuration"), h("span", { class: "soft" }, " what it is based on merged, secrets hidden")), resolved));
    let entries = [];
    let base = {};  // by key, without what is changed here
    let given = new Set();
    let faults = {};
    let turn = 0;
    let waiting = null;

    async function resolve() {
      const mine = (turn += 1);
      let told;
      try { told = await post("resolve", { config: state.config, settings: state.settings }); } catch (error) { fill(problems, h("p", { class: "problem" }, error.message)); return; }
      if (view.dead || mine !== turn) return;
      faults = told.problems;
      const own = Object.keys(state.settings);
      fill(problems, Object.entries(faults).filter(([key]) => !own.includes(key)).map(([key, text]) => h("p", { class: "problem" }, key ? `${key}: ${text}` : text)), (told.warnings || []).map((text) => h("p", { class: "soft small" }, text)));
      if (told.values) { given = new Set(told.given); resolved.textContent = told.yaml; }
      button.disabled = Object.keys(faults).length > 0;
      changed.textContent = own.length ? `Changed here: ${own.map((key) => `${key}=${state.settings[key]}`).join("  ")}` : "Nothing is changed here yet.";
      for (const row of list.querySelectorAll(".key")) mark(row, row.dataset.key);
      return told;
    }

    function mark(row, key) {
      const fault = faults[key];
      const note = row.querySelector(".fault");
      note.textContent = fault || "";
      row.classList.toggle("wrong", Boolean(fault));
      row.classList.toggle("mine", key in state.settings);
      const field = row.querySelector("input, select");
      if (field) field.setAttribute("aria-invalid", fault ? "true" : "false");
    }

    function set(key, text) {
      if (text === null) delete state.settings[key];
      else state.settings[key] = text;
      clearTimeout(waiting);
      waiting = setTimeout(resolve, 180);
    }

    async function keys() {
      const told = await resolve();
      base = (told && told.values) || {};
      const env = base["env.name"] || "";
      try { entries = (await get("keys", { env })).keys; } catch { entries = []; }
      if (!view.dead) drawKeys();
    }

    const COMMON = ["train.num_epochs", "train.batch_size", "model.target", "model.optimizer", "model.backend", "model.base_url", "env.name", "env.data_path", "env.split_dir", "env.skill_init", "env.workers", "env.limit", "evaluation.gate", "optimizer.learning_rate", "limits.dollars", "limits.tokens", "limits.minutes", "train.seed"];

    function drawKeys() {
      const words = search.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
      const fits = (entry) => { const text = `${entry.key} ${entry.meaning}`.toLowerCase().replace(/_/g, " "); return words.every((word) => text.includes(word.replace(/_/g, " "))); };
      const some = words.length ? entries.filter(fits).slice(0, 80) : entries.filter((entry) => COMMON.includes(entry.key) || entry.key in state.settings || (given.has(entry.key) && !entry.key.startsWith("model.")));
      fill(list, some.map(keyRow), words.length ? null : h("p", { class: "soft small" }, `${count(entries.length, "setting")} in all; search to change any of them.`), words.length && !some.length ? h("p", { class: "empty" }, "No setting fits.") : null);
    }

    const written = (value) => (value === null || value === undefined ? "" : Array.isArray(value) ? JSON.stringify(value) : String(value));

    function keyRow(entry) {
      const now = entry.key in state.settings ? state.settings[entry.key] : written(base[entry.key] ?? entry.default);
      const id = `key-${entry.key}`;
      let field;
      if (entry.kind === "flag" || entry.kind === "choice") {
        const options = entry.kind === "flag" ? ["true", "false"] : entry.choices;
        field = h("select", { id, onchange: () => set(entry.key, field.value) }, entry.optional ? h("option", { value: "null", selected: now === "" }, "null") : null, options.map((each) => h("option", { value: each === "" ? '""' : each, selected: each === now }, each || "(empty)")));
      } else {
        field = h("input", { id, value: now, type: "text", inputMode: entry.kind === "integer" ? "numeric" : entry.kind === "number" ? "decimal" : "text", list: entry.choices.length ? `${id}-list` : null, spellcheck: false, oninput: () => set(entry.key, field.value === "" ? (entry.optional ? "null" : '""') : field.value) });
        if (entry.choices.length) field.setAttribute("list", `${id}-list`);
      }
      const range = [entry.least !== null ? `at least ${entry.least}` : "", entry.above !== null ? `above ${entry.above}` : "", entry.most !== null ? `at most ${entry.most}` : ""].filter(Boolean).join(", ");
      const row = h("div", { class: "key" }, h("label", { htmlFor: id }, h("code", {}, entry.key)), h("div", { class: "key-field" }, field, entry.choices.length && entry.kind === "text" ? h("datalist", { id: `${id}-list` }, entry.choices.map((each) => h("option", { value: each }))) : null, h("button", { type: "button", class: "quiet undo", title: "Back to what the configuration says", ariaLabel: `Undo ${entry.key}`, onclick: () => { set(entry.key, null); const fresh = keyRow(entry); row.replaceWith(fresh); fresh.querySelector("input, select").focus(); } }, "↺")),
        h("p", { class: "soft small" }, entry.meaning, range ? ` (${entry.kind}, ${range})` : entry.kind === "text" ? "" : ` (${entry.kind})`, entry.may_change ? " · may change when a run is resumed" : ""), h("p", { class: "fault problem" }));
      row.dataset.key = entry.key;
      mark(row, entry.key);
      return row;
    }

    keys();
  }

  // Questions that take a process of their own: estimate, check, doctor.

  function asking(what, title, from, out) {
    const button = h("button", { type: "button", class: "button" }, title);
    button.onclick = async () => {
      button.disabled = true;
      fill(out, h("p", { class: "empty" }, what === "doctor" ? "Asking the models…" : "Working…"));
      try {
        const told = await post(`ask/${what}`, from());
        if (!view.dead) fill(out, told.error ? h("p", { class: "problem" }, told.error) : what === "estimate" ? estimated(told) : findings(told));
      } catch (error) { if (!view.dead) fill(out, h("p", { class: "problem" }, error.message)); }
      button.disabled = false;
    };
    return button;
  }

  const span = (range, words) => (range === null ? "unknown" : words(range.low) === words(range.high) ? words(range.expected) : `${words(range.expected)} (${words(range.low)} to ${words(range.high)})`);

  function estimated(told) {
    return h("section", { class: "estimate" }, h("dl", { class: "figures" }, [["calls", span(told.calls, short)], ["tokens", span(told.tokens, short)], ["dollars", told.dollars === null ? `unknown: no price for ${told.unpriced.join(" and ")}` : span(told.dollars, dollars)], ["time", span(told.seconds, duration)]].map(([key, value]) => [h("dt", {}, key), h("dd", { class: "num" }, value)])), h("p", { class: "soft small" }, "Expected values, in brackets the likely range."), told.warnings.map((text) => h("p", { class: "problem" }, text)));
  }

  function findings(told) {
    const kinds = { ok: "accepted", look: "inconclusive", warning: "inconclusive", bad: "rejected", failure: "rejected" };
    return h("ul", { class: "findings" }, told.findings.map((each) => h("li", {}, h("span", { class: `outcome ${kinds[each.verdict] || "skipped"}` }, { accepted: "●", inconclusive: "◐", rejected: "✕" }[kinds[each.verdict]] || "–", ` ${each.verdict}`), h("strong", {}, ` ${each.name} `), each.found, each.advice ? h("p", { class: "soft" }, each.advice) : null, each.examples.map((text) => h("p", { class: "soft small" }, text)))));
  }

  // Whoever has no run yet begins with one that costs nothing.
  if (state.way) choose(state.way);
  else app.known.then(() => { if (!view.dead) choose(app.runs.length ? "config" : "simulated"); });
  return view;
}
