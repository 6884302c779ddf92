// The front page: search and filters over the datasets that stand in it.
"use strict";

(() => {
  const get = (id) => document.getElementById(id);
  const cards = [...document.querySelectorAll("[data-search]")];
  const kinds = [
    [[...document.querySelectorAll(".cards [data-search]")], "dataset", "datasets"],
    [[...document.querySelectorAll("#datasets tr[data-search]")], "other repository", "other repositories"],
  ];
  const given = new URLSearchParams(location.hash.slice(1));
  const fields = ["search", "shift", "licence"].map(get).filter(Boolean);

  function show() {
    const words = get("search").value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const card of cards) {
      card.hidden = !(words.every((word) => card.dataset.search.includes(word))
        && fields.slice(1).every((field) => !field.value || card.dataset[field.id].split("|").includes(field.value)));
    }
    for (const section of document.querySelectorAll("[data-section]")) section.hidden = !section.querySelector("[data-search]:not([hidden])");
    get("shown").textContent = kinds.filter(([all]) => all.length).map(([all, one, many]) => {
      const count = all.filter((card) => !card.hidden).length;
      return `${count === all.length ? count : `${count} of ${all.length}`} ${all.length === 1 ? one : many}`;
    }).join(", ");
    const state = new URLSearchParams(fields.filter((one) => one.value).map((one) => [one.id, one.value]));
    history.replaceState(null, "", `#${state}`);
  }
  for (const field of fields) {
    if (given.has(field.id)) field.value = given.get(field.id);
    field.addEventListener("input", show);
  }
  show();
})();
