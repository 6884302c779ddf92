// The matrix of groups: a large grid of which only what is seen exists.
"use strict";

(() => {
  const { make } = shiftdata;

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
})();
