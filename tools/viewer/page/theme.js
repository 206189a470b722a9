// Dark, light or as the system has it; and the colours of the style sheet for what is drawn on canvases.
"use strict";
(() => {
  const KEY = "megaflux-report-theme";
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const listeners = [];
  let palette = null;

  // A page from disk may have no storage; then the choice lasts as long as the page.
  function remembered() {
    try {
      return localStorage.getItem(KEY);
    } catch (error) {
      return null;
    }
  }
  function remember(mode) {
    try {
      localStorage.setItem(KEY, mode);
    } catch (error) {
      // Nothing is lost but the memory of it.
    }
  }

  let mode = ["light", "dark"].includes(remembered()) ? remembered() : "auto";
  let onPaper = false;

  function apply() {
    const shown = onPaper ? "light" : mode === "auto" ? (system.matches ? "dark" : "light") : mode;
    root.dataset.theme = mode;
    if (root.dataset.shown === shown) return;
    root.dataset.shown = shown;
    palette = null;
    for (const listener of listeners) listener();
  }

  function set(next) {
    mode = next;
    remember(next);
    apply();
  }
  function setPaper(value) {
    onPaper = value;
    apply();
  }

  // The colours by name, and scales: heat(t) for magnitudes, gain(t) with t in [-1, 1], both ordered in lightness.
  function colours() {
    if (palette) return palette;
    const style = getComputedStyle(root);
    const named = {};
    for (
      const name of [
        "page",
        "surface",
        "sunken",
        "ink",
        "ink-soft",
        "ink-faint",
        "line",
        "grid",
        "before",
        "before-soft",
        "after",
        "after-soft",
        "ideal",
        "mark",
        "mark-halo",
        "focus",
      ]
    ) {
      named[name] = style.getPropertyValue(`--${name}`).trim();
    }
    const isDark = root.dataset.shown === "dark";
    const heat = d3.interpolateRgbBasis(
      isDark
        ? ["#1b212a", "#3a2160", "#7d2a6b", "#c44a55", "#ee8c4a", "#f8c987", "#fff6df"]
        : ["#f6f3ee", "#f7dcb4", "#f0ae72", "#dd6f4f", "#ad3763", "#6a1f69", "#2a0d45"],
    );
    const loss = d3.interpolateRgbBasis([named.sunken, named["before-soft"], named.before]);
    const win = d3.interpolateRgbBasis([named.sunken, named["after-soft"], named.after]);
    palette = { ...named, isDark, heat, gain: (t) => (t < 0 ? loss(-t) : win(t)) };
    return palette;
  }

  // 256 colours as 32-bit pixels, for image data.
  function pixels(scale, from = 0) {
    return Uint32Array.from({ length: 256 }, (_, i) => {
      const { r, g, b } = d3.rgb(scale(from + (1 - from) * (i / 255)));
      return ((255 << 24) | (Math.round(b) << 16) | (Math.round(g) << 8) | Math.round(r)) >>> 0;
    });
  }

  system.addEventListener("change", apply);
  apply();
  megaflux.theme = {
    set,
    setPaper,
    colours,
    pixels,
    onChange: (listener) => listeners.push(listener),
    get mode() {
      return mode;
    },
  };
})();
