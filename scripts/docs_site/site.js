// What the theme leaves out for keyboards and screen readers; its script adds these parts when a page is open.
new MutationObserver(() => {
  // Buttons that copy code stand in a landmark for navigation, one a block: none of them is one.
  for (const nav of document.querySelectorAll("nav.md-code__nav:not([role])")) nav.setAttribute("role", "none");
  // A wide table scrolls sideways: by keys, too.
  for (const table of document.querySelectorAll(".md-typeset__scrollwrap:not([tabindex])")) table.tabIndex = 0;
}).observe(document.documentElement, { childList: true, subtree: true });
