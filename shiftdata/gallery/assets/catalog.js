// The front page: search and filters over the datasets that stand in it.
"use strict";

(() => {
  const get = (id) => document.getElementById(id);
  const cards = [...document.querySelectorAll("[data-search]")];
  const given = new URLSearchParams(location.hash.slice(1));
  const fields = ["search", "shift", "licence", "state"].map(get).filter(Boolean);

  function show() {
    const words = get("search").value.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    for (const card of cards) {
      const fits = words.every((word) => card.dataset.search.includes(word))
        && fields.slice(1).every((field) => !field.value || card.dataset[field.id].split("|").includes(field.value));
      card.hidden = !fits;
      count += fits;
    }
    for (const section of document.querySelectorAll("[data-section]")) section.hidden = !section.querySelector("[data-search]:not([hidden])");
    get("shown").textContent = count === cards.length ? `${count} datasets` : `${count} of ${cards.length} datasets`;
    const state = new URLSearchParams(fields.filter((one) => one.value).map((one) => [one.id, one.value]));
    history.replaceState(null, "", `#${state}`);
  }
  for (const field of fields) {
    if (given.has(field.id)) field.value = given.get(field.id);
    field.addEventListener("input", show);
  }
  show();
})();
