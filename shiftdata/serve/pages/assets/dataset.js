// The page of a dataset: its matrix of groups, the rows of a group, and how many rows tasks have in each group.
"use strict";

(() => {
  const { page, load, ask, make, state, remember, number, nuisanceName, groupName, base, tile, say, heat } = shiftdata;
  const get = (id) => document.getElementById(id);
  let ofMatrix = null;

  // Pictures -----------------------------------------------------------------------------------------------
  function columnsOf(of) {
    const all = [...page.nuisances.keys()];
    const used = all.filter((x) => page.labels.some((_, y) => of.counts[y][x + 1]));
    return of.counts.some((row) => row[0]) ? [-1, ...used] : used;
  }

  function showMatrix() {
    const { base: name, severity } = state();
    const of = base(name);
    const xs = columnsOf(of);
    const steps = of.severities.length > 1 ? of.severities : [];
    const step = Math.max(0, steps.indexOf(Number(severity ?? steps[steps.length - 1])));
    get("base").value = of.name;
    get("severity-field").hidden = !steps.length;
    if (steps.length) {
      get("severity").max = steps.length - 1;
      get("severity").value = step;
      get("severity-now").textContent = steps[step];
    }
    const middle = median(of.counts.flat());
    ofMatrix = shiftdata.matrix(get("matrix"), {
      ys: page.labels, xs: xs.map(nuisanceName), side: page.pictures && page.modality === "image" ? 68 : 54,
      about: (y, x) => `${groupName(y, xs[x])}: ${number(of.counts[y][xs[x] + 1])} rows`,
      square(y, x) {
        const count = of.counts[y][xs[x] + 1];
        if (!count) return make("span", { class: "gap" });
        if (!page.pictures || page.modality !== "image") {
          return make("span", { class: `count ${departure(count, middle)}` }, number(count));
        }
        const url = `${page.here}data/covers/${of.name}-${y}-${step}.webp${page.live ? `?v=${page.version}` : ""}`;
        return tile(url, x, of.wide, xs.length, 64);
      },
      open: (y, x) => of.counts[y][xs[x] + 1] && shiftdata.choose({ label: y, nuisance: xs[x] }),
    });
  }

  // How many rows each group has in the sets of a task ------------------------------------------------------
  /** The rows of a set in a group; nuisance -1: those of the label that are untouched. */
  const inGroup = (set, y, x) => (x < 0 ? set.untouched[y] : set.counts[y * page.nuisances.length + x]);

  const median = (counts) => counts.filter(Boolean).sort((a, b) => a - b)[Math.floor(counts.filter(Boolean).length / 2)];

  /** The shade of a group: pale where it has as many rows as the middle group, the deeper the further from it, up to 8 times. */
  function departure(count, middle) {
    const doublings = Math.log2(count / middle);
    const strength = Math.min(1, Math.max(0, Math.abs(doublings) - 0.3) / 2.7);
    return doublings < 0 ? `fewer s${2 + Math.round(12 * strength)}` : `s${2 + Math.round(18 * strength)}`;
  }

  function heatOf(set, xs, ys) {
    const middle = median(ys.flatMap((y) => xs.map((x) => inGroup(set, y, x))));
    const caption = `${set.name} (${set.roles.join(", ")}): ${number(set.examples)} rows of ${number(set.origins)} origins`
      + (set.empty ? `, ${number(set.empty)} groups empty` : "");
    return heat(ys.map((y) => [y, page.labels[y]]), xs.map((x) => [x, nuisanceName(x)]), (y, x) => {
      const count = inGroup(set, y, x);
      const text = count < 10000 ? String(count) : `${Math.round(count / 1000)}k`;
      return count ? make("td", { class: departure(count, middle), title: `${groupName(y, x)}: ${number(count)}` }, text) : make("td");
    }, caption);
  }

  /** The task that the address names, of the default base unless it says another; else the first of the list. */
  function chosenTask() {
    const { task, taskbase } = state();
    return task == null && taskbase == null ? { task: page.tasks[0].words, taskbase: page.tasks[0].base }
      : { task: task ?? "", taskbase: taskbase ?? page.bases[0].name };
  }

  /** No words are the sets of a base as they are, which only the base's name in the address can say. */
  const rememberTask = (task, options) => remember({ task, taskbase: chosenTask().taskbase }, options);

  function showCounts(counts) {
    const ofAll = [-1, ...page.nuisances.keys()];
    const any = (y, x) => counts.sets.some((set) => inGroup(set, y, x));
    const ys = [...page.labels.keys()].filter((y) => ofAll.some((x) => any(y, x)));
    const xs = ofAll.filter((x) => ys.some((y) => any(y, x)));
    get("task-title").textContent = counts.task;
    const leaks = counts.leaks ? `Leak: ${number(counts.leaks)} originals are in sets that should share none.` : `No leak: no original ${{ image: "picture", text: "text" }[page.modality] || "row"} is in both training and test data.`;
    get("task-notes").textContent = [leaks, ...counts.notes.map((note) => `${note[0].toUpperCase()}${note.slice(1)}.`), ...(counts.more ? [`${counts.more} more sets are not shown.`] : [])].join(" ");
    get("task-code").textContent = `import shiftdata as sd\n\ntask = sd.task("${page.name}", ${counts.words ? JSON.stringify(counts.words) : "None"}, base="${chosenTask().taskbase}", on_empty="report")`;
    const ramp = [1 / 8, 1 / 3, 1, 3, 8].map((times) => make("span", { class: departure(times, 1) }));
    get("task-legend").replaceChildren(make("p", { class: "small soft" }, make("span", { class: "ramp", "aria-hidden": "true" }, ...ramp),
      "Fewer rows than the median group of the set, as many, more: the deepest colours are 8 times; hatched: none."));
    get("heats").replaceChildren(...counts.sets.map((set) => heatOf(set, xs, ys)));
    say(`${counts.task}: ${counts.sets.map((set) => `${set.name} ${set.examples}`).join(", ")}`);
  }

  let latest = 0;
  async function showTask() {
    const mine = ++latest;
    const { task, taskbase } = chosenTask();
    const known = page.tasks.findIndex((one) => one.words === task && one.base === taskbase);
    get("task").value = known < 0 ? "" : known;
    if (get("words") && document.activeElement !== get("words")) get("words").value = task;
    get("task-error").textContent = "";
    try {
      const counts = page.live ? await ask("counts.json", { base: taskbase, task }) : known < 0
        ? Promise.reject(new Error("without a server only the tasks of the list are here: `shiftdata serve` makes any")) : await load(`counts/${known}`);
      if (mine === latest) showCounts(await counts);
    } catch (error) {
      if (mine === latest) { get("task-error").textContent = error.message; say(error.message); }
    }
  }

  // What is clicked and typed -------------------------------------------------------------------------------
  const listen = (id, event, act) => get(id)?.addEventListener(event, act);
  listen("base", "change", (event) => { remember({ base: event.target.value, label: null, nuisance: null, step: null }); showAll(); });
  listen("severity", "input", (event) => {
    const steps = base(state().base).severities;
    remember({ severity: steps[event.target.value] });
    get("severity-now").textContent = steps[event.target.value];
    showMatrix();
  });
  listen("task", "change", (event) => {
    const chosen = page.tasks[event.target.value];
    if (chosen) { remember({ task: chosen.words, taskbase: chosen.base }); showTask(); }
  });
  listen("make-task", "submit", (event) => { event.preventDefault(); rememberTask(get("words").value.trim(), { push: true }); showTask(); });
  const showAll = () => { showMatrix(); shiftdata.showRows(); };
  addEventListener("popstate", () => { showAll(); showTask(); });

  showAll();
  showTask();
})();
