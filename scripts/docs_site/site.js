// What the theme's script leaves out for keyboards and screen readers, for what it adds and for what it adds later.
new MutationObserver(() => {
  // Buttons that copy code stand in a landmark for navigation, one a block: none of them is one.
  for (const nav of document.querySelectorAll("nav.md-code__nav:not([role])")) nav.setAttribute("role", "none");
  // A wide table scrolls sideways: by keys, too.
  for (const table of document.querySelectorAll(".md-typeset__scrollwrap:not([tabindex])")) table.tabIndex = 0;
}).observe(document.documentElement, { childList: true, subtree: true });
