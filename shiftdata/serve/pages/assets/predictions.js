// The page of predictions: methods side by side, group by group, and every picture that any of them gets wrong.
"use strict";

(() => {
  const { page, load, make, state, remember, number, tile, say, lines, legend, shade } = shiftdata;
  const get = (id) => document.getElementById(id);
  const { methods, nuisances } = page;
  const every = 2 ** methods.length - 1;
  const labelName = (at) => page.labels.at(at);  // -1 is the last, unknown
  const groupName = (group) => `${labelName(Math.floor(group / nuisances.length))} / ${nuisances[group % nuisances.length]}`;
  const percent = (share) => `${Math.round(100 * share)} %`;
  const link = (changes) => `#${new URLSearchParams(Object.entries({ ...state(), ...changes }).filter(([, value]) => value != null && value !== ""))}`;

  /** Which examples can be chosen: a name, and a test of the methods that are wrong, as bits. */
  const filters = new Map([
    ["any", methods.length > 1 ? "wrong by any method" : "wrong", (wrong) => wrong],
    ...(methods.length > 1 ? methods.map((name, at) => [`wrong-${at}`, `wrong by ${name}`, (wrong) => wrong >> at & 1]) : []),
    ...(methods.length > 1 ? [["all", "wrong by all", (wrong) => wrong === every], ...methods.map((name, at) => [`only-${at}`, `only ${name} right`, (wrong) => wrong === (every ^ 1 << at)])] : []),
    ...(methods.length > 2 ? methods.map((name, at) => [`not-${at}`, `only ${name} wrong`, (wrong) => wrong === 1 << at]) : []),
    ["right", "right by all", (wrong) => !wrong],
  ].map(([value, text, fits]) => [value, { text, fits }]));

  /** Run a drawing only if what it shows has changed, so that what has the focus stays. */
  const drawn = {};
  const changed = (name, ...parts) => drawn[name] !== (drawn[name] = JSON.stringify(parts));
  let most = 200;

  function showList() {
    const { by, sort = "", baseline = 0, q = "", group = page.first } = state();
    if (changed("list", by, sort, baseline, q, most)) {
      const rows = new Map();
      for (const [label, nuisance, n, ...right] of page.groups) {
        const at = label * nuisances.length + nuisance;
        const [key, name, to] = by === "label" ? [label, labelName(label), { by: null, q: `${labelName(label)} / ` }]
          : by === "nuisance" ? [nuisance, nuisances[nuisance], { by: null, q: ` / ${nuisances[nuisance]}` }] : [at, groupName(at), { group: at }];
        if (!name.toLowerCase().includes(q.toLowerCase())) continue;
        const row = rows.get(key) || { key, name, to, n: 0, right: methods.map(() => 0) };
        row.n += n;
        right.forEach((count, method) => { row.right[method] += count; });
        rows.set(key, row);
      }
      const gain = (row) => row.right.map((count) => (count - row.right[baseline]) / row.n);
      const rank = sort === "difference" ? (row) => -Math.max(...gain(row).map(Math.abs)) : (row) => (sort ? row.right[sort] : Math.min(...row.right)) / row.n;
      const sorted = [...rows.values()].sort((a, b) => rank(a) - rank(b) || b.n - a.n);
      get("list").replaceChildren(legend("0 to 100 % right"), make("table", { class: "heat" }, make("thead", {}, make("tr", {}, ...[by === "label" ? "label" : by ? page.nuisance : "group", ...methods, "rows"].map((text) => make("th", { scope: "col" }, text)))),
        make("tbody", {}, ...sorted.slice(0, most).map((row) => make("tr", {}, make("th", { scope: "row" }, make("a", { href: link({ ...row.to, page: null, example: null }), "data-group": by ? null : row.key, on: { click: (event) => follow(event, row.to) } }, row.name)),
          ...row.right.map((count, method) => {
            const points = Math.round(100 * gain(row)[method]);
            return make("td", { class: shade(count / row.n) }, `${Math.round((100 * count) / row.n)} `, method === Number(baseline) ? null : make("small", {}, points > 0 ? `+${points}` : points < 0 ? `−${-points}` : "="));
          }), make("td", { class: "plain" }, number(row.n)))))));
      get("more").hidden = sorted.length <= most;
      if (!sorted.length) get("list").replaceChildren(make("p", {}, "No name contains this."));
    }
    for (const node of get("list").querySelectorAll("[data-group]")) node.ariaCurrent = node.dataset.group === String(group) ? "true" : null;
  }

  /** Go to another view of the page; the address it was drawn with may be older than other choices. */
  function follow(event, changes) {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    remember({ page: null, example: null, ...changes }, { push: true });
    show();
  }

  /** The examples of a group that fit the filter: a page of them, of which only their parts are loaded. */
  async function showGroup() {
    const { group = page.first, filter = "any", page: at = 0 } = state();
    if (!changed("group", group, filter, at)) return;
    get("gallery").ariaBusy = "true";
    const { patterns, ends, origins } = await load(`groups/${group}-0`);
    const total = patterns.reduce((sum, [, pictures]) => sum + pictures, 0);
    const [, , n, ...right] = page.groups.find(([label, nuisance]) => label * nuisances.length + nuisance === Number(group));
    const places = [];
    let first = 0;
    for (const [wrong, pictures] of patterns) {
      if (filters.get(filter)?.fits(wrong)) for (let place = first; place < first + pictures; place++) places.push([place, wrong]);
      first += pictures;
    }
    const mine = places.slice(at * page.part, (Number(at) + 1) * page.part);
    const parts = new Map(await Promise.all([...new Set(mine.map(([place]) => Math.floor(place / page.part)))].map(async (part) => [part, await load(`groups/${group}-${part}`)])));
    if (drawn.group !== JSON.stringify([group, filter, at])) return;
    const again = get("group").textContent !== "";
    get("group").textContent = groupName(group);
    get("group-about").replaceChildren(`${number(n)} rows${origins < n ? ` of ${number(origins)} origins` : ""}. Right, with 95 % interval: `,
      methods.map((name, method) => `${name} ${percent(right[method] / n)} (${ends[method].map((end) => Math.round(100 * end)).join(" to ")})`).join(", "));
    const counted = (fits) => patterns.reduce((sum, [wrong, , rows]) => sum + (fits(wrong) ? rows : 0), 0);
    const choice = get("choice").elements;
    choice.filter.replaceChildren(...[...filters].filter(([value, { fits }]) => counted(fits) || value === filter).map(([value, { text, fits }]) => make("option", { value }, `${text} (${number(counted(fits))})`)));
    choice.filter.value = filter;
    const pages = Math.ceil(places.length / page.part);
    choice.page.replaceChildren(...Array.from({ length: pages }, (_, one) => make("option", { value: one || "" }, `${one + 1} of ${number(pages)}`)));
    choice.page.value = Number(at) || "";
    choice.page.parentElement.hidden = pages < 2;
    get("examples").replaceChildren(...mine.map(([place, wrong]) => {
      const [part, within] = [Math.floor(place / page.part), place % page.part];
      const [key, taken, severity, times, split, more] = parts.get(part).examples[within];
      const picture = (side) => tile(`data/groups/${group}-${part}.webp`, within, page.columns, Math.min(page.part, total - part * page.part), side);
      return card({ group, wrong, key, taken, severity, times, split, more, picture });
    }));
    if (!mine.length) get("examples").append(make("li", {}, "No example of this group fits."));
    get("gallery").ariaBusy = "false";
    if (again && get("gallery").getBoundingClientRect().top > 0.8 * innerHeight) get("gallery").scrollIntoView();
    say(`${groupName(group)}: ${places.length} examples, ${filters.get(filter)?.text}`);
  }

  const texts = (value) => (typeof value === "string" ? value : value ? Object.entries(value).map(([name, of]) => `${name} ${of}`).join("\n") : "");

  /** What each method says of an example: a mark, and what it takes it for if that is wrong. */
  const said = ({ wrong, taken }) => methods.map((name, at) => (wrong >> at & 1 ? [name, "bad", "✗", labelName(taken[at])] : [name, "good", "✓", ""]));

  function card(row) {
    const about = [page.steps.length && row.severity != null ? `severity ${row.severity}` : "", row.times > 1 ? `drawn ${row.times} times` : ""].filter(Boolean).join(", ");
    const heard = said(row).map(([name, , mark, label]) => `${name} ${mark === "✓" ? "right" : `wrong: ${label}`}`).join(", ");
    return make("li", { class: page.pictures ? null : "wide-card" }, make("a", { href: link({ example: row.key }), title: row.key, "aria-label": `${groupName(row.group)}, ${row.key}; ${heard}${about && `; ${about}`}`,
      on: { click: (event) => { event.preventDefault(); remember({ example: row.key }, { push: true }); open(row); } } },
    page.pictures ? row.picture(80) : make("span", { class: "text" }, texts(row.more) || row.key),
    ...said(row).map(([name, kind, mark, label]) => make("span", { class: `mark ${kind}` }, make("span", { class: "soft" }, name), make("span", {}, `${mark} ${label}`))),
    about ? make("span", { class: "under" }, about) : null));
  }

  /** An example enlarged, with all that is known of it. */
  function open(row) {
    const copy = (text) => make("button", { type: "button", class: "copy", "data-copy": text, "aria-label": `copy ${text.slice(0, 60)}` }, "copy");
    const code = `import shiftdata as sd\n\nds = sd.load_dataset(\n    "${page.dataset}", "${page.base}", split="${row.split}",\n    streaming=True, filters=[("key", "==", "${row.key}")],\n)\nexample = next(iter(ds))`;
    const known = [["label", labelName(Math.floor(row.group / nuisances.length))], [page.nuisance, nuisances[row.group % nuisances.length]], ["severity", page.steps.length ? row.severity : null], ["drawn", row.times > 1 ? `${row.times} times` : null], ["key", make("span", {}, make("span", { class: "mono" }, row.key), " ", copy(row.key))],
      ...said(row).map(([name, kind, mark, label]) => [name, make("span", { class: kind }, mark === "✓" ? "✓ right" : `✗ ${label}`)])];
    get("example-title").textContent = groupName(row.group);
    get("whole").replaceChildren(...(!page.pictures ? [make("blockquote", {}, texts(row.more))] : row.more ? [make("img", { src: `data/${row.more}`, alt: `${groupName(row.group)}, ${row.key}` })] : [row.picture(240), make("p", { class: "small soft" }, "A small copy: the code loads the whole picture.")]));
    get("facts").replaceChildren(make("dl", { class: "facts" }, ...known.filter(([, value]) => value != null).flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)])),
      ...(page.dataset ? [make("pre", { tabindex: 0 }, code), copy(code)] : []),
      ...(page.gallery ? [" ", make("a", { href: `${page.gallery}/example.html#${new URLSearchParams({ base: page.base, key: row.key })}` }, "Its page in the dataset, with other rows of its origin")] : []));
    if (!get("example").open) get("example").showModal();
  }
  get("example").addEventListener("close", () => remember({ example: null }));

  /** What is taken for what, by all methods: loaded when it is unfolded. */
  let mostConfused = 15;
  async function showConfusions() {
    const { rows, most: kept } = await load("confusions");
    const z = get("confusions").querySelector("select").value;
    const counts = new Map();
    for (const [nuisance, label, to, ...times] of rows) {
      if (z !== "" && nuisance !== Number(z)) continue;
      const row = counts.get(`${label},${to}`) || [labelName(label), labelName(to), ...methods.map(() => 0)];
      counts.set(`${label},${to}`, row.map((cell, at) => (at < 2 ? cell : cell + times[at - 2])));
    }
    const sorted = [...counts.values()].sort((a, b) => Math.max(...b.slice(2)) - Math.max(...a.slice(2)));
    get("confused").replaceChildren(make("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": "What is taken for what" }, make("table", {}, make("thead", {}, make("tr", {}, ...["is", "taken for", ...methods].map((text, at) => make("th", { scope: "col", class: at > 1 ? "n" : null }, text)))),
      make("tbody", {}, ...sorted.slice(0, mostConfused).map(([label, to, ...times]) => make("tr", {}, make("th", { scope: "row" }, label), make("td", {}, to), ...times.map((count) => make("td", { class: "n" }, number(count)))))))),
    ...(sorted.length > mostConfused ? [make("button", { type: "button", on: { click: () => { mostConfused += 50; showConfusions(); } } }, "Show more")] : []),
    ...(rows.length === kept ? [make("p", { class: "small soft" }, `Of the ${number(kept)} most frequent.`)] : []));
  }

  async function show() {
    const known = state();
    for (const { name, value, form } of [...get("order").elements]) if ((known[name] ?? "") !== value) form.elements[name].value = known[name] ?? "";
    showList();
    await showGroup().catch((error) => { drawn.group = null; get("group-about").textContent = error.message; say(error.message); });
    const shown = [...get("examples").querySelectorAll("a")].find(({ title }) => title === known.example);
    if (!known.example) get("example").close();
    else if (shown && !get("example").open) shown.click();
  }
  page.first = page.groups[0][0] * nuisances.length + page.groups[0][1];
  for (const id of ["order", "choice"]) {
    get(id).addEventListener("submit", (event) => event.preventDefault());
    get(id).addEventListener("input", ({ target }) => { remember({ page: null, [target.name]: target.value }); show(); });
  }
  get("more").addEventListener("click", () => { most += 200; showList(); });
  get("confusions").addEventListener("toggle", showConfusions);
  get("confusions").addEventListener("input", showConfusions);
  if (page.steps.length) get("along").append(...Object.entries(page.along).map(([shift, curves]) => lines(`accuracy under ${shift}`, methods.map((name, at) => ({ name, points: page.steps.map((step, place) => [step, curves[at][place]]).filter(([, value]) => value != null) })), page.steps, { low: 0, high: 1 })));
  addEventListener("popstate", show);
  show();
})();
