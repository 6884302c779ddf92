// Large grids of which only what is seen exists: the matrix of groups, and the wall of the rows of a choice.
"use strict";

(() => {
  const { page, make, number, groupName, exampleUrl, rows, picture, tile, say } = shiftdata;

  /** Which lines of some size are seen, with a few around them. */
  function seen(from, room, size, count, around) {
    const first = Math.max(0, Math.floor(from / size) - around);
    return [first, Math.min(count, Math.ceil((from + room) / size) + around)];
  }

  /** Do something once a frame however often it is asked for. */
  function framed(act) {
    let waiting = false;
    return () => {
      if (waiting) return;
      waiting = true;
      requestAnimationFrame(() => { waiting = false; act(); });
    };
  }

  /**
   * A matrix of squares with names at the left and on top, which stay in view. `square(y, x)` gives an element,
   * `open(y, x)` is called by click or Enter. Arrow keys, Home, End and page keys move through it.
   */
  shiftdata.matrix = function matrix(box, { ys, xs, side, square, about, open }) {
    const left = Math.min(180, 24 + 7.2 * Math.max(...ys.map((one) => one.length)));
    const top = Math.min(150, 20 + 6.6 * Math.max(...xs.map((one) => one.length)));
    const inner = make("div", { class: "inner", role: "grid", "aria-label": box.dataset.about, "aria-rowcount": ys.length + 1, "aria-colcount": xs.length + 1 });
    inner.style.cssText = `width:${left + xs.length * side}px;height:${top + ys.length * side}px`;
    const head = make("div", { class: "head", role: "row", "aria-rowindex": 1 });
    head.style.cssText = `height:${top}px;width:${left + xs.length * side}px`;
    const corner = make("span", { class: "corner", role: "columnheader" }, make("span", { class: "sr" }, "label"));
    corner.style.cssText = `width:${left}px;height:${top}px`;
    head.append(corner);
    inner.append(head);
    box.replaceChildren(inner);
    box.style.cssText = `height:min(${top + ys.length * side + 18}px, 72vh, 44rem);max-width:${left + xs.length * side + 18}px`;
    const lines = new Map();
    const heads = new Map();
    let at = [0, 0];

    function line(y) {
      const name = make("span", { class: "name", role: "rowheader", title: ys[y] }, ys[y]);
      name.style.cssText = `width:${left}px;height:${side}px`;
      const node = make("div", { class: "line", role: "row", "aria-rowindex": y + 2 }, name);
      node.style.cssText = `top:${top + y * side}px;height:${side}px;width:${left + xs.length * side}px`;
      return { node, cells: new Map() };
    }
    function cell(y, x) {
      const node = make("span", { class: "cell", role: "gridcell", "aria-colindex": x + 2, "aria-label": about(y, x), title: about(y, x), tabindex: y === at[0] && x === at[1] ? 0 : -1 }, square(y, x));
      node.style.cssText = `left:${left + x * side}px;width:${side}px;height:${side}px`;
      node.dataset.y = y;
      node.dataset.x = x;
      return node;
    }
    function keep(known, first, end, add) {
      for (const [place, node] of known) if ((place < first || place >= end) && place !== at[0]) { (node.node || node).remove(); known.delete(place); }
      for (let place = first; place < end; place++) if (!known.has(place)) known.set(place, add(place));
    }
    const show = framed(() => {
      const [y0, y1] = seen(box.scrollTop - top, box.clientHeight, side, ys.length, 3);
      const [x0, x1] = seen(box.scrollLeft - left, box.clientWidth, side, xs.length, 4);
      keep(heads, x0, x1, (x) => {
        const node = make("span", { class: "up", role: "columnheader", "aria-colindex": x + 2, title: xs[x] }, make("span", {}, xs[x]));
        node.style.cssText = `left:${left + x * side}px;width:${side}px;height:${top}px`;
        head.append(node);
        return node;
      });
      keep(lines, y0, y1, (y) => { const made = line(y); inner.append(made.node); return made; });
      for (const [y, one] of lines) {
        keep(one.cells, x0, x1, (x) => { const node = cell(y, x); one.node.append(node); return node; });
      }
    });
    function focus(y, x) {
      const before = lines.get(at[0])?.cells.get(at[1]);
      if (before) before.tabIndex = -1;
      at = [Math.max(0, Math.min(ys.length - 1, y)), Math.max(0, Math.min(xs.length - 1, x))];
      const [down, across] = [top + at[0] * side, left + at[1] * side];
      if (down - top < box.scrollTop) box.scrollTop = down - top;
      if (down + side > box.scrollTop + box.clientHeight) box.scrollTop = down + side - box.clientHeight;
      if (across - left < box.scrollLeft) box.scrollLeft = across - left;
      if (across + side > box.scrollLeft + box.clientWidth) box.scrollLeft = across + side - box.clientWidth;
      show();
      requestAnimationFrame(() => {
        const node = lines.get(at[0])?.cells.get(at[1]);
        if (node) { node.tabIndex = 0; node.focus({ preventScroll: true }); }
      });
    }
    const screenful = () => Math.max(1, Math.floor(box.clientHeight / side) - 2);
    const moves = {
      ArrowUp: () => [at[0] - 1, at[1]], ArrowDown: () => [at[0] + 1, at[1]],
      ArrowLeft: () => [at[0], at[1] - 1], ArrowRight: () => [at[0], at[1] + 1],
      Home: () => [at[0], 0], End: () => [at[0], xs.length - 1],
      PageUp: () => [at[0] - screenful(), at[1]], PageDown: () => [at[0] + screenful(), at[1]],
    };
    inner.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") open(...at);
      else if (moves[event.key]) focus(...moves[event.key]());
      else return;
      event.preventDefault();
    });
    inner.addEventListener("click", (event) => {
      const node = event.target.closest(".cell");
      if (node) { focus(Number(node.dataset.y), Number(node.dataset.x)); open(...at); }
    });
    box.onscroll = show;
    new ResizeObserver(show).observe(box);
    show();
    return { redraw() { for (const [, one] of lines) { for (const [, node] of one.cells) node.remove(); one.cells.clear(); } show(); } };
  };

  const PAGE = 200;

  /** The rows of a choice as a wall that scrolls through all of them; returns how to end it. */
  shiftdata.wall = function wall(box, choice, onTotal) {
    const isPicture = page.modality === "image";
    const side = isPicture ? 104 : 0;
    const inner = make("div", { class: "inner", role: "list" });
    box.replaceChildren(inner);
    box.scrollTop = 0;
    const pages = new Map();
    const tiles = new Map();
    const stop = new AbortController();
    let total = null;

    async function want(number) {
      if (pages.has(number)) return;
      pages.set(number, null);
      try {
        const answer = await rows(choice, number * PAGE, PAGE, { signal: stop.signal });
        pages.set(number, answer.rows);
        if (total === null) { total = answer.total; onTotal(total); }
        show();
      } catch (error) {
        pages.delete(number);
        if (error.name !== "AbortError") { inner.replaceChildren(make("p", { class: "bad" }, error.message)); say(error.message); }
      }
    }
    function shape() {
      const width = Math.max(1, box.clientWidth - 2);
      const columns = isPicture ? Math.max(1, Math.floor(width / (side + 6))) : Math.max(1, Math.floor(width / 330));
      return { columns, height: isPicture ? side + 22 : 150, width: Math.floor(width / columns) };
    }
    function card(row) {
      const name = `${groupName(row.label, row.nuisance)}${page.severities.length > 1 && row.severity != null ? `, severity ${row.severity}` : ""}`;
      const shown = isPicture ? picture(choice.base, row, side) : make("span", { class: "text" }, textOf(row.text));
      const under = choice.label != null && choice.nuisance != null
        ? `${row.split}${page.severities.length > 1 && row.severity != null ? ` · ${row.severity}` : ""}` : name;
      return make("a", { href: exampleUrl(choice.base, row.key), title: `${row.key}\n${name}, ${row.split}`, "aria-label": `${name}, ${row.split}, ${row.key}` }, shown, make("span", { class: "under" }, under));
    }
    const show = framed(() => {
      if (total === null || stop.signal.aborted) return;
      const { columns, height, width } = shape();
      inner.style.height = `${Math.ceil(total / columns) * height}px`;
      box.style.height = `min(${Math.ceil(total / columns) * height + 12}px, 70vh)`;
      const [first, end] = seen(box.scrollTop, box.clientHeight, height, Math.ceil(total / columns), 2);
      const [from, to] = [first * columns, Math.min(total, end * columns)];
      for (const [at, node] of tiles) if (at < from || at >= to || node.columns !== columns) { node.remove(); tiles.delete(at); }
      for (let at = from; at < to; at++) {
        const row = pages.get(Math.floor(at / PAGE))?.[at % PAGE];
        if (row === undefined) { want(Math.floor(at / PAGE)); continue; }
        if (tiles.has(at)) continue;
        const node = make("div", { role: "listitem", class: isPicture ? "pic" : "words", "aria-posinset": at + 1, "aria-setsize": total }, card(row));
        node.columns = columns;
        node.style.cssText = `top:${Math.floor(at / columns) * height}px;left:${(at % columns) * width}px;width:${width - 6}px;height:${height - 6}px`;
        tiles.set(at, node);
        inner.append(node);
      }
    });
    // A fast scroll passes many rows: those that are left behind are not asked for.
    let settled = null;
    box.onscroll = () => { clearTimeout(settled); settled = setTimeout(show, 40); };
    const watch = new ResizeObserver(show);
    watch.observe(box);
    want(0);
    return () => { stop.abort(); watch.disconnect(); box.onscroll = null; };
  };

  const textOf = (text) => (typeof text === "string" ? text
    : Object.entries(text || {}).slice(0, 6).map(([name, value]) => `${name} ${typeof value === "number" ? Number(value.toPrecision(4)) : value}`).join("\n"));
})();
