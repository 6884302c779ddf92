// One original along the severity of a shift, two shifts below each other.
"use strict";

(() => {
  const { page, make, state, remember, rows, picture, exampleUrl, nuisanceName, base } = shiftdata;
  const get = (id) => document.getElementById(id);
  const name = (page.bases.find((known) => known.severities.length > 1) || page.bases[0]).name;
  const steps = base(name).severities;
  let shown = [null, null];

  const now = () => {
    const { label = 0, a = 0, b = Math.min(1, page.nuisances.length - 1), origin = 0, at = steps.length - 1 } = state();
    return { label: Number(label), nuisances: [Number(a), Number(b)], origin: Number(origin), at: Math.min(steps.length - 1, Number(at)) };
  };

  /** The rows of one trajectory, from mild to strong, and how many trajectories there are. */
  async function trajectory(label, nuisance, origin, like) {
    const answer = await rows({ base: name, label, nuisance }, 0, 1000, { full: true });
    const of = (row) => `${row.split} ${row.quantile}`;
    const known = [...new Set(answer.rows.map(of))];
    const same = answer.rows.find((row) => row.origin === like);
    const wanted = same ? of(same) : known[origin % Math.max(1, known.length)];
    const mine = answer.rows.filter((row) => of(row) === wanted);
    return { rows: mine, count: known.length, origin: mine[0]?.origin };
  }

  const rowAt = (side, at) => shown[side]?.rows.find((row) => row.severity === steps[at]);
  /** Untouched, an original is the same under both shifts: it is shown once. */
  const isRepeated = (side, at) => side === 1 && steps[at] === 0 && shown[0]?.origin === shown[1]?.origin && rowAt(0, at);

  function film(side, tile) {
    const { nuisances, at: chosen } = now();
    const nuisance = nuisanceName(nuisances[side]);
    get(`film-${"ab"[side]}`).replaceChildren(make("th", { scope: "row" }, nuisance), ...steps.map((step, at) => {
      const row = rowAt(side, at);
      if (!row) return make("td", {}, "none");
      if (isRepeated(side, at)) return make("td", { class: "small soft" }, "as above");
      const about = `${nuisance} at severity ${step}`;
      return make("td", {}, make("button", { type: "button", "aria-label": about, "aria-pressed": String(at === chosen), on: { click: () => go(at) } }, picture(name, row, tile, about)));
    }));
  }

  function large(side) {
    const { at, nuisances } = now();
    const row = rowAt(side, at);
    const nuisance = nuisanceName(nuisances[side]);
    get(`side-${"ab"[side]}`).hidden = Boolean(isRepeated(side, at));
    get(`side-${"ab"[side]}`).replaceChildren(row ? picture(name, row, 240, `${nuisance} at severity ${steps[at]}`) : make("span", { class: "missing" }, "none"),
      make("figcaption", {}, ...(row ? [`${steps[at] === 0 ? "Untouched" : `${nuisance}, severity ${steps[at]}`}. `, make("a", { href: exampleUrl(name, row.key) }, row.key)]
        : [`${nuisance} has no row at severity ${steps[at]}: it was filtered out, or is not on this page`])));
  }

  function showStep() {
    const tile = Math.max(48, Math.min(120, Math.floor((get("main").clientWidth - 140) / steps.length) - 10));
    for (const side of [0, 1]) { film(side, tile); large(side); }
  }

  async function show() {
    const { label, nuisances, origin } = now();
    for (const [id, value] of [["label", label], ["a", nuisances[0]], ["b", nuisances[1]]]) get(id).value = value;
    try {
      const first = await trajectory(label, nuisances[0], origin);
      shown = [first, await trajectory(label, nuisances[1], origin, first.origin)];
      const other = shown[1].origin === shown[0].origin ? "" : ` and ${shown[1].origin ?? "none"}`;
      get("origin-now").textContent = `${shown[0].origin ?? "none"}${other} (${(origin % Math.max(1, shown[0].count)) + 1} of ${shown[0].count})`;
      get("error").textContent = "";
    } catch (error) {
      get("error").textContent = error.message;
    }
    showStep();
  }

  const go = (at) => {
    const side = document.activeElement.closest("[id^=film]")?.id;
    remember({ at: Math.max(0, Math.min(steps.length - 1, at)) });
    showStep();
    if (side) get(side).querySelector("[aria-pressed=true]")?.focus();
  };
  const turn = (change) => { remember({ origin: Math.max(0, now().origin + change) }); show(); };
  get("steps").append(make("th", { scope: "col" }, "severity"), ...steps.map((step) => make("th", { scope: "col" }, String(step))));
  for (const id of ["label", "a", "b"]) {
    const list = id === "label" ? page.labels : page.nuisances;
    get(id).append(...list.map((text, place) => make("option", { value: place }, text)));
    get(id).addEventListener("change", (event) => { remember({ [id]: event.target.value, ...(id === "label" ? { origin: 0 } : {}) }); show(); });
  }
  get("before").addEventListener("click", () => turn(-1));
  get("after").addEventListener("click", () => turn(1));
  const moves = { ArrowLeft: () => go(now().at - 1), ArrowRight: () => go(now().at + 1), n: () => turn(1), p: () => turn(-1) };
  addEventListener("keydown", (event) => {
    if (event.target.closest("select") || event.ctrlKey || event.metaKey || event.altKey) return;
    moves[event.key]?.();
  });
  addEventListener("popstate", show);
  show();
})();
