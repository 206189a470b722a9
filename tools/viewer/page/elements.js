// Building blocks of the page: elements, the tooltip, spoken messages, and choices. Text from a trace only ever
// becomes a text node.
"use strict";
window.megaflux = window.megaflux || {};
(() => {
  const SVG = "http://www.w3.org/2000/svg";

  function fill(node, attributes, children) {
    for (const [name, value] of Object.entries(attributes || {})) {
      if (value === null || value === undefined || value === false) continue;
      if (name === "on") {
        for (const [event, listener] of Object.entries(value)) node.addEventListener(event, listener);
      } else {
        node.setAttribute(name, value === true ? "" : String(value));
      }
    }
    for (const child of children.flat(Infinity)) {
      if (child === null || child === undefined || child === false) continue;
      node.append(child instanceof Node ? child : document.createTextNode(String(child)));
    }
    return node;
  }

  // h("p", {class: "x", on: {click: f}}, "text", node): an HTML element; s() makes an SVG one.
  const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
  const s = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

  // --- tooltip: a title and rows of [name, value] or [name, value, class] ---
  const tip = document.getElementById("tooltip");
  let tipKey = null;

  function showTip(x, y, title, rows, key) {
    if (key === undefined || key !== tipKey || tip.hidden) {
      tip.replaceChildren(
        h("div", { class: "tip-title" }, title),
        h(
          "dl",
          null,
          rows.filter(Boolean).map(([name, value, look]) => [h("dt", null, name), h("dd", { class: look }, value)]),
        ),
      );
      tipKey = key;
    }
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    const left = x + 16 + box.width > innerWidth - 8 ? x - 16 - box.width : x + 16;
    const top = y + 16 + box.height > innerHeight - 8 ? y - 16 - box.height : y + 16;
    tip.style.transform = `translate(${Math.max(8, left)}px, ${Math.max(8, top)}px)`;
  }
  const hideTip = () => {
    tip.hidden = true;
    tipKey = null;
  };

  // A tooltip on whatever `find(event)` says is under the pointer: {title, rows, key} or null.
  function hover(node, find) {
    node.addEventListener("pointermove", (event) => {
      const found = find(event);
      if (found) showTip(event.clientX, event.clientY, found.title, found.rows, found.key);
      else hideTip();
    });
    node.addEventListener("pointerleave", hideTip);
  }

  // Shows the tooltip beside a place inside `node`, for the keyboard.
  function tipAt(node, x, y, found) {
    const box = node.getBoundingClientRect();
    showTip(box.left + x, box.top + y, found.title, found.rows, found.key);
  }

  const spoken = document.getElementById("spoken");
  const speak = (text) => {
    spoken.textContent = text;
  };

  let groups = 0;
  // One of several: options [[value, label]], drawn as a row of segments; arrow keys come with radio buttons.
  function choice({ label, options, value, onChange, key }) {
    const name = `choice-${++groups}`;
    return h(
      "div",
      { class: "choice", role: "radiogroup", "aria-label": label },
      options.map(([each, text]) =>
        h(
          "label",
          null,
          h("input", {
            type: "radio",
            name,
            value: each,
            checked: each === value,
            "data-key": `${key}-${each}`,
            on: { change: () => onChange(each) },
          }),
          h("span", null, text),
        )
      ),
    );
  }

  // `badge` stands where the label would; the label is then for those who listen.
  function select({ label, options, value, onChange, key, badge }) {
    const box = h(
      "select",
      { "data-key": key, on: { change: () => onChange(box.value) } },
      options.map(([each, text]) => h("option", { value: each, selected: String(each) === String(value) }, text)),
    );
    return h(
      "label",
      { class: "field" },
      badge && h("span", { class: "badge", "aria-hidden": "true" }, badge),
      h("span", { class: badge ? "unseen" : "field-name" }, label),
      box,
    );
  }

  function number({ label, value, min, max, onChange, key, after }) {
    const box = h("input", {
      type: "number",
      min,
      max,
      step: 1,
      value,
      "data-key": key,
      inputmode: "numeric",
      on: {
        change: () => {
          const typed = Math.round(Number(box.value));
          const kept = Number.isFinite(typed) && box.value !== "" ? Math.min(max, Math.max(min, typed)) : value;
          box.value = kept;
          if (kept !== value) onChange(kept);
        },
      },
    });
    return h(
      "label",
      { class: "field" },
      h("span", { class: "field-name" }, label),
      box,
      after && h("span", { class: "faint" }, after),
    );
  }

  const button = (text, onClick, attributes) =>
    h("button", { type: "button", ...attributes, on: { click: onClick } }, text);

  const empty = (title, ...words) => h("div", { class: "empty" }, h("strong", null, title), h("p", null, words));

  // Arrow keys walk over items of a drawing: `count` items, `at(index)` shows one, `open(index)` acts on it.
  function walk(node, { count, step = 1, show, open, across }) {
    let index = -1;
    node.tabIndex = 0;
    node.addEventListener("keydown", (event) => {
      const by = { ArrowRight: step, ArrowLeft: -step, ArrowUp: across, ArrowDown: across && -across }[event.key];
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (by) index = index < 0 ? 0 : Math.min(count() - 1, Math.max(0, index + by));
      else if (event.key === "Home") index = 0;
      else if (event.key === "End") index = count() - 1;
      else if (event.key === "Escape") {
        hideTip();
        return;
      } else if (event.key === "Enter" && index >= 0 && open) {
        event.preventDefault();
        open(index);
        return;
      } else return;
      event.preventDefault();
      if (count() > 0) show(index);
    });
    node.addEventListener("blur", hideTip);
  }

  megaflux.elements = { h, s, showTip, hideTip, hover, tipAt, speak, choice, select, number, button, empty, walk };
})();
