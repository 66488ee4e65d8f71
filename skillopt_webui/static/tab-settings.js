// The settings of the latest start, without secrets.
import { get } from "./api.js";
import { fill, h } from "./dom.js";

export function open(page, body) {
  let dead = false;
  let text = "";
  const shown = h("div", {});
  const search = h("input", { type: "search", placeholder: "Find a setting", ariaLabel: "Find a setting", oninput: () => draw() });
  fill(body, h("div", { class: "bar" }, search, h("span", { class: "soft" }, "As they were at the latest start; secrets are hidden.")), shown);
  function draw() {
    const words = search.value.trim().toLowerCase();
    const sections = [];
    let section = null;
    for (const line of text.split("\n")) {
      if (/^\S.*:\s*$/.test(line)) { section = { name: line.replace(/:\s*$/, ""), lines: [] }; sections.push(section); } else if (section && line.trim()) section.lines.push(line.trim());
    }
    fill(shown, sections.map((each) => {
      const kept = each.lines.filter((line) => !words || `${each.name}.${line}`.toLowerCase().includes(words));
      if (!kept.length) return null;
      return h("section", { class: "panel settings-section" }, h("h2", {}, each.name), h("dl", { class: "settings-list" }, kept.map((line) => { const split = line.indexOf(":"); return split < 0 ? h("dd", { class: "full" }, h("code", {}, line)) : [h("dt", {}, h("code", {}, line.slice(0, split))), h("dd", {}, h("code", {}, line.slice(split + 1).trim() || "—"))]; })));
    }));
    if (!shown.childElementCount) fill(shown, h("p", { class: "empty" }, "No setting fits."));
  }
  (async () => {
    try {
      const told = await get(`runs/${encodeURIComponent(page.id)}/settings`);
      if (dead) return;
      if (told.problem) { fill(shown, h("p", { class: "problem" }, told.problem)); return; }
      text = told.yaml || Object.entries(told.kept).map(([key, value]) => `${key}: ${JSON.stringify(value)}`).join("\n");
      draw();
    } catch (error) { if (!dead) fill(shown, h("p", { class: "problem" }, error.message)); }
  })();
  return { close() { dead = true; } };
}
