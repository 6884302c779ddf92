// What every script of a page shares: the page's data, where more of it comes from, small builders of elements.
// Pages open from a file, where nothing can be fetched: data files are scripts that call `shiftdata.receive`.
"use strict";

const shiftdata = (() => {
  const page = JSON.parse(document.getElementById("data").textContent);
  const waiting = new Map();

  /** A data file of a page without a server; each is loaded once. */
  function load(name) {
    if (!waiting.has(name)) {
      const entry = {};
      entry.promise = new Promise((resolve, reject) => Object.assign(entry, { resolve, reject }));
      waiting.set(name, entry);
      const script = document.createElement("script");
      script.src = `${page.here}data/${name}.js`;
      script.onerror = () => entry.reject(new Error(`${script.src} cannot be read: make the gallery again`));
      document.head.append(script);
    }
    return waiting.get(name).promise;
  }

  /** What a server answers; an error says what the server said. */
  async function ask(path, query, signal) {
    const url = `${page.here}data/${path}?${new URLSearchParams(query)}`;
    const answer = await fetch(url, { signal });
    const value = await answer.json().catch(() => ({}));
    if (!answer.ok) throw new Error(value.error || `the server answered ${answer.status}`);
    return value;
  }

  /** An element: `make("a", {href: url, class: "x", on: {click: f}}, "text", child)`. Texts stay texts. */
  function make(tag, attributes = {}, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name === "on") for (const [event, act] of Object.entries(value)) node.addEventListener(event, act);
      else if (value === true) node.setAttribute(name, "");
      else if (value !== false && value != null) node.setAttribute(name, value);
    }
    node.append(...children.filter((one) => one != null));
    return node;
  }

  const SVG = "http://www.w3.org/2000/svg";
  function draw(tag, attributes = {}, ...children) {
    const node = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    node.append(...children);
    return node;
  }

  // The state of a view stands behind the # of its address: a link restores it, also from a file.
  const state = () => Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
  function remember(changes, { push = false } = {}) {
    const next = { ...state(), ...changes };
    for (const [name, value] of Object.entries(next)) if (value == null || value === "") delete next[name];
    const hash = `#${new URLSearchParams(next)}`;
    if (hash !== location.hash) history[push ? "pushState" : "replaceState"](null, "", hash);
  }

  const MOST_FILES = 200;  // of labels, that a page without a server reads for rows of all labels
  const number = (value) => value.toLocaleString("en");
  const nuisanceName = (at) => (at < 0 ? "untouched" : page.nuisances[at]);
  const labelName = (at) => page.labels[at] ?? "label not published";  // -1: the publisher keeps it
  const groupName = (label, nuisance) => `${labelName(label)} / ${nuisanceName(nuisance)}`;
  const exampleUrl = (base, key) => `${page.here}example.html#${new URLSearchParams({ base, key })}`;
  const base = (name) => page.bases.find((one) => one.name === name) || page.bases[0];

  /** Rows of a choice: {total, rows}, `full` with all that is known of each. A page without a server has the first ones of each group. */
  async function rows(choice, from, count, { signal, full } = {}) {
    if (page.live) return ask("rows.json", defined({ ...choice, from, count, full: full ? 1 : null }), signal);
    const { label, nuisance } = choice;
    const labels = label == null ? new Set(Object.keys(base(choice.base).sample).map((group) => parseInt(group, 10))) : [label];
    const files = await Promise.all([...labels].slice(0, MOST_FILES).map((one) => load(`rows/${choice.base}-${one}`)));
    const groups = files.flatMap((file) => (nuisance == null ? Object.values(file) : [file[nuisance] || []]));
    const kept = groups.flatMap((group) => group.map((row, tile) => ({ ...row, tile }))).filter(
      (row) => (choice.split == null || row.split === choice.split)
        && (choice.severity == null || row.severity === Number(choice.severity)));
    return { total: kept.length, rows: kept.slice(from, from + count) };
  }
  const defined = (record) => Object.fromEntries(Object.entries(record).filter(([, value]) => value != null));

  /** One example with all that is known of it, and the rows of the same origin. */
  async function example(baseName, key) {
    if (page.live) return ask("example.json", { base: baseName, key });
    const index = (await load(`keys/${baseName}`))[key];
    if (!index) throw new Error(`${key} is not among the examples that this page holds: \`shiftdata serve\` shows all`);
    const [label, nuisance] = index;
    const row = (await rows({ base: baseName, label, nuisance }, 0, 1e6)).rows.find((one) => one.key === key);
    const groups = Object.entries(await load(`rows/${baseName}-${label}`));
    const same = groups.flatMap(([, some]) => some.map((one, tile) => ({ ...one, tile })));
    return { ...row, appearances: same.filter((one) => one.origin === row.origin) };
  }

  /** A picture of a row as an element of some size; of a sprite where there is no server. */
  function picture(baseName, row, side, about = "") {
    if (!page.pictures) return make("span", { class: "none" }, "not included");
    if (page.live) {
      const url = `${page.here}data/picture/${baseName}/${row.row}?side=${side > 128 ? 0 : 128}&v=${page.version}`;
      return make("img", { src: url, alt: about, width: side, height: side, decoding: "async" });
    }
    const name = `groups/${baseName}-${row.label}-${row.nuisance}`;
    const of = base(baseName);
    return tile(`${page.here}data/${name}.webp`, row.tile, of.columns, of.sample[`${row.label},${row.nuisance}`], side, about);
  }

  /** One square of a sprite, as an element. */
  function tile(url, at, columns, total, side, about = "") {
    const node = make("span", about ? { class: "tile", role: "img", "aria-label": about } : { class: "tile" });
    const [down, across] = [Math.floor(at / columns), at % columns];
    node.style.cssText = `width:${side}px;height:${side}px;background-image:url("${url}");`
      + `background-size:${columns * side}px ${Math.ceil(total / columns) * side}px;`
      + `background-position:${-across * side}px ${-down * side}px`;
    return node;
  }

  /**
   * A chart of lines over the steps of a scale, with a mark at one of them. Each line is {name, points}; the
   * label of the chart says every number.
   */
  function lines(title, series, steps, { at = null, low = null, high = null } = {}) {
    const [width, height, left, bottom, last] = [460, 170, 44, 24, steps.length - 1];
    const values = series.flatMap(({ points }) => points.map(([, value]) => value));
    const [from, to] = [low ?? Math.min(...values), high ?? Math.max(...values)];
    const x = (step) => left + ((step - steps[0]) / (steps[last] - steps[0] || 1)) * (width - left - 14);
    const y = (value) => height - bottom - ((value - from) / (to - from || 1)) * (height - bottom - 14);
    const text = (content, px, py, anchor) => { const node = draw("text", { x: px, y: py, "text-anchor": anchor }); node.textContent = content; return node; };
    const marks = series.flatMap(({ points }, number) => [
      draw("polyline", { class: `line-of c${number % 8}`, points: points.map(([step, value]) => `${x(step)},${y(value)}`).join(" ") }),
      ...points.map(([step, value]) => draw("circle", { class: `dot c${number % 8}`, cx: x(step), cy: y(value), r: 3 }))]);
    const about = `${title}: ${series.map(({ name, points }) => `${name} ${points.map(([step, value]) => `${step}: ${value.toPrecision(3)}`).join(", ")}`).join("; ")}`;
    const svg = draw("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": about },
      draw("line", { class: "axis", x1: left, x2: width - 14, y1: height - bottom, y2: height - bottom }),
      ...(at == null ? [] : [draw("line", { class: "now", x1: x(steps[at]), x2: x(steps[at]), y1: 8, y2: height - bottom })]),
      ...steps.map((one) => text(String(one), x(one), height - 8, "middle")),
      text(to.toPrecision(3), left - 6, 16, "end"), text(from.toPrecision(3), left - 6, height - bottom, "end"), ...marks);
    const keys = series.map(({ name }, number) => make("span", { class: `key c${number % 8}` }, name));
    return make("figure", {}, make("figcaption", {}, title, " ", ...(series.length > 1 ? keys : [])), svg);
  }

  /** The class of a square whose share of the largest number is from 0 to 1. */
  const shade = (share) => `s${Math.round(20 * share)}`;

  /** What the shades of heat maps mean: the largest number is the darkest. */
  function legend(text) {
    const steps = [1, 5, 10, 15, 20].map((step) => make("span", { class: `s${step}` }));
    return make("p", { class: "legend small soft" }, make("span", { class: "ramp", "aria-hidden": "true" }, ...steps), text);
  }

  /** A heat map: names of rows and columns as pairs [what, text]; `cell(y, x)` gives a square as a `td`. */
  function heat(ys, xs, cell, caption) {
    const head = make("tr", {}, make("td"), ...xs.map(([, text]) => make("th", { scope: "col", class: "up" }, text)));
    const rows = ys.map(([y, text]) => make("tr", {}, make("th", { scope: "row" }, text), ...xs.map(([x]) => cell(y, x))));
    return make("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": caption },
      make("table", { class: "heat" }, make("caption", {}, caption), make("thead", {}, head), make("tbody", {}, ...rows)));
  }

  /** Say something to those who hear the page. */
  function say(text) {
    document.getElementById("said").textContent = text;
  }

  document.addEventListener("click", async (event) => {
    const jump = event.target.closest("[data-jump]");
    if (jump) {  // the address keeps the state of the view
      event.preventDefault();
      const section = document.getElementById(jump.hash.slice(1));
      section.tabIndex = -1;
      section.scrollIntoView();
      section.focus({ preventScroll: true });
    }
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    const text = button.dataset.copy || document.getElementById(button.dataset.of).textContent;
    await navigator.clipboard.writeText(text).then(() => say("copied"), () => say("the browser does not allow copying"));
  });

  return {
    page, load, ask, make, state, remember, number, labelName, nuisanceName, groupName, exampleUrl, base, rows, example, picture,
    tile, say, lines, heat, legend, shade, receive: (name, value) => waiting.get(name)?.resolve(value),
  };
})();
