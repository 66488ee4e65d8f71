// The settings of the latest start, without secrets: first those that differ from the defaults.
import { get } from "./api.js";
import { count, fill, h } from "./dom.js";

export function open(page, body) {
  let dead = false;
  let told = null;
  const shown = h("div", {});
  const search = h("input", { type: "search", placeholder: "Find a setting", ariaLabel: "Find a setting", oninput: () => draw() });
  fill(body, h("div", { class: "bar" }, search, h("span", { class: "soft" }, "As they were at the latest start; secrets are hidden.")), shown);

  const written = (value) => (value === null ? h("span", { class: "soft" }, "not set") : value === "" ? h("span", { class: "soft" }, "empty") : h("code", {}, typeof value === "string" ? value : JSON.stringify(value)));
  const listed = (keys) => h("dl", { class: "settings-list" }, keys.map((key) => [h("dt", {}, h("code", {}, key)), h("dd", {}, written(told.values[key]))]));

  function draw() {
    const words = search.value.trim().toLowerCase();
    const fits = Object.keys(told.values).filter((key) => !words || `${key} ${told.values[key]}`.toLowerCase().includes(words));
    const changed = fits.filter((key) => told.changed.includes(key));
    const usual = fits.filter((key) => !told.changed.includes(key));
    fill(shown,
      changed.length ? h("section", { class: "panel settings-section" }, h("h2", {}, "Other than the defaults"), listed(changed)) : null,
      usual.length ? h("details", { class: "panel settings-section", open: Boolean(words) || !changed.length }, h("summary", {}, h("h2", { class: "in-line" }, "As the defaults"), h("span", { class: "soft num" }, ` ${count(usual.length, "setting")}`)), listed(usual)) : null,
      fits.length ? null : h("p", { class: "empty" }, "No setting fits."));
  }

  (async () => {
    try {
      const answer = await get(`runs/${encodeURIComponent(page.id)}/settings`);
      if (dead) return;
      told = answer;
      draw();
    } catch (error) { if (!dead) fill(shown, h("p", { class: "problem" }, error.message)); }
  })();
  return { close() { dead = true; } };
}
