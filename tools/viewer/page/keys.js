// Keys that work anywhere in the page, and the card that lists all keys.
"use strict";
(() => {
  const { h, button } = megaflux.elements;

  const LIST = [
    ["1 to 7", "go to a section"],
    ["N, P", "next, previous cell with full detail"],
    ["B", "switch before, after (and both) in the section in view"],
    ["T", "dark, light, as the system"],
    ["?", "this list"],
    ["Tab", "walk through controls and charts"],
    ["arrows", "in the heat map: move the cell cursor, with Shift by ten; in a chart: read the values"],
    ["Enter", "open the cell under the cursor, follow the expert"],
    ["+, \u2212, 0", "in the heat map: closer, farther, all"],
    ["Esc", "close"],
  ];

  const card = h(
    "dialog",
    { class: "key-card", "aria-label": "Keys" },
    h("h2", null, "Keys"),
    h(
      "dl",
      null,
      LIST.map((
        [key, words],
      ) => [
        h("dt", null, key.split(", ").map((each, i) => [i ? " " : "", h("kbd", null, each)])),
        h("dd", null, words),
      ]),
    ),
    button("Close", () => card.close(), { class: "wide-button" }),
  );
  document.body.append(card);

  const isTyping = (node) =>
    /^(INPUT|SELECT|TEXTAREA)$/.test(node.tagName) && node.type !== "radio" && node.type !== "checkbox";

  function start(app) {
    addEventListener("keydown", (event) => {
      if (
        event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || isTyping(event.target) ||
        card.open
      ) return;
      const key = event.key.toLowerCase();
      if (/^[1-9]$/.test(key) && megaflux.views[key - 1]) app.openSection(megaflux.views[key - 1].id);
      else if (key === "n" || key === "p") app.goToDetail(key === "n" ? 1 : -1);
      else if (key === "b") app.swapSide();
      else if (key === "t") app.turnTheme();
      else if (key === "?") card.showModal();
      else return;
      event.preventDefault();
    });
  }

  megaflux.keys = { start, show: () => card.showModal() };
})();
