// The page of `shiftdata explore`: Embedding Atlas in the middle, and what is selected as Python or as keys.
// The component speaks to its host by messages, as in a notebook: each is a query, which the server answers.
import atlas from "../atlas.js";

const get = (id) => document.getElementById(id);
const state = { _props: null, _state: null, _predicate: null };
const listeners = { "msg:custom": [] };

async function post(path, body) {
  const answer = await fetch(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
  if (!answer.ok) throw new Error((await answer.json().catch(() => ({}))).error || `the server answered ${answer.status}`);
  return answer;
}

async function send({ uuid, type, sql }) {
  const heard = (message, buffers) => listeners["msg:custom"].forEach((listener) => listener({ uuid, ...message }, buffers));
  try {
    const answer = await post("query", { type, sql });
    if (type === "arrow") heard({ type }, [new DataView(await answer.arrayBuffer())]);
    else heard({ type, result: await answer.json() });
  } catch (error) {
    heard({ error: error.message });
  }
}

const model = {
  get: (name) => state[name],
  set(name, value) {
    const changed = name === "_predicate" && state[name] !== value;
    state[name] = value;
    if (changed) showSelection();
  },
  save_changes() {},
  on: (event, listener) => (listeners[event] ??= []).push(listener),
  off() {},
  send,
};

let latest = 0;
async function showSelection() {
  const mine = ++latest;
  try {
    const { rows, of, code } = await (await post("selection", { predicate: state._predicate })).json();
    if (mine !== latest) return;
    get("selected").textContent = rows === of ? `${of.toLocaleString("en")} rows` : `${rows.toLocaleString("en")} of ${of.toLocaleString("en")} rows selected`;
    get("text").textContent = code;
    get("error").textContent = "";
  } catch (error) {
    get("error").textContent = error.message;
  }
}

get("code").addEventListener("click", () => get("snippet").showModal());
get("close").addEventListener("click", () => get("snippet").close());
get("copy").addEventListener("click", () => navigator.clipboard.writeText(get("text").textContent));
get("keys").addEventListener("click", async () => {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await (await post("keys", { predicate: state._predicate })).blob());
  link.download = "keys.txt";
  link.click();
  URL.revokeObjectURL(link.href);
});

// The map of points is drawn by WebGPU with numbers of 16 bits; elsewhere it is a chart of counts.
const gpu = await navigator.gpu?.requestAdapter();
const points = Boolean(gpu?.features.has("shader-f16"));
get("no-points").hidden = points;
state._props = await (await fetch(`view.json?points=${Number(points)}`)).json();
atlas.initialize({ model });
atlas.render({ model, el: get("atlas") });
showSelection();
