// What nights have learnt from sessions: their proposals with evidence; adopt, take back, schedule.
import { get, post, session } from "./api.js";
import { count, dollars, fill, h, outcome, short } from "./dom.js";
import { menu } from "./view-runs.js";
import { diff } from "./text.js";

export function page(app, main, chosen) {
  const view = { dead: false, close() { view.dead = true; clearInterval(timer); } };
  const list = h("div", { class: "timeline", role: "list", ariaLabel: "Nights" });
  const detail = h("div", { class: "step-detail" });
  const head = h("div", { class: "bar" });
  const note = h("div", {});
  const split = h("div", { class: "split", hidden: true }, list, detail);
  fill(main, h("div", { class: "page wide-page" }, h("header", { class: "page-head" }, menu(app), h("h1", {}, "Sleep"), h("span", { class: "soft" }, "what was learnt from the sessions of coding agents")), head, note, split));
  app.title("Sleep");
  app.follow(null, 0, {});
  let at = chosen ? decodeURIComponent(chosen) : "";
  let told = null;
  let turn = 0;
  fill(note, h("p", { class: "empty" }, "Looking for nights…"));
  const timer = setInterval(() => { if (told && told.running) load(); }, 3000);

  async function load() {
    try { told = await get("sleep"); } catch (error) { if (!view.dead) fill(note, h("p", { class: "problem" }, error.message)); return; }
    if (!view.dead) draw();
  }

  function draw() {
    const busy = told.running || told.under_way !== null && told.under_way !== undefined;
    fill(head, h("code", {}, told.project), h("span", { class: "spring" }), session.readOnly ? h("span", { class: "soft" }, "read-only") : [h("button", { type: "button", class: "button", disabled: busy, onclick: () => act("run", {}, "A night has begun.") }, busy ? "A night is under way…" : "Run a night now"), h("button", { type: "button", class: "button", onclick: schedule }, "Schedule…"), h("button", { type: "button", class: "button", onclick: () => sure("Take the last adoption back?", "Every file that it wrote is put back as it was, byte for byte.", "Take back", () => act("rollback", {}, "Taken back.")) }, "Take the last adoption back")]);
    fill(note, told.problem ? h("p", { class: "problem" }, told.problem) : null, told.running && told.said ? h("pre", { class: "output", tabIndex: 0 }, told.said) : null);
    split.hidden = !told.nights.length;
    if (!told.nights.length) {
      put(h("div", { class: "hello" }, h("h2", {}, "No night yet"), h("p", {}, "A night reads the sessions of your coding agents in this project, practises the tasks that came up, and proposes what it has learnt. Nothing is written before you adopt it."), h("p", { class: "soft" }, "See what a night would look at: ", h("code", {}, "skillopt-sleep dry-run"), "; a first one on sample sessions: ", h("code", {}, "skillopt-sleep demo"))));
      return;
    }
    if (!told.nights.some((night) => night.name === at)) at = (told.nights.find((night) => night.waiting.length) || told.nights[0]).name;
    fill(list, told.nights.map((night) => h("button", { type: "button", role: "listitem", class: `step-row${night.name === at ? " here" : ""}`, onclick: () => { at = night.name; history.replaceState(null, "", `/sleep/${encodeURIComponent(at)}`); draw(); } },
      h("span", { class: "step-top" }, outcome(night.accepted ? "accepted" : "skipped", ""), h("strong", {}, when(night)), night.simulated ? h("span", { class: "tag" }, "simulated") : null, h("span", { class: "spring" }), night.waiting.length ? h("span", { class: "tag" }, "waits") : null),
      h("span", { class: "step-low soft" }, h("span", { class: "cut" }, night.verdict || (night.accepted ? "accepted" : "nothing was better"))))));
    show();
  }

  function put(node) { fill(note, told.problem ? h("p", { class: "problem" }, told.problem) : null, node); }
  const when = (night) => { const date = new Date(night.created); return Number.isNaN(Number(date)) ? night.name : date.toLocaleString([], { dateStyle: "medium", timeStyle: "short" }); };

  async function show() {
    const mine = (turn += 1);
    let night;
    try { night = await get(`sleep/${encodeURIComponent(at)}`); } catch (error) { if (mine === turn) fill(detail, h("p", { class: "problem" }, error.message)); return; }
    if (view.dead || mine !== turn) return;
    const report = night.report;
    const waiting = told.nights.find((each) => each.name === at).waiting;
    fill(detail, h("header", { class: "detail-head" }, h("h2", {}, when(night)), outcome(night.accepted ? "accepted" : "skipped", night.accepted ? "accepted" : "nothing to adopt")),
      report.verdict ? h("p", {}, report.verdict) : null,
      h("dl", { class: "figures" }, [["sessions", report.n_sessions], ["tasks mined", report.n_tasks], ["practised", report.n_replayed], ["before", report.baseline === null || report.baseline === undefined ? null : report.baseline.toFixed(2)], ["after", report.candidate === null || report.candidate === undefined ? null : report.candidate.toFixed(2)], ["tokens", report.tokens_used === undefined ? null : short(report.tokens_used)], ["dollars", report.dollars ? dollars(report.dollars) : null]].filter(([, value]) => value !== null && value !== undefined).map(([key, value]) => [h("dt", {}, key), h("dd", { class: "num" }, value)])),
      !session.readOnly && waiting.length ? h("div", { class: "bar" }, h("button", { type: "button", class: "button primary", onclick: () => act("adopt", { night: at }, "Adopted.") }, waiting.length > 1 ? `Adopt all ${waiting.length}` : "Adopt"), waiting.length > 1 ? waiting.map((target) => h("button", { type: "button", class: "button", onclick: () => act("adopt", { night: at, target }, `${target} adopted.`) }, `Only ${target}`)) : null, h("span", { class: "soft" }, "Files are written all together, or none; it can be taken back.")) : null,
      night.files.map((file) => h("section", {}, h("h3", {}, file.target, h("span", { class: "soft" }, ` ${file.path}`)), file.problem ? h("p", { class: "problem" }, file.problem) : diff(file.diff))),
      (report.gate_trials || []).length ? h("section", {}, h("h3", {}, "Evidence"), h("ul", {}, report.gate_trials.map((trial) => h("li", {}, Object.entries(trial).filter(([, value]) => ["string", "number", "boolean"].includes(typeof value)).map(([key, value]) => `${key.replace(/_/g, " ")} ${typeof value === "number" && !Number.isInteger(value) ? value.toFixed(3) : value}`).join(", "))))) : null,
      (report.rejected_edits || []).length ? h("section", {}, h("h3", {}, "Tried and rejected"), h("ul", {}, report.rejected_edits.map((text) => h("li", {}, String(text))))) : null,
      night.tasks.length ? h("section", {}, h("h3", {}, count(night.tasks.length, "mined task")), h("ul", {}, night.tasks.map((task) => h("li", {}, String(task.intent || task.id || ""))))) : null,
      (report.notes || []).map((text) => h("p", { class: "soft" }, String(text))));
    detail.scrollTop = 0;
  }

  async function act(what, body, done) {
    const answer = await app.act(() => post(`sleep/${what}`, body), done);
    if (answer && !view.dead) load();
  }

  function sure(title, about, word, work) {
    const box = h("dialog", { ariaLabel: title }, h("h2", {}, title), h("p", {}, about), h("form", { method: "dialog", class: "bar" }, h("button", { class: "button primary", value: "go" }, word), h("button", { class: "button", value: "" }, "Cancel")));
    box.addEventListener("close", () => { if (box.returnValue === "go") work(); box.remove(); });
    document.body.append(box);
    box.showModal();
  }

  function schedule() {
    const time = h("input", { type: "time", value: "03:17", ariaLabel: "Time of day" });
    const box = h("dialog", { ariaLabel: "Schedule" }, h("h2", {}, "A night every day"), h("p", {}, "By the scheduler of this system. What is accepted waits for your adoption."), h("label", { class: "field" }, "at ", time), h("form", { method: "dialog", class: "bar" }, h("button", { class: "button primary", value: "go" }, "Schedule"), h("button", { class: "button", value: "stop" }, "No more"), h("button", { class: "button", value: "" }, "Cancel")));
    box.addEventListener("close", () => {
      const [hour, minute] = time.value.split(":");
      if (box.returnValue === "go") act("schedule", { hour, minute }, `A night every day at ${time.value}.`);
      if (box.returnValue === "stop") act("unschedule", {}, "No more nights by themselves.");
      box.remove();
    });
    document.body.append(box);
    box.showModal();
  }

  load();
  return Object.assign(view, {
    key(key) {
      if ((key !== "j" && key !== "k") || !told) return false;
      const place = told.nights.findIndex((night) => night.name === at) + (key === "j" ? 1 : -1);
      if (told.nights[place]) { at = told.nights[place].name; draw(); }
      return true;
    },
  });
}
