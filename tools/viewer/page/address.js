// What is looked at (section, traces, layer, step, expert), kept in the part of the address behind '#', so that reload
// and Back work and a place can be passed on.
"use strict";
(() => {
  const FIELDS = ["section", "trace", "with", "layer", "step", "expert"];
  const listeners = [];
  let state = {};
  let settle = (wanted) => wanted; // makes any wish a valid state; the report sets it

  function parsed(hash) {
    const wanted = {};
    for (const [name, value] of new URLSearchParams(hash.replace(/^#/, ""))) {
      if (name === "section") wanted.section = value;
      else if (FIELDS.includes(name) && /^\d{1,9}$/.test(value)) wanted[name] = Number(value);
    }
    return wanted;
  }

  function written(from) {
    const kept = FIELDS.filter((name) => from[name] !== null && from[name] !== undefined);
    return `#${kept.map((name) => `${name}=${encodeURIComponent(from[name])}`).join("&")}`;
  }

  function become(next, origin) {
    const changed = FIELDS.filter((name) => next[name] !== state[name]);
    state = next;
    if (changed.length) { for (const listener of listeners) listener(new Set(changed), origin); }
  }

  // Changes some fields. `replace` leaves no entry for Back, for what follows the scroll position or an arrow key.
  function go(patch, { replace = false } = {}) {
    const next = settle({ ...state, ...patch });
    const hash = written(next);
    if (hash !== location.hash) {
      try {
        history[replace ? "replaceState" : "pushState"](null, "", hash);
      } catch (error) {
        if (replace) location.replace(hash);
        else location.hash = hash;
      }
    }
    become(next, "page");
  }

  function start(makeValid) {
    settle = makeValid;
    state = settle(parsed(location.hash));
    const follow = () => {
      const next = settle(parsed(location.hash));
      if (written(next) !== written(state)) become(next, "address");
    };
    addEventListener("hashchange", follow);
    addEventListener("popstate", follow);
    return state;
  }

  megaflux.address = {
    go,
    start,
    written,
    onChange: (listener) => listeners.push(listener),
    get state() {
      return state;
    },
  };
})();
