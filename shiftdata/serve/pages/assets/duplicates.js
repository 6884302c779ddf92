// Clusters of near-duplicates: their examples side by side, by distance and by splits.
"use strict";

(() => {
  const { page, make, state, remember, number, exampleUrl, picture, say } = shiftdata;
  const { base, threshold, clusters } = page.found;
  const get = (id) => document.getElementById(id);
  const STEP = 30;
  let most = STEP;

  /** The examples of a cluster that stay up to a distance; none if fewer than two do. */
  function members(cluster, distance) {
    const near = cluster.members.filter((member) => member.distance <= distance);
    return near.length > 1 ? near : [];
  }
  const several = (rows, name) => new Set(rows.map((row) => row[name])).size > 1;

  function content(row) {
    if (page.modality === "image") return picture(base, row, 96);
    return make("span", { class: "text" }, typeof row.text === "string" ? row.text : JSON.stringify(row.text ?? row.key));
  }

  function shown(cluster, rows) {
    const mixed = several(rows, "label");
    const name = (row) => page.labels[row.label] ?? "";
    const under = (row) => [row.split, ...(mixed ? [name(row)] : [])].join(", ");
    const list = rows.map((row) => make("li", {}, make("a", { href: exampleUrl(base, row.key), title: `${row.key}, origin ${row.origin}` },
      content(row), make("span", { class: "under" }, make("b", {}, under(row))), make("span", { class: "under" }, row.key))));
    const where = several(rows, "split") ? "across splits" : `within ${rows[0].split}`;
    return make("article", { class: "group" },
      make("h2", { class: mixed ? "minor bad" : "minor" }, mixed ? "different labels" : name(rows[0])),
      make("p", { class: "small soft" }, `${where}, distance ${cluster.distance.toFixed(3)}, ${cluster.kind}`), make("ul", { class: page.modality === "image" ? "row" : "row texts" }, ...list),
      cluster.more ? make("p", { class: "small soft" }, `and ${number(cluster.more)} more examples`) : null);
  }

  function show() {
    const distance = Number(state().distance ?? threshold);
    const across = state().across === "1";
    get("distance").value = distance;
    get("distance-now").textContent = distance;
    get("across").checked = across;
    const left = clusters.map((cluster) => [cluster, members(cluster, distance)])
      .filter(([, rows]) => rows.length && (!across || several(rows, "split")));
    const crossing = left.filter(([, rows]) => several(rows, "split")).length;
    get("count").textContent = `${number(left.length)} of ${number(clusters.length)} clusters, ${number(crossing)} of them across splits`;
    get("clusters").replaceChildren(...left.slice(0, most).map(([cluster, rows]) => shown(cluster, rows)));
    get("more").hidden = left.length <= most;
    get("more").textContent = `Show ${number(Math.min(STEP, left.length - most))} more`;
  }

  if (!clusters.length) return;
  const change = (changes) => { most = STEP; remember(changes); show(); };
  get("distance").addEventListener("input", ({ target }) => change({ distance: Number(target.value) < threshold ? target.value : null }));
  get("distance").addEventListener("change", () => say(get("count").textContent));
  get("across").addEventListener("change", ({ target }) => { change({ across: target.checked ? 1 : null }); say(get("count").textContent); });
  get("more").addEventListener("click", () => {
    const before = most;
    most += STEP;
    show();
    get("clusters").children[before]?.querySelector("a").focus();
  });
  addEventListener("hashchange", show);
  show();
})();
