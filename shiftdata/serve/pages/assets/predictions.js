// The page of predictions: worst groups with their pictures, accuracy by group, confusions, two methods.
"use strict";

(() => {
  const { page, load, make, state, remember, number, tile, say, lines, heat, legend, shade } = shiftdata;
  const get = (id) => document.getElementById(id);
  const unknown = page.labels.length - 1;
  const labelName = (at) => page.labels[at < 0 ? unknown : at];
  const name = (label, nuisance) => `${labelName(label)} / ${page.nuisances[nuisance]}`;
  const groupOf = (label, nuisance) => label * page.nuisances.length + nuisance;
  const percent = (share) => `${Math.round(100 * share)} %`;
  const method = () => page.methods[Number(state().method ?? 0)] || page.methods[0];
  const sorted = (one) => [...one.groups].sort((a, b) => a[3] / a[2] - b[3] / b[2] || b[2] - a[2]);
  let shownGroups = 10;
  let shownPairs = 6;
  let shownConfusions = 12;

  /** What a group is mostly taken for. */
  function taken(one, label, nuisance) {
    return one.confusions.filter(([z, y, to]) => z === nuisance && y === label && to !== label)
      .sort((a, b) => b[3] - a[3]).slice(0, 3).map(([, , to, count]) => `${labelName(to)} ${number(count)} times`).join(", ");
  }

  /** An example of a group: its picture or text, and what each method takes it for. */
  function shownExample(label, nuisance, one) {
    const mine = page.methods.indexOf(method());
    const said = page.methods.map(({ name: of }, at) => `${page.methods.length > 1 ? `${of}: ` : ""}${labelName(one.predicted[at])}`).join("\n");
    const picture = page.pictures ? tile(`data/groups/${one.part}.webp`, one.at, page.columns, one.of, 96, `${name(label, nuisance)}, taken for ${labelName(one.predicted[mine])}`)
      : make("span", { class: "text" }, typeof one.text === "string" ? one.text : one.text ? JSON.stringify(one.text) : one.key);
    const times = one.times > 1 ? ` ×${one.times}` : "";
    const under = make("span", { class: `under ${one.right[mine] ? "good" : "bad"}` }, `${one.right[mine] ? "✓" : "✗"} ${labelName(one.predicted[mine])}${page.steps.length ? ` at ${one.severity}` : ""}${times}`);
    return make("li", { title: `${one.key}\n${said}` }, make("span", { class: "card-of" }, picture, under));
  }

  /** The examples of a group that fit a test, part by part: each part is loaded when its turn comes. */
  async function* examplesOf(label, nuisance, fits, parts) {
    const group = groupOf(label, nuisance);
    for (let part = 0; part < Math.min(parts, page.parts[group] ?? 0); part++) {
      const { examples } = await load(`shown/${group}-${part}`);
      for (const [at, one] of examples.entries()) if (fits(one)) yield { ...one, at, of: examples.length, part: `${group}-${part}` };
    }
  }

  /** A list of the `total` examples of a group that fit a test: the first `most`, and a button for more of them. */
  async function gallery(title, label, nuisance, fits, total, most, parts = Infinity) {
    const left = examplesOf(label, nuisance, fits, parts);
    const list = make("ul", { class: "row", tabindex: -1 });
    const head = make("p", { class: "small soft" });
    const button = make("button", { type: "button", class: "copy", on: { click: () => add(page.more, true) } });
    let shown = 0;
    async function add(count, asked = false) {
      button.disabled = true;
      let done = false;
      for (let added = 0; added < count && shown < total && !done; added++) {
        const next = await left.next();
        done = Boolean(next.done);
        if (done) break;
        shown += next.value.times;
        list.append(shownExample(label, nuisance, next.value));
      }
      head.textContent = `${title}: ${number(shown)} of ${number(total)}`;
      button.textContent = `Show ${number(Math.min(page.more, total - shown))} more`;
      button.setAttribute("aria-label", `${button.textContent} of ${name(label, nuisance)}, ${title}`);
      button.disabled = false;
      button.hidden = done || shown >= total || parts === 1;
      if (asked) { say(head.textContent); if (button.hidden) list.focus({ preventScroll: true }); }
    }
    await add(most);
    return shown ? make("div", {}, head, list, button) : null;
  }

  async function card(one, [label, nuisance, n, right, low, high, origins], level = "h3") {
    const confused = taken(one, label, nuisance);
    const mine = page.methods.indexOf(one);
    return make("article", { class: "group" },
      make(level, {}, name(label, nuisance)),
      make("p", { class: "small" }, `${percent(right / n)} [${Math.round(100 * low)}, ${Math.round(100 * high)}] of ${number(n)}${origins < n ? ` (${number(origins)} origins)` : ""} right${confused ? `; taken for ${confused}` : ""}`),
      make("div", { class: "sides" }, await gallery("wrong", label, nuisance, (row) => !row.right[mine], n - right, page.first.wrong),
        await gallery("right", label, nuisance, (row) => row.right[mine], right, page.first.right, 1)));
  }

  /** The worst groups; those that are there stay as they are when `more` follow. */
  async function showWorst(more = 0) {
    const one = method();
    const before = more ? shownGroups : 0;
    shownGroups += more;
    const cards = await Promise.all(sorted(one).slice(before, shownGroups).map((group) => card(one, group)));
    if (one !== method()) return;
    if (!more) get("worst-list").replaceChildren();
    get("worst-list").append(...cards);
    get("more").hidden = shownGroups >= one.groups.length;
  }

  function showMatrix() {
    const one = method();
    const known = new Map(one.groups.map((group) => [groupOf(group[0], group[1]), group]));
    const ys = [...new Set(one.groups.map(([label]) => label))].map((y) => [y, labelName(y)]);
    const xs = [...new Set(one.groups.map(([, nuisance]) => nuisance))].sort((a, b) => a - b).map((x) => [x, page.nuisances[x]]);
    get("group-matrix").replaceChildren(legend("0 to 100 % of a group right"), heat(ys, xs, (y, x) => {
      const group = known.get(groupOf(y, x));
      if (!group) return make("td");
      const [, , n, right] = group;
      const text = `${name(y, x)}: ${percent(right / n)} of ${number(n)}`;
      const button = make("button", { type: "button", title: text, "aria-label": text, on: { click: () => { remember({ label: y, nuisance: x }, { push: true }); showChosen(true); } } }, String(Math.round((100 * right) / n)));
      return make("td", { class: shade(right / n) }, button);
    }, `${one.name}: accuracy in per cent`));
  }

  async function showChosen(focus) {
    const { label, nuisance } = state();
    const one = method();
    const group = one.groups.find(([y, x]) => y === Number(label) && x === Number(nuisance));
    get("chosen").hidden = label == null || !group;
    if (label == null || !group) return;
    get("chosen").replaceChildren(await card(one, group));
    say(`${name(group[0], group[1])}: ${percent(group[3] / group[2])} right`);
    if (focus) { const title = get("chosen").querySelector("h3"); title.tabIndex = -1; title.focus(); }
  }

  function showConfusion() {
    const one = method();
    const wanted = state().z;
    get("nuisance").value = wanted ?? "";
    const counts = new Map();
    for (const [z, y, to, count] of one.confusions) {
      if (wanted != null && z !== Number(wanted)) continue;
      counts.set(`${y},${to}`, (counts.get(`${y},${to}`) || 0) + count);
    }
    const pairs = [...counts].map(([key, count]) => [...key.split(",").map(Number), count]);
    const totals = new Map();
    for (const [y, , count] of pairs) totals.set(y, (totals.get(y) || 0) + count);
    const ofWrong = pairs.filter(([y, to]) => y !== to).sort((a, b) => b[2] - a[2]);
    const wrong = ofWrong.slice(0, shownConfusions);
    get("confusion-list").replaceChildren(make("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": "largest confusions" }, make("table", {}, make("caption", {}, "Largest confusions"), make("thead", {}, make("tr", {}, ...["is", "taken for", "times", "share"].map((text) => make("th", { scope: "col" }, text)))),
      make("tbody", {}, ...wrong.map(([y, to, count]) => make("tr", {}, make("th", { scope: "row" }, labelName(y)), make("td", {}, labelName(to)), make("td", { class: "n" }, number(count)), make("td", { class: "n" }, percent(count / totals.get(y)))))))));
    get("more-confusions").hidden = wrong.length === ofWrong.length;
    const ys = [...totals.keys()].sort((a, b) => a - b).map((y) => [y, labelName(y)]);
    const seen = [...new Set(pairs.map(([, to]) => to))].sort((a, b) => a - b).map((x) => [x, labelName(x)]);
    get("confusion-matrix").replaceChildren(...(ys.length > 60 ? [make("p", {}, `${ys.length} labels are too many for a matrix: the list has the largest confusions.`)] : [legend("0 to 100 % of a label's rows"), heat(ys, seen, (y, x) => {
      const count = counts.get(`${y},${x}`);
      return count ? make("td", { class: shade(count / totals.get(y)), title: `${labelName(y)} taken for ${labelName(x)}: ${number(count)}` }, String(count)) : make("td");
    }, `${one.name}${wanted != null ? ` on ${page.nuisances[wanted]}` : ""}: labels in rows, predictions in columns`)]));
  }

  async function showPairs(more = 0) {
    const box = get("pair-counts");
    if (!box) return;
    const before = more ? shownPairs : 0;
    shownPairs += more;
    const pair = page.pairs[Number(state().pair ?? 0)];
    get("pair").value = state().pair ?? 0;
    const kinds = ["both right", `only ${pair.first} right`, `only ${pair.second} right`, "both wrong"];
    const total = pair.counts.reduce((a, b) => a + b, 0);
    const p = pair.p < 0.0001 ? "below 0.0001" : pair.p.toPrecision(2);
    const test = pair.origins == null
      ? `McNemar's exact test of the ${number(pair.counts[1] + pair.counts[2])} examples that one of them has right: p ${p}. It is about these two trainings and test pictures, which it takes for independent.`
      : `Paired test over the ${number(pair.origins)} origins on which they differ, each of which is one observation (McNemar's where an origin has one example): p ${p}. It is about these two trainings and origins, which it takes for independent.`;
    box.replaceChildren(make("table", {}, make("tbody", {}, ...kinds.map((kind, at) => make("tr", {}, make("th", { scope: "row" }, kind), make("td", { class: "n" }, number(pair.counts[at])), make("td", { class: "n" }, percent(pair.counts[at] / total)))))),
      make("p", { class: "small soft" }, test));
    const [a, b] = [pair.first, pair.second].map((of) => page.methods.findIndex((one) => one.name === of));
    const groups = [...pair.groups].filter((one) => one[3] + one[4]).sort((x, y) => Math.abs(y[3] - y[4]) - Math.abs(x[3] - x[4]));
    get("more-pairs").hidden = shownPairs >= groups.length;
    const cards = await Promise.all(groups.slice(before, shownPairs).map(async ([label, nuisance, both, first, second, none]) => make("article", { class: "group" }, make("h4", {}, name(label, nuisance)),
      make("p", { class: "small" }, `both right ${both}, only ${pair.first} ${first}, only ${pair.second} ${second}, both wrong ${none}`),
      make("div", { class: "sides" }, ...(await Promise.all([
        gallery(`only ${pair.first} right`, label, nuisance, (row) => row.right[a] && !row.right[b], first, 6),
        gallery(`only ${pair.second} right`, label, nuisance, (row) => !row.right[a] && row.right[b], second, 6)]))))));
    if (!more) get("pair-groups").replaceChildren();
    get("pair-groups").append(...cards);
  }

  function showAlong() {
    const box = get("along-charts");
    if (!box) return;
    const shifts = Object.keys(page.methods[0].along);
    box.replaceChildren(...shifts.map((shift) => lines(`accuracy under ${shift}`, page.methods.map((one) => ({ name: one.name, points: one.along[shift].map((value, at) => [page.steps[at], value]).filter(([, value]) => value != null) })), page.steps, { low: 0, high: 1 })));
    const one = method();
    const known = Object.entries(one.failures);
    get("failures").replaceChildren(known.length ? make("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": "failure points" }, make("table", {}, make("caption", {}, `Trajectories of ${one.name}, by the severity at which each is classified wrongly first`),
      make("thead", {}, make("tr", {}, make("th", { scope: "col" }, page.nuisance), ...[...page.steps.map(String), "never"].map((text) => make("th", { scope: "col", class: "n" }, text)))),
      make("tbody", {}, ...known.map(([shift, counts]) => make("tr", {}, make("th", { scope: "row" }, shift), ...counts.map((count) => make("td", { class: "n" }, number(count)))))))) : make("p", {}, "Failure points need a task of the protocol `continuous`, with whole trajectories."));
  }

  function show() {
    get("method").value = state().method ?? 0;
    showWorst();
    showMatrix();
    showChosen(false);
    showConfusion();
    showPairs();
    showAlong();
  }
  get("method").addEventListener("change", (event) => { remember({ method: event.target.value }, { push: true }); show(); say(method().worst); });
  get("nuisance").append(...[...new Set(page.methods[0].groups.map(([, x]) => x))].sort((a, b) => a - b).map((x) => make("option", { value: x }, page.nuisances[x])));
  get("nuisance").addEventListener("change", (event) => { remember({ z: event.target.value }); showConfusion(); });
  get("pair")?.addEventListener("change", (event) => { remember({ pair: event.target.value }); showPairs(); });
  get("more").addEventListener("click", () => showWorst(20));
  get("more-confusions").addEventListener("click", () => { shownConfusions += 50; showConfusion(); });
  get("more-pairs")?.addEventListener("click", () => showPairs(20));
  addEventListener("popstate", show);
  show();
})();
