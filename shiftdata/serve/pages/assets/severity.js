// One origin along the severity of a shift, two shifts side by side.
"use strict";

(() => {
  const { page, make, state, remember, rows, picture, exampleUrl, nuisanceName, base, say } = shiftdata;
  const get = (id) => document.getElementById(id);
  const name = (page.bases.find((one) => one.severities.length > 1) || page.bases[0]).name;
  const steps = base(name).severities;
  const many = steps.length;
  let shown = [null, null];
  let playing = null;

  const now = () => {
    const { label = 0, a = 0, b = Math.min(1, page.nuisances.length - 1), origin = 0, at = 0 } = state();
    return { label: Number(label), a: Number(a), b: Number(b), origin: Number(origin), at: Math.min(many - 1, Number(at)) };
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

  function shape(side) {
    const { at, a, b } = now();
    const of = shown[side];
    const box = get(`side-${"ab"[side]}`);
    const row = of?.rows.find((one) => one.severity === steps[at]);
    const nuisance = side ? b : a;
    const under = row ? [`${nuisanceName(nuisance)}, severity ${steps[at]}. `, make("a", { href: exampleUrl(name, row.key) }, row.key)]
      : [`${nuisanceName(nuisance)} has no row at severity ${steps[at]}: it was filtered out, or is not on this page`];
    box.replaceChildren(...(row ? [picture(name, row, 300, `${nuisanceName(nuisance)} at severity ${steps[at]}`)] : [make("span", { class: "missing" }, "none")]),
      make("figcaption", {}, ...under));
  }

  function showStep() {
    const { at } = now();
    get("at").value = at;
    get("at").setAttribute("aria-valuetext", `severity ${steps[at]}`);
    get("at-now").textContent = steps[at];
    shape(0);
    shape(1);
  }

  async function show() {
    const { label, a, b, origin } = now();
    for (const [id, value] of [["label", label], ["a", a], ["b", b]]) get(id).value = value;
    try {
      const first = await trajectory(label, a, origin);
      shown = [first, await trajectory(label, b, origin, first.origin)];
      const other = shown[1].origin === shown[0].origin ? "" : ` and ${shown[1].origin ?? "none"}`;
      get("origin-now").textContent = `${shown[0].origin ?? "none"}${other} (${(origin % Math.max(1, shown[0].count)) + 1} of ${shown[0].count})`;
      get("error").textContent = "";
    } catch (error) {
      get("error").textContent = error.message;
    }
    showStep();
  }

  const go = (change) => { const { at } = now(); remember({ at: Math.max(0, Math.min(many - 1, at + change)) }); showStep(); };
  const turn = (change) => { const { origin } = now(); remember({ origin: Math.max(0, origin + change) }); show(); };
  function play() {
    clearInterval(playing);
    const pressed = get("play").getAttribute("aria-pressed") === "true";
    get("play").setAttribute("aria-pressed", String(!pressed));
    if (!pressed) playing = setInterval(() => { const { at } = now(); remember({ at: (at + 1) % many }); showStep(); }, 700);
    say(pressed ? "stopped" : "playing");
  }
  get("at").max = many - 1;
  get("at").addEventListener("input", (event) => { remember({ at: event.target.value }); showStep(); });
  for (const id of ["label", "a", "b"]) {
    const list = id === "label" ? page.labels : page.nuisances;
    get(id).append(...list.map((one, place) => make("option", { value: place }, one)));
    get(id).addEventListener("change", (event) => { remember({ [id]: event.target.value, ...(id === "label" ? { origin: 0 } : {}) }); show(); });
  }
  get("play").addEventListener("click", play);
  get("before").addEventListener("click", () => turn(-1));
  get("after").addEventListener("click", () => turn(1));
  addEventListener("keydown", (event) => {
    if (event.target.closest("select, input[type=text]") || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.id !== "at" && event.key === "ArrowLeft") go(-1);
    else if (event.target.id !== "at" && event.key === "ArrowRight") go(1);
    else if (event.key === "n") turn(1);
    else if (event.key === "p") turn(-1);
  });
  addEventListener("popstate", show);
  show();
})();
