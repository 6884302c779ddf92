// Labelling by keys: what is asked, what was set, what comes next. A label shows at once and is sent one after another.
"use strict";

(() => {
  const get = (id) => document.getElementById(id);
  const page = JSON.parse(get("data").textContent);
  const AHEAD = 4;
  const items = new Map();  // by number, as promises: what is near is asked for early, and kept
  let labels = new Map();
  let who = page.who;
  let [now, rows, waiting] = [0, 0, 0];
  let queue = Promise.resolve();

  history.replaceState(null, "", location.pathname + location.hash);  // the token leaves the address

  function make(tag, attributes = {}, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    node.append(...children);
    return node;
  }

  async function ask(path, body) {
    const options = body && { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ ...body, who, rows }) };
    const answer = await fetch(path, options).catch(() => { throw new Error("the server does not answer: is `shiftdata label` running?"); });
    const value = await answer.json().catch(() => ({}));
    if (!answer.ok) throw new Error(value.error || `the server answered ${answer.status}`);
    return value;
  }

  const say = (text) => { get("said").textContent = text; };
  const fail = (error) => { get("error").textContent = error.message; };
  const stored = { get: (name) => { try { return localStorage.getItem(name); } catch { return null; } }, set: (name, value) => { try { localStorage.setItem(name, value); } catch { /* the browser keeps nothing */ } } };

  /** An item, with its pictures on the way. */
  function item(number) {
    if (!items.has(number)) {
      const asked = ask(`/items/${number}`).then((one) => {
        one.ready = one.pictures.map(({ url }) => { const image = new Image(); image.src = url; return image; });
        return one;
      });
      asked.catch(() => items.delete(number));
      items.set(number, asked);
    }
    return items.get(number);
  }

  function ahead() {
    for (let next = now; next <= Math.min(now + AHEAD, page.total - 1); next += 1) item(next).catch(() => {});
    for (const number of items.keys()) if (Math.abs(number - now) > 3 * AHEAD) items.delete(number);
  }

  function figure(one, image, kind) {
    image.alt = one.caption;
    image.draggable = false;
    const box = make("figure", { class: kind }, image, make("figcaption", {}, one.caption));
    image.addEventListener("error", () => image.replaceWith(make("span", { class: "missing" }, "This picture cannot be shown")));
    return box;
  }

  function marks() {
    const set = labels.get(now);
    for (const button of get("answers").children) button.setAttribute("aria-pressed", button.dataset.label === set);
    get("progress").textContent = `${labels.size.toLocaleString("en")} of ${page.total.toLocaleString("en")}${waiting ? ", saving" : ""}; at ${(now + 1).toLocaleString("en")}`;
    get("bar").value = labels.size;
    get("back").disabled = now === 0;
    get("forth").disabled = now === page.total - 1;
  }

  async function show(number, before = "") {
    now = Math.max(0, Math.min(page.total - 1, number));
    history.replaceState(null, "", `#${now + 1}`);
    marks();
    ahead();
    const mine = now;
    try {
      const one = await item(mine);
      if (mine !== now) return;  // somebody is quicker
      get("pictures").replaceChildren(...one.pictures.map((part, at) => figure(part, one.ready[at], part.asked ? "" : "other")));
      get("facts").textContent = Object.entries(one.facts).map(([name, value]) => `${name}: ${value}`).join(" · ");
      get("key").textContent = one.title;
      get("trajectory").replaceChildren(...one.trajectory.map((part) => {
        const image = make("img", { src: part.url, loading: "lazy" });
        return figure(part, image, part.asked ? "now" : "");
      }));
      const facts = Object.values(one.facts).join(", ");
      say(`${before}${before ? ". " : ""}${mine + 1} of ${page.total}: ${facts}${labels.has(mine) ? `, labelled ${labels.get(mine)}` : ""}`);
    } catch (error) {
      if (mine === now) fail(error);
    }
  }

  /** The next one without a label: after this one, or else from the beginning. */
  function open(from) {
    for (let step = 1; step <= page.total; step += 1) {
      const number = (from + step) % page.total;
      if (!labels.has(number)) return number;
    }
    return null;
  }

  function goOn(before) {
    const next = open(now);
    if (next != null) return show(next, before);
    marks();
    return say(`${before}. All ${page.total} are labelled`);
  }

  function take(answer) {
    for (const [number, label] of Object.entries(answer.labels)) label ? labels.set(Number(number), label) : labels.delete(Number(number));
    rows = answer.rows;
  }

  /** Send one after another; what fails is shown again. */
  function send(act, number, before) {
    waiting += 1;
    queue = queue.then(act).then((answer) => { take(answer); get("error").textContent = ""; return answer; }).catch((error) => {
      if (number != null) { before ? labels.set(number, before) : labels.delete(number); show(number, "not saved"); }
      fail(new Error(`Not saved: ${error.message}`));
    }).finally(() => { waiting -= 1; marks(); });
    return queue;
  }

  async function put(label) {
    const number = now;
    const one = await item(number).catch(fail);
    if (!one || number !== now) return;
    const before = labels.get(number);
    labels.set(number, label);
    send(() => ask("/labels", { key: one.key, label }), number, before);
    goOn(label);
  }

  async function undo() {
    const answer = await send(() => ask("/undo", {}));
    if (!answer) return;
    if (answer.number != null) await show(answer.number, "taken back");
    else say("nothing to take back");
  }

  const acts = { n: () => goOn("skipped"), u: undo, ArrowLeft: () => show(now - 1), ArrowRight: () => show(now + 1), "?": () => get("help").showModal() };
  page.answers.forEach(([label, letter], at) => { acts[letter] = acts[at + 1] = () => put(label); });

  document.addEventListener("keydown", (event) => {
    const act = acts[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey || event.repeat || get("desk").hidden || get("help").open) return;
    if (!get("letters").checked || event.target.closest("input:not([type=checkbox]), textarea, select")) return;
    event.preventDefault();
    act();
  });
  get("answers").addEventListener("click", (event) => { const button = event.target.closest("button"); if (button) put(button.dataset.label); });
  for (const [id, key] of [["back", "ArrowLeft"], ["forth", "ArrowRight"], ["skip", "n"], ["undo", "u"], ["help-open", "?"]]) get(id).addEventListener("click", () => acts[key]());
  get("letters").checked = stored.get("shiftdata-label-keys") !== "off";
  get("letters").addEventListener("change", (event) => stored.set("shiftdata-label-keys", event.target.checked ? "on" : "off"));
  window.addEventListener("beforeunload", (event) => { if (waiting) event.preventDefault(); });
  window.addEventListener("hashchange", () => { const number = Number(location.hash.slice(1)) - 1; if (number >= 0 && number !== now) show(number); });

  async function begin() {
    try {
      take(await ask(`/state?${new URLSearchParams({ who })}`));
    } catch (error) {
      get("who-form").hidden = Boolean(page.who);
      get("desk").hidden = !page.who;
      return fail(error);
    }
    get("who-form").hidden = true;
    get("desk").hidden = false;
    get("who-now").textContent = `as ${who}`;
    const asked = Number(location.hash.slice(1)) - 1;
    return show(asked >= 0 ? asked : open(-1) ?? 0);
  }

  get("who-form").addEventListener("submit", (event) => {
    event.preventDefault();
    who = get("who").value.trim();
    stored.set("shiftdata-label-who", who);
    if (who) begin();
  });
  if (who) begin();
  else {
    get("who").value = stored.get("shiftdata-label-who") || "";
    get("who-form").hidden = false;
    get("who").select();
  }
})();
