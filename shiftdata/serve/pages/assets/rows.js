// The rows of a group, or all: as pictures, texts or a table; searched, in an order, by licence; selected rows as code.
"use strict";

(() => {
  const { page, make, number, labelName, nuisanceName, groupName, exampleUrl, base, rows, picture, state, remember, say } = shiftdata;
  const get = (id) => document.getElementById(id);
  const whole = (text) => (text == null ? null : Number(text));
  const VIEWS = { image: ["pictures", "table"], text: ["texts", "table"], table: ["table"] }[page.pictures ? page.modality : "table"];
  const SIZES = { pictures: 120, texts: 50, table: 100 };
  const LENGTHS = { image: ["smallest file first", "largest file first"], text: ["shortest first", "longest first"] }[page.modality];
  const steps = page.severities.length > 1;
  let picked = new Set();
  let pickedOf = null;
  let stop = new AbortController();

  // Columns that every row has, and how a page sorts what it holds itself ----------------------------------
  const COLUMNS = [
    { sort: "key", name: "key", of: (row) => row.key },
    { sort: "label", name: page.label, of: (row) => labelName(row.label) },
    { sort: page.nuisance, name: page.nuisance, of: (row) => nuisanceName(row.nuisance) },
    { sort: "split", name: "split", of: (row) => row.split, by: (row) => page.splits.indexOf(row.split) },
    ...(steps ? [{ sort: "severity", name: "severity", of: (row) => row.severity }] : []),
  ];
  const ENDS = [
    { sort: "origin", name: "origin", of: (row) => row.origin },
    { sort: "license", name: "licence", of: (row) => row.license },
    { name: "commercial use", of: (row) => row.commercial },
  ];
  const feature = (name) => ({ sort: name, name, of: (row) => row.text[name] });
  const featuresOf = (shown) => (page.modality === "table" ? Object.keys(shown[0]?.text || {}).map(feature) : []);
  const lengthOf = { sort: "length", of: (row) => row.length };

  function inOrder(known, sort) {
    const name = sort.replace(/^-/, "");
    const column = [...COLUMNS, ...ENDS, lengthOf, ...featuresOf(known)].find((one) => one.sort === name);
    const [value, sign] = [column.by || column.of, sort === name ? 1 : -1];
    return known.sort((one, two) => {
      const [a, b] = [value(one), value(two)];
      return (a == null) - (b == null) || sign * ((a > b) - (a < b));
    });
  }

  const wordsOf = (row) => [row.key, row.origin, labelName(row.label), nuisanceName(row.nuisance),
    ...(typeof row.text === "string" ? [row.text] : Object.values(row.text || {}))].join("\n").toLowerCase();

  /** What a server answers; a page without one looks through the rows that it holds. */
  async function answer(choice, from, count, signal) {
    if (page.live) return rows(choice, from, count, { signal });
    const held = (await rows(choice, 0, Infinity)).rows;
    const licenses = Object.fromEntries(held.map((row) => [row.license, row.commercial]));
    const kept = held.filter((row) => (choice.license == null || row.license === choice.license)
      && (choice.use == null || row.commercial === "yes") && wordsOf(row).includes((choice.q || "").trim().toLowerCase()));
    if (choice.sort) inOrder(kept, choice.sort);
    return { total: kept.length, held: held.length, rows: kept.slice(from, from + count), licenses, searches_examples: true };
  }

  // A row as a picture, a text, a line of a table -----------------------------------------------------------
  /** A text with what was searched for marked; texts stay texts. */
  function marked(text, q) {
    const [low, wanted, parts] = [text.toLowerCase(), (q || "").trim().toLowerCase(), []];
    if (!wanted || low.length !== text.length) return [text];
    let begin = 0;
    for (let at = low.indexOf(wanted); at >= 0; at = low.indexOf(wanted, begin)) {
      parts.push(text.slice(begin, at), make("mark", {}, text.slice(at, at + wanted.length)));
      begin = at + wanted.length;
    }
    return [...parts, text.slice(begin)];
  }

  const box = (row) => make("input", { type: "checkbox", "aria-label": `select ${row.key}`, checked: picked.has(row.key), value: row.key });
  const link = (choice, row, ...children) => make("a", { href: exampleUrl(choice.base, row.key) }, ...children);
  const severityOf = (row) => (steps && row.severity != null ? `severity ${row.severity}` : null);
  const joined = (...parts) => parts.filter((one) => one != null && one !== "").join(" · ");
  /** What the choice does not say already of the group of a row. */
  const unsaid = (choice, row) => joined(choice.label == null ? labelName(row.label) : null, choice.nuisance == null ? nuisanceName(row.nuisance) : null);

  const views = {
    pictures: (choice, shown) => make("ul", { class: "pics" }, ...shown.map((row) => {
      const about = joined(groupName(row.label, row.nuisance), row.split, severityOf(row));
      return make("li", {}, box(row), make("a", { href: exampleUrl(choice.base, row.key), title: `${row.key}\n${about}`, "aria-label": `${about}, ${row.key}` },
        picture(choice.base, row, 104), ...[unsaid(choice, row), joined(row.split, severityOf(row))].filter(Boolean).map((line) => make("span", { class: "under" }, line))));
    })),

    texts: (choice, shown, severalLicenses) => make("ul", { class: "texts" }, ...shown.map((row) => {
      const text = make("p", {}, ...marked(row.text, choice.q));
      text.classList.toggle("all", row.text.toLowerCase().indexOf((choice.q || "\n\n\n").toLowerCase()) > 300);  // a hit is never folded away
      const more = make("button", { type: "button", class: "more", "aria-expanded": "false", on: { click() {
        more.textContent = text.classList.toggle("all") ? "less" : "more";
        more.setAttribute("aria-expanded", text.classList.contains("all"));
      } } }, "more");
      const facts = joined(unsaid(choice, row), row.split, severityOf(row), severalLicenses ? row.license : null);
      const origin = choice.q && marked(row.origin, choice.q).length > 1 ? [" · origin ", ...marked(row.origin, choice.q)] : [];
      return make("li", {}, box(row), make("div", {}, text, more),
        make("div", { class: "small soft" }, make("span", {}, ...marked(facts, choice.q), ...origin), link(choice, row, ...marked(row.key, choice.q))));
    })),

    table(choice, shown) {
      const texts = page.modality === "text" && page.pictures ? [{ sort: "length", name: "text", of: (row) => row.text }] : [];
      const columns = [...COLUMNS, ...texts, ...featuresOf(shown), ...ENDS].map((one) => ({ ...one, digits: digitsOf(shown.map(one.of)) }));
      return make("table", { class: "results rows" }, make("thead", {}, make("tr", {}, ...columns.map(head))), make("tbody", {}, ...shown.map((row) => make("tr", {},
        ...columns.map((column) => {
          const value = column.of(row);
          const numeric = column.digits != null && typeof value === "number";
          const text = value == null ? "" : numeric ? value.toFixed(column.digits) : String(value);
          if (column.sort === "key") return make("th", { scope: "row" }, make("span", {}, box(row), link(choice, row, ...marked(text, choice.q))));
          return make("td", { class: column.digits != null ? "n" : null, title: text === String(value ?? "") && text.length < 40 ? null : String(value) }, ...marked(text, choice.q));
        })))));
    },
  };

  /** The decimals with which numbers of a column stand below each other, five digits of the largest; null for texts. */
  function digitsOf(values) {
    const numbers = values.filter((value) => value != null);
    if (!numbers.length || numbers.some((value) => typeof value !== "number")) return null;
    const most = Math.max(...numbers.map(Math.abs));
    const needed = Math.max(...numbers.map((value) => (/\.(\d+)/.exec(String(value))?.[1] || (Number.isInteger(value) ? "" : "......")).length));
    return Math.min(needed, Math.max(0, 4 - Math.floor(Math.log10(most || 1))), 9);
  }

  function head(column) {
    const { sort } = state();
    const now = sort === column.sort ? "ascending" : sort === `-${column.sort}` ? "descending" : null;
    const next = now === "ascending" ? `-${column.sort}` : now ? null : column.sort;
    const name = column.sort === "length" ? `${column.name}, by length` : column.name;
    const attributes = { scope: "col", class: column.digits != null ? "n" : null, "aria-sort": column.sort && now };
    if (!column.sort) return make("th", attributes, name);
    return make("th", attributes, make("button", { type: "button", "data-sort": column.sort, on: { async click() {
      await narrow({ sort: next });
      get("wall").querySelector(`[data-sort="${CSS.escape(column.sort)}"]`)?.focus();
    } } }, name, make("span", { "aria-hidden": "true" }, now ? (now === "ascending" ? " ↑" : " ↓") : "")));
  }

  // What is chosen, and what is shown of it -----------------------------------------------------------------
  function chosen() {
    const { base: name, label, nuisance, split, step, license, use, q, sort } = state();
    return { base: base(name).name, label: whole(label), nuisance: whole(nuisance), split, severity: whole(step), license, use, q, sort };
  }

  shiftdata.showRows = async function showRows() {
    stop.abort();
    const { signal } = stop = new AbortController();
    const given = state();
    get("group").hidden = given.label == null && given.nuisance == null && given.all == null;
    if (get("group").hidden) return;
    const choice = chosen();
    if (pickedOf !== choice.base) { picked = new Set(); pickedOf = choice.base; showPicked(); }
    const view = VIEWS.includes(given.view) ? given.view : VIEWS[0];
    for (const button of get("choose-view").children) button.setAttribute("aria-pressed", button.value === view);
    for (const [id, value] of [["label", given.label], ["nuisance", given.nuisance], ["split", given.split], ["severity", given.step]]) get(`choose-${id}`).value = value ?? "";
    if (document.activeElement !== get("choose-q")) get("choose-q").value = given.q ?? "";
    get("choose-sort").parentElement.hidden = view === "table";  // its heads sort
    get("choose-sort").value = given.sort ?? "";
    const { label, nuisance } = choice;
    const title = label != null && nuisance != null ? groupName(label, nuisance) : label != null ? page.labels[label] : nuisance != null ? nuisanceName(nuisance) : "All rows";
    get("group-title").textContent = title;
    const size = SIZES[view];
    const from = Math.max(0, Math.floor((Number(given.from) || 0) / size) * size);
    try {
      const found = await answer(choice, from, size, signal);
      if (signal.aborted) return;
      showLicenses(found.licenses, given.use ? "commercial" : given.license);
      get("wall").replaceChildren(found.rows.length ? views[view](choice, found.rows, Object.keys(found.licenses).length > 1) : make("p", { class: "soft" }, "No row fits."));
      get("wall").scrollTop = 0;
      for (const text of get("wall").querySelectorAll(".texts p")) text.nextSibling.hidden = text.scrollHeight <= text.clientHeight + 2;
      get("turn").hidden = found.total <= size;
      get("turn-now").textContent = `${number(from + 1)} to ${number(from + found.rows.length)}`;
      get("turn-back").disabled = from === 0;
      get("turn-on").disabled = from + size >= found.total;
      get("turn-back").value = from - size;
      get("turn-on").value = from + size;
      get("pick-shown").textContent = `Select these ${number(found.rows.length)}`;
      const text = countOf(choice, found);
      get("group-count").textContent = text;
      say(`${title}: ${text}`);
    } catch (error) {
      if (signal.aborted) return;
      get("wall").replaceChildren(make("p", { class: "bad" }, error.message));
      get("group-count").textContent = "";
      say(error.message);
    }
  };

  function countOf(choice, found) {
    const all = base(choice.base).counts.flatMap((row, y) => (choice.label == null || y === choice.label
      ? row.filter((_, x) => choice.nuisance == null || x === choice.nuisance + 1) : [])).reduce((sum, count) => sum + count, 0);
    if (found.held < all) {
      return found.total === found.held ? `${number(found.held)} of ${number(all)} rows; a server shows all`
        : `${number(found.total)} of the ${number(found.held)} rows in this page; a server has ${number(all)}`;
    }
    const unread = choice.q && page.modality !== "image" && !found.searches_examples ? `; too large to be searched: the ${page.modality === "text" ? "texts" : "features"}` : "";
    return `${number(found.total)} ${found.total === 1 ? "row" : "rows"}${unread}`;
  }

  function options(id, pairs) {
    get(id).replaceChildren(...pairs.map(([value, text]) => make("option", { value }, text)));
  }

  function showLicenses(licenses, now) {
    const names = Object.keys(licenses).sort();
    get("choose-license").parentElement.hidden = names.length < 2 && !now;
    options("choose-license", [["", "all"], ["commercial", "allows commercial use"], ...names.map((name) => [`= ${name}`, name])]);
    get("choose-license").value = now === "commercial" ? now : now ? `= ${now}` : "";
  }

  /** Rows that are selected, by keys and as the code that loads them. */
  function showPicked() {
    const keys = [...picked];
    get("picked").hidden = !keys.length;
    get("picked-count").hidden = !keys.length;
    get("picked-count").textContent = `${number(keys.length)} selected: keys and code`;
    get("picked-keys").textContent = keys.join("\n");
    if (get("picked-code")) {
      get("picked-code").textContent = `import shiftdata as sd\n\nkeys = ${JSON.stringify(keys, null, 1).replace(/\n\s*/g, "\n    ").replace(/\n {4}\]$/, ",\n]")}\n`
        + `rows = sd.load_dataset(\n    ${JSON.stringify(page.name)},\n    ${JSON.stringify(pickedOf)},\n    split="all",\n    filters=[("key", "in", keys)],\n)`;
    }
    for (const input of get("wall").querySelectorAll("input")) input.checked = picked.has(input.value);
  }

  const narrow = (changes) => { remember({ all: 1, from: null, ...changes }); return shiftdata.showRows(); };

  /** Open the rows of a choice, and go there. */
  shiftdata.choose = function choose(changes) {
    remember({ from: null, ...changes }, { push: true });
    shiftdata.showRows();
    get("group-title").focus();
  };

  const NONE = { label: null, nuisance: null, split: null, step: null, license: null, use: null, q: null, sort: null, from: null };
  for (const [id, name] of [["label", "label"], ["nuisance", "nuisance"], ["split", "split"], ["severity", "step"], ["sort", "sort"]]) {
    get(`choose-${id}`).addEventListener("change", (event) => narrow({ [name]: event.target.value }));
  }
  get("choose-license").addEventListener("change", ({ target: { value } }) => narrow(value === "commercial" ? { use: value, license: null } : { use: null, license: value.slice(2) }));
  let typing = null;
  get("choose-q").addEventListener("input", (event) => { clearTimeout(typing); typing = setTimeout(() => narrow({ q: event.target.value.trim() }), 200); });
  for (const id of ["turn-back", "turn-on"]) get(id).addEventListener("click", (event) => { remember({ from: event.target.value }, { push: true }); shiftdata.showRows(); });
  get("show-all").addEventListener("click", () => shiftdata.choose({ ...NONE, all: 1 }));
  get("close").addEventListener("click", () => { remember({ ...NONE, all: null }, { push: true }); shiftdata.showRows(); get("matrix").querySelector("[tabindex='0']")?.focus(); });
  get("wall").addEventListener("change", ({ target }) => { picked[target.checked ? "add" : "delete"](target.value); showPicked(); });
  get("pick-shown").addEventListener("click", () => { for (const input of get("wall").querySelectorAll("input")) picked.add(input.value); showPicked(); });
  get("picked-none").addEventListener("click", () => { picked.clear(); showPicked(); get("pick-shown").focus(); });

  get("choose-view").append(...(VIEWS.length > 1 ? VIEWS : []).map((view) => make("button", { type: "button", value: view, on: { click: () => narrow({ view }) } }, view)));
  const untouched = page.bases.some((one) => one.counts.some((row) => row[0])) ? [[-1, "untouched"]] : [];
  options("choose-label", [["", "all"], ...page.labels.entries()]);
  options("choose-nuisance", [["", "all"], ...page.nuisances.entries(), ...untouched]);
  options("choose-split", [["", "all"], ...page.splits.map((split) => [split, split])]);
  options("choose-severity", [["", "all"], ...page.severities.map((step) => [step, String(step)])]);
  get("choose-severity").parentElement.hidden = !steps;
  options("choose-sort", [["", "group by group"], ...[...COLUMNS, ...ENDS].filter((one) => one.sort).map((one) => [one.sort, one.name]),
    ...(LENGTHS && page.pictures ? [["length", LENGTHS[0]], ["-length", LENGTHS[1]]] : [])]);
})();
