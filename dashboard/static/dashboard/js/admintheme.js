// The admin's theme is the dashboard's: the same cookie. No module, so that it is there before the page is drawn.

"use strict";

(() => {
  const root = document.documentElement;
  const chosen = document.cookie.match(/(?:^|; )theme=(light|dark)(?:;|$)/)?.[1];
  if (chosen) root.dataset.theme = chosen;

  document.addEventListener("click", async ({ target }) => {
    if (target.closest("[data-theme-switch]")) (await import("./theme.js")).toggleTheme();
  });
})();
