// Starts the page: reads the data, lays out the sections, and draws each when it comes into sight or time allows.
"use strict";
(() => {
  const { h, choice, select, button, speak, hideTip } = megaflux.elements;
  const { address, theme, views } = megaflux;
  const main = document.getElementById("report");
  const sections = new Map(); // id -> {view, node, host, isDirty, isVisible}
  let report = null;
  let isSpyPaused = true;

  const app = {
    get state() {
      return address.state;
    },
    get traces() {
      const { trace, with: other } = address.state;
      return [report.traces[trace], ...(other === null ? [] : [report.traces[other]])];
    },
    get maxLayer() {
      return d3.max(app.traces, ({ numLayers }) => numLayers) - 1;
    },
    get maxStep() {
      return d3.max(app.traces, ({ numSteps }) => numSteps) - 1;
    },
    go: address.go,
    redraw(id) {
      sections.get(id).isDirty = true;
      schedule();
    },
    // The chosen layer and step as far as the trace has them.
    placeIn(trace) {
      const { layer, step } = address.state;
      return {
        layer: Math.min(layer, trace.numLayers - 1),
        step: Math.min(step, trace.numSteps - 1),
        isInside: layer < trace.numLayers && step < trace.numSteps,
      };
    },
    goToCell(trace, cell) {
      if (cell !== undefined) address.go({ layer: trace.layerOf(cell), step: trace.stepOf(cell) });
    },
    openCell(trace, cell) {
      const [layer, step] = [trace.layerOf(cell), trace.stepOf(cell)];
      address.go({ section: "microbatch", layer, step });
      show("microbatch");
      speak(`Opened ${trace.cellWords(layer, step)}`);
    },
    openExpert(trace, expert) {
      address.go({ section: "expert", expert });
      show("expert");
      speak(`Opened expert ${expert}`);
    },
    openSection(id) {
      address.go({ section: id });
      show(id);
    },
    goToDetail(by) {
      const [trace] = app.traces;
      const { layer, step } = app.placeIn(trace);
      const at = trace.cellOf(layer, step);
      const cells = trace.detailCells;
      app.goToCell(trace, by > 0 ? cells[d3.bisectRight(cells, at)] : cells[d3.bisectLeft(cells, at) - 1]);
    },
    swapSide() {
      const { view } = sections.get(address.state.section);
      if (!view.swapSide) return;
      view.swapSide();
      app.redraw(view.id);
    },
    turnTheme() {
      theme.set({ auto: "light", light: "dark", dark: "auto" }[theme.mode]);
      layTools();
      speak(`Colours: ${theme.mode}`);
    },
  };

  // Any wish, such as an address typed by hand, becomes a place that exists.
  function settled(wanted) {
    const whole = (
      value,
      count,
      otherwise,
    ) => (Number.isInteger(value) && value >= 0 && value < count ? value : otherwise);
    const trace = whole(wanted.trace, report.traces.length, 0);
    let other = whole(wanted.with, report.traces.length, null);
    if (other === trace) other = null;
    const shown = [report.traces[trace], ...(other === null ? [] : [report.traces[other]])];
    const worst = shown[0].worstCell;
    return {
      section: views.some(({ id }) => id === wanted.section) ? wanted.section : "overview",
      trace,
      with: other,
      layer: whole(wanted.layer, d3.max(shown, ({ numLayers }) => numLayers), shown[0].layerOf(worst)),
      step: whole(wanted.step, d3.max(shown, ({ numSteps }) => numSteps), shown[0].stepOf(worst)),
      expert: whole(wanted.expert, d3.max(shown, ({ numExperts }) => numExperts), null),
    };
  }

  function draw(section) {
    section.isDirty = false;
    hideTip();
    const active = section.host.contains(document.activeElement) ? document.activeElement : null;
    const key = active && active.dataset.key;
    // The height stays while the old content is gone, so that the page does not jump.
    section.host.style.minHeight = `${section.host.offsetHeight}px`;
    section.host.replaceChildren();
    section.view.draw(section.host, app);
    section.host.style.minHeight = "";
    section.node.classList.add("drawn");
    if (key) {
      const again = section.host.querySelector(`[data-key="${CSS.escape(key)}"]`);
      if (again) again.focus({ preventScroll: true });
    }
  }

  let isScheduled = false;
  function schedule() {
    if (isScheduled) return;
    isScheduled = true;
    requestAnimationFrame(() => {
      isScheduled = false;
      for (const section of sections.values()) if (section.isDirty && section.isVisible) draw(section);
      idle();
    });
  }

  // What is out of sight is drawn in spare time, one section at a go.
  const whenIdle = window.requestIdleCallback || ((task) => setTimeout(task, 60));
  function idle() {
    whenIdle(() => {
      const next = [...sections.values()].find(({ isDirty }) => isDirty);
      if (!next) return;
      draw(next);
      idle();
    });
  }

  function show(id, { focus = true } = {}) {
    isSpyPaused = true;
    for (const section of sections.values()) {
      if (section.isDirty) draw(section);
      if (section.view.id === id) break;
    }
    const { node } = sections.get(id);
    node.scrollIntoView({ block: "start" });
    if (focus) node.querySelector("h2").focus({ preventScroll: true });
    markNav();
    setTimeout(() => {
      isSpyPaused = false;
    }, 300);
  }

  function markNav() {
    for (const link of document.querySelectorAll(".sections a")) {
      if (link.dataset.section === address.state.section) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
  }

  function laySections() {
    const nav = document.querySelector(".sections");
    for (const view of views) {
      const name = `title-${view.id}`;
      const host = h("div", { class: "section-host" });
      const node = h(
        "section",
        { id: `section-${view.id}`, class: `section section-${view.id}`, "aria-labelledby": name },
        h(
          "div",
          { class: "section-head" },
          h("h2", { id: name, tabindex: -1 }, view.title),
          view.lead && h("p", { class: "soft" }, view.lead),
        ),
        host,
      );
      main.append(node);
      sections.set(view.id, { view, node, host, isDirty: true, isVisible: false });
      nav.append(h("a", {
        href: `#section=${view.id}`,
        "data-section": view.id,
        on: {
          click: (event) => {
            event.preventDefault();
            app.openSection(view.id);
          },
        },
      }, view.nav));
    }
  }

  function layTools() {
    const names = report.traces.map(({ name }, index) => [index, name]);
    const { trace, with: other } = address.state;
    document.querySelector(".tools").replaceChildren(...[
      names.length > 1
        ? select({
          label: "Trace A",
          badge: "A",
          key: "trace-a",
          options: names,
          value: trace,
          onChange: (value) => address.go({ trace: Number(value), with: other === Number(value) ? trace : other }),
        })
        : h("span", { class: "trace-name", title: names[0][1] }, names[0][1]),
      names.length > 1 &&
      select({
        label: "Trace B, beside A",
        badge: "B",
        key: "trace-b",
        options: [["", "none"], ...names.filter(([index]) => index !== trace)],
        value: other === null ? "" : other,
        onChange: (value) => address.go({ with: value === "" ? null : Number(value) }),
      }),
      choice({
        label: "Colours",
        key: "theme",
        options: [["auto", "Auto"], ["light", "Light"], ["dark", "Dark"]],
        value: theme.mode,
        onChange: (value) => theme.set(value),
      }),
      button("?", () => megaflux.keys.show(), { class: "tool round", title: "Keys", "aria-label": "Keys" }),
    ].filter(Boolean));
  }

  function dirtyAll() {
    for (const section of sections.values()) section.isDirty = true;
  }

  function watch() {
    const near = new IntersectionObserver((entries) => {
      for (const { target, isIntersecting } of entries) {
        sections.get(target.id.replace("section-", "")).isVisible = isIntersecting;
      }
      schedule();
    }, { rootMargin: "300px 0px" });
    const spy = new IntersectionObserver((entries) => {
      const found = entries.find(({ isIntersecting }) => isIntersecting);
      if (!found || isSpyPaused) return;
      address.go({ section: found.target.id.replace("section-", "") }, { replace: true });
    }, { rootMargin: "-25% 0px -70% 0px" });
    for (const { node } of sections.values()) {
      near.observe(node);
      spy.observe(node);
    }
    let width = main.clientWidth;
    const top = document.querySelector(".top");
    new ResizeObserver(() => document.documentElement.style.setProperty("--top", `${top.offsetHeight}px`)).observe(
      top,
    );
    new ResizeObserver(() => {
      if (Math.abs(main.clientWidth - width) < 2 || document.body.classList.contains("on-paper")) return;
      width = main.clientWidth;
      dirtyAll();
      schedule();
    }).observe(main);
    address.onChange(follow);
    theme.onChange(() => {
      dirtyAll();
      schedule();
    });
  }

  function follow(changed, origin) {
    for (const section of sections.values()) {
      if (section.view.takes.some((field) => changed.has(field))) section.isDirty = true;
      else if (section.view.follow && !section.isDirty && (changed.has("layer") || changed.has("step"))) {
        section.view.follow(app);
      }
    }
    if (changed.has("trace") || changed.has("with")) layTools();
    markNav();
    schedule();
    if (origin === "address") show(address.state.section, { focus: false });
  }

  // Paper is white and narrow, and shows every section.
  function watchPaper() {
    const turn = (isPaper) => {
      document.body.classList.toggle("on-paper", isPaper);
      theme.setPaper(isPaper);
      dirtyAll();
      if (isPaper) { for (const section of sections.values()) draw(section); }
      else schedule();
    };
    addEventListener("beforeprint", () => turn(true));
    addEventListener("afterprint", () => turn(false));
  }

  function layFoot() {
    document.querySelector(".foot").append(
      h("p", null, `Made by megaflux ${report.version} with `, h("code", null, report.command)),
      h(
        "p",
        null,
        "One file, no network. Drawn with D3, copyright Mike Bostock, BSD 3-Clause licence; its text stands in the source of this page.",
      ),
    );
  }

  function fail(error) {
    const isOurs = error instanceof megaflux.payload.ReportError;
    document.getElementById("notice").replaceChildren(
      h(
        "div",
        { class: "notice" },
        h("strong", null, "This report cannot be shown"),
        h("p", null, isOurs ? error.message : `Something in the page went wrong: ${error.message}`),
      ),
    );
    document.body.classList.add("failed");
    window.megafluxFailed = String(error.message);
    if (!isOurs) throw error;
  }

  async function start() {
    report = await megaflux.payload.read();
    address.start(settled);
    document.title = `${report.traces.map(({ name }) => name).join(", ")} \u2013 megaflux report`;
    laySections();
    layTools();
    layFoot();
    watchPaper();
    megaflux.keys.start(app);
    markNav();
    draw(sections.get("overview"));
    watch();
    if (address.state.section !== "overview") show(address.state.section, { focus: false });
    else {setTimeout(() => {
        isSpyPaused = false;
      }, 300);}
    document.querySelector("[data-skip]").addEventListener("click", (event) => {
      event.preventDefault();
      main.focus();
    });
    requestAnimationFrame(() =>
      setTimeout(() => {
        window.megafluxReady = performance.now();
      })
    );
  }

  megaflux.app = app;
  start().catch(fail);
})();
