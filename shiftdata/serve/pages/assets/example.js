// One example: its picture, the other appearances of its origin, all that is known of it, and how to load it.
"use strict";

(() => {
  const { page, make, state, labelName, nuisanceName, groupName, exampleUrl, example, picture, number, say } = shiftdata;
  const get = (id) => document.getElementById(id);
  const several = page.severities.length > 1;

  const copy = (text) => make("button", { type: "button", class: "copy", "data-copy": text, "aria-label": `copy ${text.slice(0, 60)}` }, "copy");
  const size = (bytes) => (bytes == null ? "" : `${number(bytes)} bytes`);

  function facts(row) {
    const list = [
      ["key", row.key, true], [page.label, labelName(row.label)], [page.nuisance, nuisanceName(row.nuisance)],
      ...(several ? [["severity", row.severity]] : []),
      ["split", row.split], ["fold", row.fold], ["origin", row.origin, true], ["quantile", row.quantile == null ? null : Number(row.quantile.toPrecision(3))],
      ["licence", row.license], ["attribution", row.attribution], ["size", size(row.length)], ["sha256", row.sha256, true],
      ["row", `${number(row.row)} of base ${row.base}`],
    ];
    return list.filter(([, value]) => value != null && value !== "").flatMap(([name, value, copied]) => [make("dt", {}, name),
      make("dd", copied ? { class: "mono" } : {}, String(value), ...(copied ? [" ", copy(String(value))] : []))]);
  }

  /** Code that loads exactly this example. */
  function code(row) {
    return `import shiftdata as sd\n\nds = sd.load_dataset("${page.name}", "${row.base}", split="${row.split}", streaming=True,\n`
      + `                     filters=[("key", "==", "${row.key}")])\nexample = next(iter(ds))\n\n`
      + `# or its bytes, and no others:\nfrom shiftdata.data.loading.byte_ranges import ExampleReader\n\n`
      + `data = ExampleReader("${page.name}", "${row.base}").read([${row.row}])[0]`;
  }

  function content(row, side) {
    if (page.modality === "image") return picture(row.base, row, side, groupName(row.label, row.nuisance));
    if (typeof row.text === "string") return make("blockquote", {}, row.text);
    return make("table", {}, make("tbody", {}, ...Object.entries(row.text || {}).map(([name, value]) => make("tr", {}, make("th", { scope: "row" }, name), make("td", { class: "n" }, String(value))))));
  }

  async function show() {
    const { base, key } = state();
    try {
      if (!key) throw new Error("the address names no example: choose one on the dataset's page");
      const row = { ...(await example(base || page.bases[0].name, key)), base: base || page.bases[0].name };
      document.title = `${row.key} · ${page.name}`;
      get("title").textContent = groupName(row.label, row.nuisance) + (several && row.severity != null ? `, severity ${row.severity}` : "");
      get("picture").replaceChildren(content(row, 320));
      get("facts").replaceChildren(...facts(row));
      get("params").textContent = JSON.stringify(row.params, null, 1);
      get("code").textContent = code(row);
      const list = row.appearances.map((one) => make("li", {}, make("a", { href: exampleUrl(row.base, one.key), "aria-current": one.key === row.key ? "true" : null },
        ...(page.modality === "image" ? [picture(row.base, one, 96)] : [make("span", { class: "text" }, typeof one.text === "string" ? one.text : "")]),
        make("span", { class: "under" }, `${nuisanceName(one.nuisance)}${several && one.severity != null ? ` ${one.severity}` : ""}`))));
      get("appearances").replaceChildren(...list);
      get("appearances-about").textContent = `${number(row.total ?? list.length)} rows of ${labelName(row.label)} have the origin ${row.origin}${page.live ? "" : " among the examples of this page"}`
        + `${row.total > list.length ? `; the first ${number(list.length)} are shown` : ""}.`;
      get("back").href = `${page.up}#${new URLSearchParams({ base: row.base, label: row.label, nuisance: row.nuisance })}`;
      get("error").textContent = "";
    } catch (error) {
      get("error").textContent = error.message;
      say(error.message);
    }
  }
  addEventListener("hashchange", show);
  show();
})();
