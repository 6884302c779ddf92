// Checks of an open page, each a function that returns sentences about what is wrong. `tests/visual.py` runs them.
"use strict";

const checks = (() => {
  const all = (selector) => [...document.querySelectorAll(selector)];
  const SHAPES = "rect, circle, ellipse, path, polyline, polygon, line, use";

  /** How a failure names an element: its path from the nearest id, and the beginning of its text. */
  function named(element, text = element.textContent) {
    const path = [];
    for (let node = element; node && node !== document.body; node = node.parentElement) {
      const kinds = [...node.classList].slice(0, 2).map((name) => `.${name}`).join("");
      path.unshift(node.id ? `#${node.id}` : node.localName + kinds);
      if (node.id || path.length === 4) break;
    }
    const words = text.trim().replace(/\s+/g, " ").slice(0, 50);
    return path.join(" > ") + (words ? ` "${words}"` : "");
  }

  /** A function of an element that is computed once: the page stands still while the checks run. */
  function once(compute) {
    const values = new Map();
    return (element) => {
      if (!values.has(element)) values.set(element, compute(element));
      return values.get(element);
    };
  }
  const styleOf = once((element) => getComputedStyle(element));
  const boxOf = once((element) => element.getBoundingClientRect());

  // What is seen ------------------------------------------------------------------------------------------------
  const rendered = once((element) => element.checkVisibility({ opacityProperty: true, visibilityProperty: true }));

  /** True of what is only for those who hear the page: clipped to nothing, or outside of the page. */
  const heardOnly = once((element) => {
    if (!element || element === document.body) return false;
    const box = boxOf(element);
    return box.right + scrollX < 0 || box.bottom + scrollY < 0
      || styleOf(element).clipPath === "inset(50%)" || heardOnly(element.parentElement);
  });
  const seen = (element) => rendered(element) && !heardOnly(element);

  const textsOf = once((root) => {
    const found = [];
    const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const node = walker.currentNode;
      const parent = node.parentElement;
      if (node.data.trim() && !parent.closest("script, style, title, option, datalist, textarea") && seen(parent)) found.push(node);
    }
    return found;
  });
  /** The texts of the page that are seen. */
  const texts = () => textsOf(document.body);

  function rects(node, from = 0, to = node.length) {
    const range = document.createRange();
    range.setStart(node, from);
    range.setEnd(node, to);
    return [...range.getClientRects()].filter((rect) => rect.width > 0.5 && rect.height > 0.5);
  }

  /** Whether an element shows something: a text, a picture that arrived, a mark, a field. */
  function hasContent(element, without = "") {
    const counts = (node) => !without || !node.closest(without);
    if (texts().some((node) => element.contains(node) && counts(node.parentElement))) return true;
    const shown = (node) => counts(node) && rendered(node);
    if ([...element.querySelectorAll("input, select, textarea, canvas, video, progress, meter")].some(shown)) return true;
    return [element, ...element.querySelectorAll("*")].some((node) => shown(node) && (
      node.localName === "img" ? node.naturalWidth > 0
        : node.matches(SHAPES) ? !node.closest("defs") && boxOf(node).width + boxOf(node).height > 1
          : node.localName === "image" || styleOf(node).backgroundImage.includes("url(")));
  }

  // Colours -----------------------------------------------------------------------------------------------------
  const brush = Object.assign(document.createElement("canvas"), { width: 1, height: 1 }).getContext("2d", { willReadFrequently: true });
  const known = new Map();

  /** Red, green, blue from 0 to 255 and alpha from 0 to 1 of any computed colour, such as oklab(...). */
  function rgba(colour) {
    if (!known.has(colour)) {
      brush.clearRect(0, 0, 1, 1);
      brush.fillStyle = colour;
      brush.fillRect(0, 0, 1, 1);
      const [r, g, b, a] = brush.getImageData(0, 0, 1, 1).data;
      known.set(colour, [r, g, b, a / 255]);
    }
    return known.get(colour);
  }
  const over = ([r, g, b, a], below) => [r, g, b].map((value, at) => value * a + below[at] * (1 - a));
  const faded = ([r, g, b, a], opacity) => [r, g, b, a * opacity];
  function luminance(colour) {
    const [r, g, b] = colour.map((value) => (value / 255 <= 0.04045 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  }
  function contrast(ink, paper) {
    const [low, high] = [luminance(ink), luminance(paper)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  }
  const hex = (colour) => `#${colour.map((value) => Math.round(value).toString(16).padStart(2, "0")).join("")}`;

  const opacity = once((element) => (element ? Number(styleOf(element).opacity) * opacity(element.parentElement) : 1));

  /** What is behind the content of an element; null where that is a picture. */
  const background = once((element) => {
    if (!element) {
      const dark = styleOf(document.documentElement).colorScheme.includes("dark") && matchMedia("(prefers-color-scheme: dark)").matches;
      return dark ? [18, 18, 18] : [255, 255, 255];
    }
    if (element instanceof SVGElement && element.localName !== "svg") return background(element.parentElement);
    if (styleOf(element).backgroundImage.includes("url(")) return null;  // a gradient is a cue at an edge
    const colour = rgba(styleOf(element).backgroundColor);
    const below = colour[3] === 1 ? [0, 0, 0] : background(element.parentElement);
    return below && over(colour, below);
  });

  const paint = (style, kind) => (style[kind] === "none" || style[kind].startsWith("url(") ? [0, 0, 0, 0]
    : faded(rgba(style[kind]), Number(style[`${kind}Opacity`])));
  const inside = (small, large, slack = 1) => small.left >= large.left - slack && small.right <= large.right + slack
    && small.top >= large.top - slack && small.bottom <= large.bottom + slack;
  const area = (box) => box.width * box.height;
  const centre = (box) => ({ left: box.left + box.width / 2, right: box.left + box.width / 2, top: box.top + box.height / 2, bottom: box.top + box.height / 2 });

  /** The filled shapes of a drawing in the order in which they are painted. */
  const filled = once((svg) => [...svg.querySelectorAll(SHAPES)]
    .filter((shape) => !shape.closest("defs, clipPath, marker, mask, pattern, symbol") && rendered(shape))
    .map((shape) => ({ shape, colour: faded(paint(styleOf(shape), "fill"), opacity(shape)), box: boxOf(shape) }))
    .filter(({ colour }) => colour[3]));

  /** What is behind a box of a drawing: the shapes that were painted there before. */
  function behind(element, box, least) {
    const svg = element.ownerSVGElement;
    let colour = background(svg);
    for (const below of colour ? filled(svg) : []) {
      if (!(below.shape.compareDocumentPosition(element) & Node.DOCUMENT_POSITION_FOLLOWING)) break;
      if (!element.contains(below.shape) && area(below.box) > least && inside(box, below.box)) colour = over(below.colour, colour);
    }
    return colour;
  }

  /** Texts with less contrast than 4.5, large ones than 3. */
  function contrastOfTexts() {
    const problems = [];
    const done = new Set();
    for (const node of texts()) {
      const element = node.parentElement;
      if (done.has(element) || element.closest(":disabled, [aria-disabled=true]")) continue;
      done.add(element);
      const style = styleOf(element);
      const svg = element.ownerSVGElement;
      const box = boxOf(element);
      const below = svg ? behind(element, centre(box), 0) : background(element);
      if (!below) continue;
      const ink = over(faded(svg ? paint(style, "fill") : rgba(style.color), opacity(element)), below);
      const size = parseFloat(style.fontSize);
      const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
      const reached = contrast(ink, below);
      if (reached < (large ? 3 : 4.5) - 0.01) problems.push(`${named(element)}: text of contrast ${reached.toFixed(2)}, ${hex(ink)} on ${hex(below)}`);
    }
    return problems;
  }

  //: Lines that help to read a drawing; what they say is written next to them.
  const HELP = /axis|grid|tick|track|band|now/;
  const helps = (shape) => {
    for (let node = shape; node && node.localName !== "svg"; node = node.parentElement) {
      if (HELP.test(`${node.id} ${node.getAttribute("class") ?? ""}`)) return true;
    }
    return false;
  };

  /** Marks of drawings with less contrast than 3. A square with its number in it is judged by the number. */
  function contrastOfShapes() {
    const problems = [];
    for (const svg of all("svg")) {
      if (!seen(svg) || svg.ownerSVGElement) continue;
      const labels = [...svg.querySelectorAll("text")].map((text) => centre(boxOf(text)));
      for (const shape of svg.querySelectorAll(SHAPES)) {
        const box = boxOf(shape);
        if (shape.closest("defs, clipPath, marker, mask, pattern, symbol") || !rendered(shape) || helps(shape)) continue;
        if (box.width + box.height < 2 || labels.some((label) => shape.localName !== "polyline" && inside(label, box))) continue;
        const style = styleOf(shape);
        const below = behind(shape, box, 1.5 * area(box));
        if (!below) continue;
        const fade = opacity(shape);
        const paints = [paint(style, "fill"), ...(parseFloat(style.strokeWidth) ? [paint(style, "stroke")] : [])].map((colour) => faded(colour, fade));
        if (paints.every((colour) => !colour[3])) continue;
        const drawn = paints.map((colour) => over(colour, below));
        const reached = Math.max(...drawn.map((colour) => contrast(colour, below)));
        if (reached < 2.99) problems.push(`${named(shape)} ${svg.getAttribute("aria-label") ?? named(svg)}: mark of contrast ${reached.toFixed(2)}, ${drawn.map(hex)} on ${hex(below)}`);
      }
    }
    return problems;
  }

  /** Coloured boxes without a text: each has a contrast of 3, of a scale its strongest step. */
  function contrastOfBoxes() {
    const problems = [];
    const families = new Map();
    const add = (key, element, colour, below) => {
      if (!below || !colour[3]) return;
      const ink = over(faded(colour, opacity(element)), below);
      const entry = { element, reached: contrast(ink, below), ink, below };
      families.set(key, [...(families.get(key) ?? []), entry]);
    };
    for (const element of all("body *")) {
      if (element.closest("svg, select, input, textarea, pre") || !seen(element)) continue;
      const [outer, own] = [element.parentElement, styleOf(element)];
      const box = boxOf(element);
      if (!element.children.length && !element.textContent.trim() && own.backgroundImage === "none" && !element.matches("img, canvas, video, iframe, td, th, hr, progress, meter") && box.width >= 2 && box.height >= 2) {
        add(outer, element, rgba(own.backgroundColor), background(outer));
      }
      for (const pseudo of ["::before", "::after"]) {
        const style = getComputedStyle(element, pseudo);
        if (style.content === "none" || style.content === "normal" || style.content.length > 2) continue;
        add(`${pseudo} ${element.className}`, element, rgba(style.backgroundColor), background(element));
      }
    }
    for (const family of families.values()) {
      const clearest = family.reduce((best, member) => (member.reached > best.reached ? member : best));
      if (clearest.reached < 2.99) problems.push(`${named(clearest.element)}: coloured box of contrast ${clearest.reached.toFixed(2)}, ${hex(clearest.ink)} on ${hex(clearest.below)}`);
    }
    return problems;
  }

  /** Fields and buttons whose edge or surface has less contrast than 3. */
  function contrastOfFields() {
    return all("input:not([type=range], [type=checkbox], [type=radio], [type=hidden]), select, textarea").flatMap((field) => {
      if (!seen(field)) return [];
      const style = styleOf(field);
      const below = background(field.parentElement);
      if (!below || style.appearance === "auto" && style.borderStyle === "none") return [];
      const edges = parseFloat(style.borderTopWidth) ? [rgba(style.borderTopColor)] : [];
      const reached = Math.max(...[rgba(style.backgroundColor), ...edges].map((colour) => contrast(over(colour, below), below)));
      return reached < 2.99 ? [`${named(field)}: edge of contrast ${reached.toFixed(2)}`] : [];
    });
  }

  // Texts and boxes ---------------------------------------------------------------------------------------------
  const WORD = /[\p{L}\p{M}\p{N}]+(?:[.,’'][\p{L}\p{M}\p{N}]+)*%?/gu;

  /** Words and numbers on two lines, except in code and in names that are wider than the page. */
  function brokenWords() {
    const problems = [];
    const room = 0.8 * Math.min(innerWidth, document.body.clientWidth);
    for (const node of texts()) {
      const element = node.parentElement;
      if (element.closest("pre, code, .path, .mono, svg") || rects(node).length < 2) continue;
      if (styleOf(element).hyphens === "auto") continue;
      const [across, start] = styleOf(element).writingMode === "horizontal-tb" ? ["width", "top"] : ["height", "left"];
      for (const match of node.data.matchAll(/\S+/g)) {
        const lines = rects(node, match.index, match.index + match[0].length);
        if (lines.length < 2 || lines.reduce((sum, line) => sum + line[across], 0) > room) continue;
        for (const word of match[0].matchAll(WORD)) {
          const from = match.index + word.index;
          // A word that dots stand for has several boxes, but on one line.
          const parts = new Set(rects(node, from, from + word[0].length).map((line) => Math.round(line[start])));
          if (parts.size > 1) problems.push(`${named(element)}: "${word[0].slice(0, 40)}" is on ${parts.size} lines`);
        }
      }
    }
    return problems;
  }

  /** Sentences with about one word on each line. */
  function squeezedTexts() {
    return [...texts()].flatMap((node) => {
      const element = node.parentElement;
      const words = node.data.trim().split(/\s+/).length;
      if (words < 5 || element.closest("pre, svg") || styleOf(element).writingMode !== "horizontal-tb") return [];
      const lines = new Set(rects(node).map((rect) => Math.round(rect.top))).size;
      return lines > 0.85 * words ? [`${named(element)}: ${words} words on ${lines} lines`] : [];
    });
  }

  /** Figures, tables, lists, sections and headings with nothing in them, or nothing below them. */
  function emptyParts() {
    const problems = [];
    for (const element of all("figure, table, ul, ol, dl, svg, [role=img], [role=grid], [role=list], [role=table], section, article")) {
      if (element.parentElement.closest("svg") || !rendered(element) || heardOnly(element)) continue;
      const without = element.matches("section, article") ? "h1, h2, h3, h4, h5, h6, noscript, .legend"
        : element.matches("figure") ? "figcaption" : element.matches("table") ? "caption, thead, tbody th" : element.matches("[role=grid]") ? "[role=columnheader], [role=rowheader]" : "";
      if (!hasContent(element, without)) problems.push(`${named(element)}: empty ${element.getAttribute("role") ?? element.localName}`);
    }
    const heads = "h1, h2, h3, h4, h5, h6";
    for (const heading of all(heads)) {
      if (!seen(heading)) continue;
      const level = Number(heading.localName[1]);
      let [from, next, full] = [heading, heading.nextElementSibling, false];
      while (from.matches("main, section, article, body") === false) {
        if (next?.matches(heads) && Number(next.localName[1]) <= level) break;
        if (next && hasContent(next)) { full = true; break; }
        [from, next] = next ? [from, next.nextElementSibling] : [from.parentElement, from.parentElement?.nextElementSibling];
      }
      if (!full) problems.push(`${named(heading)}: heading with nothing below it`);
    }
    return problems;
  }

  /** Boxes with a surface or an edge of their own and nothing inside; pictures that did not arrive. */
  function emptyBoxes() {
    const found = [];
    for (const element of all("main *, footer *")) {
      if (element.closest("svg, select, input, textarea, button, canvas, video, iframe, td, th, tr") || !seen(element)) continue;
      const box = boxOf(element);
      if (element.localName === "img") {
        if (!(element.complete && element.naturalWidth)) found.push(element);
        continue;
      }
      if (found.some((outer) => outer.contains(element)) || box.width < 40 || box.height < 40) continue;
      const style = styleOf(element);
      const [own, outer] = [background(element), background(element.parentElement)];
      const surface = style.backgroundImage.includes("gradient") || Boolean(own && outer && contrast(own, outer) > 1.02);
      const edge = ["Top", "Left"].every((side) => parseFloat(style[`border${side}Width`]) && style[`border${side}Style`] !== "none");
      if ((surface || edge) && !hasContent(element)) found.push(element);
    }
    return found.map((element) => `${named(element)}: ${element.localName === "img" ? "a picture that did not load" : "an empty box"}`);
  }

  const scrolls = (element, side) => ["auto", "scroll"].includes(styleOf(element)[`overflow${side}`]);
  const reachable = (element, side) => {
    for (let node = element; node; node = node.parentElement) if (scrolls(node, side)) return true;
    return false;
  };

  /** The innermost elements that reach beyond the screen and cannot be scrolled to. */
  function widest() {
    const out = all("body *").filter((element) => seen(element) && boxOf(element).right > innerWidth + 1 && !reachable(element.parentElement, "X"));
    return out.filter((element) => !out.some((other) => other !== element && element.contains(other))).slice(0, 3);
  }

  /** What is wider than the screen, and what stands outside of it. */
  function tooWide() {
    const problems = [];
    const width = document.documentElement.scrollWidth;
    if (width > innerWidth) problems.push(`the page is ${width} px wide on a screen of ${innerWidth} px: ${widest().map((element) => named(element)).join("; ")}`);
    for (const node of width > innerWidth ? [] : texts()) {
      const element = node.parentElement;
      const outside = rects(node).some((rect) => rect.right > innerWidth + 1 || rect.left < -1);
      if (outside && !reachable(element, "X") && !element.closest("svg")) problems.push(`${named(element)}: outside of the screen`);
    }
    return problems;
  }

  /** Texts and pictures that are cut, and can neither be scrolled nor are given elsewhere. */
  function cutContent() {
    const problems = [];
    for (const element of all("main *, header *")) {
      if (element.closest("svg") || !seen(element)) continue;
      const style = styleOf(element);
      const box = boxOf(element);
      if (element.localName === "img" && element.naturalWidth && style.objectFit === "cover" && box.height) {
        const [shown, whole] = [box.width / box.height, element.naturalWidth / element.naturalHeight];
        if (Math.abs(shown / whole - 1) > 0.05) problems.push(`${named(element, element.getAttribute("src"))}: a picture that is cut`);
      }
      const hides = (side) => ["hidden", "clip"].includes(style[`overflow${side}`]);
      if (!(hides("X") && element.scrollWidth > element.clientWidth + 1) && !(hides("Y") && element.scrollHeight > element.clientHeight + 1)) continue;
      const dots = style.textOverflow === "ellipsis" || style.webkitLineClamp !== "none";
      if (dots && element.closest("[title], [aria-label], a[href]")) continue;
      for (const node of texts().filter((text) => element.contains(text))) {
        const cut = rects(node).some((rect) => (hides("X") && (rect.right > box.right + 1 || rect.left < box.left - 1)) || (hides("Y") && (rect.bottom > box.bottom + 2 || rect.top < box.top - 2)));
        if (cut) { problems.push(`${named(element)}: text that is cut`); break; }
      }
    }
    return problems;
  }

  //: Tables of more columns may scroll on a wide screen.
  const MOST_COLUMNS = 12;

  /** Code and tables that have to be scrolled sideways although the screen is wide. A stranger's card may. */
  function cutOnWideScreens() {
    if (innerWidth < 1024) return [];
    return all("main *").flatMap((element) => {
      if (!scrolls(element, "X") || element.scrollWidth <= element.clientWidth + 1 || !seen(element)) return [];
      if (element.closest(".prose, textarea, input, select") || element.querySelector("[role=grid]")) return [];
      const columns = Math.max(0, ...[...element.querySelectorAll("tr")].map((row) => row.cells.length));
      return columns > MOST_COLUMNS ? [] : [`${named(element)}: ${element.scrollWidth} px in ${element.clientWidth} px`];
    });
  }

  /** Sentences that promise something which does not come. */
  function waitingWords() {
    return [...texts()].filter((node) => /^\s*(looking|loading|searching|reading|waiting|computing)\b.*(\.\.\.|…)\s*$/i.test(node.data))
      .map((node) => `${named(node.parentElement)}: waits for ever`);
  }

  // Forms -------------------------------------------------------------------------------------------------------
  const FIELDS = "input:not([type=hidden]), select, textarea";
  const nameOf = (field) => [...(field.labels ?? [])].map((label) => {
    const copy = label.cloneNode(true);
    for (const inner of copy.querySelectorAll(`${FIELDS}, button, datalist`)) inner.remove();
    return copy.textContent;
  }).join(" ").trim() || field.getAttribute("aria-label") || (field.getAttribute("aria-labelledby") ?? "").split(" ").map((id) => document.getElementById(id)?.textContent ?? "").join(" ").trim();

  /** Where the label above a field begins and ends; null without one. */
  function labelBox(field) {
    for (const label of field.labels ?? []) {
      for (const node of texts().filter((text) => label.contains(text))) {
        const [box] = rects(node);
        if (box && !node.parentElement.closest(FIELDS) && box.bottom <= boxOf(field).top + 3) return box;
      }
    }
    return null;
  }

  /** Fields without a label or, where one types what has rules, without help; labels of a row that are not on one line. */
  function formProblems() {
    const problems = [];
    const fields = all(FIELDS).filter(seen);
    for (const field of fields) {
      const name = nameOf(field);
      if (!name) problems.push(`${named(field)}: field without a label`);
      const free = field.matches("textarea, input:not([type]), input[type=text], input[type=number]");
      const described = (field.getAttribute("aria-describedby") ?? "").split(" ").some((id) => document.getElementById(id)?.textContent.trim());
      if (free && !described && !field.placeholder && name.split(/\s+/).length < 3) problems.push(`${named(field, name)}: field without help`);
    }
    const rows = new Map();
    for (const field of fields) {
      let row = field.parentElement;
      while (row && !(["flex", "grid", "inline-flex"].includes(styleOf(row).display) && row.querySelectorAll(FIELDS).length > 1)) row = row.parentElement;
      if (row && labelBox(field)) rows.set(row, [...(rows.get(row) ?? []), { field, label: labelBox(field), box: boxOf(field) }]);
    }
    for (const members of rows.values()) {
      for (const [at, left] of members.entries()) {
        for (const right of members.slice(at + 1)) {
          const shared = Math.min(left.box.bottom, right.box.bottom) - Math.max(left.label.top, right.label.top);
          if (shared < 0.5 * Math.min(left.box.bottom - left.label.top, right.box.bottom - right.label.top)) continue;
          const pair = `${named(left.field, nameOf(left.field))} and ${named(right.field, nameOf(right.field))}`;
          const [labels, edges] = [Math.abs(left.label.bottom - right.label.bottom), Math.abs(left.box.top - right.box.top)];
          if (labels > 1) problems.push(`${pair}: labels ${labels.toFixed()} px apart`);
          else if (edges > 2) problems.push(`${pair}: fields ${edges.toFixed()} px apart`);
        }
      }
    }
    return problems;
  }

  /** Buttons and fields that are shown though no script runs. */
  function deadControls() {
    return all(`main button, main ${FIELDS.replaceAll(", ", ", main ")}`).filter((control) => seen(control) && !control.form?.hasAttribute("action"))
      .map((control) => `${named(control)}: does nothing without JavaScript`);
  }

  /** Words that are seen on the page, and those of its sentence for browsers without scripts. */
  function shownWords() {
    const words = (nodes) => nodes.map((node) => node.data).join(" ").split(/\s+/).filter(Boolean).length;
    const shown = [...texts()];
    return [words(shown), words(shown.filter((node) => node.parentElement.closest("noscript"))), document.querySelectorAll("script[src]").length];
  }

  // Preparing ---------------------------------------------------------------------------------------------------
  /** Show all that can be opened, and load all pictures, also those far below. */
  function open() {
    for (const details of all("details")) details.open = true;
    for (const picture of all("img[loading=lazy]")) picture.loading = "eager";
  }

  /** Wait until nothing has changed for some milliseconds and pictures have arrived or failed. */
  async function quiet(milliseconds, most) {
    const end = performance.now() + most;
    let last = performance.now();
    const watch = new MutationObserver(() => { last = performance.now(); });
    watch.observe(document, { subtree: true, childList: true, characterData: true, attributes: true });
    const busy = () => document.readyState !== "complete" || performance.now() - last < milliseconds || [...document.images].some((image) => !image.complete);
    while (busy() && performance.now() < end) await new Promise((resolve) => { setTimeout(resolve, 15); });
    watch.disconnect();
  }

  //: A failure names this many elements of each kind; the others are mostly the same.
  const MOST = 8;

  /** What checks find, by their names. */
  const run = (names) => Object.fromEntries(names.map((name) => {
    const found = [...new Set(checks[name]())];
    return [name, found.length > MOST ? [...found.slice(0, MOST), `and ${found.length - MOST} more`] : found];
  }));

  return {
    run, brokenWords, squeezedTexts, contrastOfTexts, contrastOfShapes, contrastOfBoxes, contrastOfFields, emptyParts, emptyBoxes,
    tooWide, cutContent, cutOnWideScreens, waitingWords, formProblems, deadControls, shownWords, open, quiet,
  };
})();
