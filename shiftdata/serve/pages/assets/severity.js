// One original along the severity of a shift, two shifts below each other.
"use strict";

(() => {
  const { page, make, state, remember, rows, picture, exampleUrl, nuisanceName, base } = shiftdata;
  const get = (id) => document.getElementById(id);
  const name = (page.bases.find((known) => known.severities.length > 1) || page.bases[0]).name;
  const steps = base(name).severities;

  const now = () => {
    const { label = 0, a = 0, b = Math.min(1, page.nuisances.length - 1), origin = 0 } = state();
    return { label: Number(label), a: Number(a), b: Number(b), origin: Number(origin) };
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

  /** A line of a shift; untouched, an original looks the same under both, and is shown once. */
  function film(nuisance, { rows: mine, origin }, above) {
    const side = Math.max(48, Math.min(190, Math.floor((get("main").clientWidth - 140) / steps.length) - 10));
    return [make("th", { scope: "row" }, nuisanceName(nuisance)), ...steps.map((step) => {
      const row = mine.find((known) => known.severity === step);
      if (!row) return make("td", { class: "small soft" }, "filtered out, or not on this page");
      if (step === 0 && above?.origin === origin) return make("td", { class: "small soft" }, "as above");
      return make("td", {}, make("a", { href: exampleUrl(name, row.key), title: row.key }, picture(name, row, side, `${nuisanceName(nuisance)} at severity ${step}`)));
    })];
  }

  async function show() {
    const { label, a, b, origin } = now();
    for (const [id, value] of Object.entries({ label, a, b })) get(id).value = value;
    try {
      const first = await trajectory(label, a, origin);
      const second = await trajectory(label, b, origin, first.origin);
      const other = second.origin === first.origin ? "" : ` and ${second.origin ?? "none"}`;
      get("origin-now").textContent = `${first.origin ?? "none"}${other} (${(origin % Math.max(1, first.count)) + 1} of ${first.count})`;
      get("film-a").replaceChildren(...film(a, first));
      get("film-b").replaceChildren(...film(b, second, first));
      get("error").textContent = "";
    } catch (error) {
      get("error").textContent = error.message;
    }
  }

  const turn = (change) => { remember({ origin: Math.max(0, now().origin + change) }); show(); };
  get("steps").append(make("th", { scope: "col" }, "severity"), ...steps.map((step) => make("th", { scope: "col" }, String(step))));
  for (const id of ["label", "a", "b"]) {
    const list = id === "label" ? page.labels : page.nuisances;
    get(id).append(...list.map((text, place) => make("option", { value: place }, text)));
    get(id).addEventListener("change", (event) => { remember({ [id]: event.target.value, ...(id === "label" ? { origin: 0 } : {}) }); show(); });
  }
  get("before").addEventListener("click", () => turn(-1));
  get("after").addEventListener("click", () => turn(1));
  addEventListener("popstate", show);
  show();
})();
