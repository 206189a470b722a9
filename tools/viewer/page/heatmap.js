// Every cell at once: layer x step, one colour a cell; zoom, pan, a cell cursor, and the way into a microbatch.
"use strict";
(() => {
  const { h, select, choice, button, hover, tipAt, hideTip, speak, empty } = megaflux.elements;
  const { figure, panes } = megaflux.charts;
  const { metricOf, metricOptions, sideValues } = megaflux.metrics;
  const { format, theme } = megaflux;
  const view = { metric: "imbalance", side: "before", marks: true, maps: [] };

  const SIDES = [["before", "Before"], ["after", "After"], ["gain", "Gain"]];
  const hasBoth = (metric) => Boolean(metric && metric.before && metric.after);
  // A metric with one side only is shown on that side, whatever is chosen.
  const sideOf = (
    metric,
  ) => (hasBoth(metric) ? view.side : metric.plain ? "plain" : metric.before ? "before" : "after");

  // One range of colours for before and after, and for both traces: the 99.5th percentile keeps single cells from
  // washing out the rest.
  function domainFor(traces) {
    let [low, high] = [Infinity, -Infinity];
    for (const trace of traces) {
      const metric = metricOf(trace, view.metric);
      if (!metric) continue;
      const isGain = sideOf(metric) === "gain";
      for (const side of isGain ? ["gain"] : ["before", "after", "plain"]) {
        const values = side === "gain" ? sideValues(trace, metric, side) : metric[side];
        if (!values) continue;
        const span = trace.once(`span ${metric.key} ${side}`, () => {
          const sorted = megaflux.statistics.ascending(values);
          return sorted.length
            ? [sorted[0], megaflux.statistics.percentile(sorted, 0.995), sorted[sorted.length - 1]]
            : [0, 1, 1];
        });
        if (isGain) high = Math.max(high, Math.abs(span[0]), Math.abs(span[1]));
        else {[low, high] = [
            Math.min(
              low,
              metric.floor !== undefined ? Math.max(metric.floor, Math.min(span[0], metric.floor)) : span[0],
            ),
            Math.max(high, span[1]),
          ];}
      }
      if (isGain) low = -high;
    }
    if (!Number.isFinite(high)) return [0, 1];
    return high > low ? [low, high] : [low, low + 1];
  }

  function tipOf(trace, cell) {
    const [layer, step] = [trace.layerOf(cell), trace.stepOf(cell)];
    const metric = metricOf(trace, view.metric);
    const { before, after, plain } = metric;
    const gain = hasBoth(metric) && sideValues(trace, metric, "gain")[cell];
    const flags = trace.flagWords(cell);
    const detail = trace.detailOf(cell);
    return {
      key: cell,
      title: trace.cellWords(layer, step),
      rows: [
        before && [`${metric.label} before`, metric.write(before[cell]), "before-ink"],
        after && [after && before ? `${metric.label} after` : metric.label, metric.write(after[cell]), "after-ink"],
        plain && [metric.label, metric.write(plain[cell])],
        hasBoth(metric) && ["gain", format.signed(metric.write)(gain)],
        metric.key !== "imbalance" &&
        [
          "imbalance",
          `${format.ratio(trace.cells.imbalance_before[cell])} to ${format.ratio(trace.cells.imbalance_after[cell])}`,
        ],
        metric.key !== "rows" && ["rows", format.count(trace.cells.rows[cell])],
        metric.key !== "copies" && ["copies", format.count(trace.cells.copies[cell])],
        flags && ["flags", flags],
        ["full detail", detail >= 0 ? trace.whyWords(detail) : "no"],
      ],
    };
  }

  function listen(map, trace, app) {
    const { canvas } = map;
    const place = (event) => [event.offsetX, event.offsetY];
    let drag = null;
    hover(canvas, (event) => {
      if (drag && drag.moved) return null;
      const found = map.cellAt(...place(event));
      return found && tipOf(trace, found.cell);
    });
    canvas.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey && document.activeElement !== canvas) return;
      event.preventDefault();
      map.zoom(Math.exp(Math.max(-60, Math.min(60, event.deltaY)) / 250), ...place(event));
    }, { passive: false });
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button) return;
      drag = { at: place(event), from: place(event), brush: event.shiftKey, moved: false };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!drag) return;
      const at = place(event);
      if (Math.hypot(at[0] - drag.from[0], at[1] - drag.from[1]) > 4) drag.moved = true;
      if (drag.brush && drag.moved) {
        const box = [0, 1].map((axis) => d3.extent([drag.from[axis], at[axis]]));
        map.brushNode.attr("visibility", "visible").attr("x", box[0][0]).attr("width", box[0][1] - box[0][0]).attr(
          "y",
          box[1][0],
        ).attr("height", box[1][1] - box[1][0]);
      } else if (drag.moved && map.isZoomed) {
        map.pan(at[0] - drag.at[0], at[1] - drag.at[1]);
      }
      drag.at = at;
    });
    canvas.addEventListener("pointerup", (event) => {
      const { from, brush, moved } = drag || {};
      drag = null;
      map.brushNode.attr("visibility", "hidden");
      const at = place(event);
      if (moved && brush) {
        const [xs, ys] = [0, 1].map((axis) => d3.extent([from[axis], at[axis]]));
        map.look(xs.map(map.x.invert), ys.map(map.y.invert));
      } else if (!moved) {
        const found = map.cellAt(...at);
        if (found) app.openCell(trace, found.cell);
      }
    });
    canvas.addEventListener("pointercancel", () => {
      drag = null;
    });
    canvas.addEventListener("keydown", (event) => keyDown(event, map, trace, app));
    canvas.addEventListener("blur", hideTip);
  }

  function keyDown(event, map, trace, app) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const { layer, step } = app.placeIn(trace);
    const by = event.shiftKey ? 10 : 1;
    const to = {
      ArrowLeft: [layer, step - by],
      ArrowRight: [layer, step + by],
      ArrowUp: [layer - by, step],
      ArrowDown: [layer + by, step],
      PageUp: [layer - 10, step],
      PageDown: [layer + 10, step],
      Home: [layer, 0],
      End: [layer, trace.numSteps - 1],
    }[event.key];
    const box = map.boxOf(layer, step);
    const around = [box.x + box.width / 2, box.y + box.height / 2];
    if (to) {
      const next = {
        layer: Math.max(0, Math.min(trace.numLayers - 1, to[0])),
        step: Math.max(0, Math.min(trace.numSteps - 1, to[1])),
      };
      app.go(next, { replace: true });
      const tip = tipOf(trace, trace.cellOf(next.layer, next.step));
      const cell = map.boxOf(next.layer, next.step);
      tipAt(map.canvas, cell.x + cell.width, cell.y + cell.height, tip);
      speak(`${tip.title}: ${tip.rows.filter(Boolean).map(([name, value]) => `${name} ${value}`).join(", ")}`);
    } else if (event.key === "Enter") app.openCell(trace, trace.cellOf(layer, step));
    else if (event.key === "+" || event.key === "=") map.zoom(0.6, ...around);
    else if (event.key === "-") map.zoom(1 / 0.6, ...around);
    else if (event.key === "0") map.reset();
    else if (event.key === "Escape") hideTip();
    else return;
    event.preventDefault();
  }

  function drawMap(pane, trace, app, domain) {
    const metric = metricOf(trace, view.metric);
    if (!metric) {
      pane.append(
        empty(
          "Not in this trace",
          "This figure needs what the trace does not hold: a model's shape, sources of rows, or steps in time order.",
        ),
      );
      return;
    }
    const side = sideOf(metric);
    const isGain = side === "gain";
    const values = sideValues(trace, metric, side);
    const scale = isGain ? theme.colours().gain : theme.colours().heat;
    const from = isGain ? -1 : 0;
    const words = {
      before: "with fixed placement",
      after: "with replicas",
      gain: "improvement by the plan",
      plain: "as routed",
    }[side];
    let map;
    const act = (label, text, does) =>
      button(text, () => does(map), {
        class: "tool",
        "aria-label": label,
        title: label,
        "data-key": `heat-${label}-${trace.name}`,
      });
    const { node, body } = figure({
      key: `heatmap_${metric.key}_${side}`,
      trace,
      title: `${metric.label}, ${words}`,
      note: metric.explain,
      ramp: {
        low: metric.write(domain[0]),
        high: `${metric.write(domain[1])} and more`,
        colour: (t) => scale(from + (1 - from) * t),
      },
      controls: [
        act("Zoom in", "+", (m) => m.zoom(0.6)),
        act("Zoom out", "\u2212", (m) => m.zoom(1 / 0.6)),
        act("Show all", "All", (m) => m.reset()),
      ],
      csv: () => [
        [
          "layer_index",
          "model_layer",
          "step_index",
          metric.before && `${metric.key}_before`,
          metric.after && `${metric.key}_after`,
          metric.plain && metric.key,
        ].filter(Boolean),
        ...d3.range(trace.numCells).map((
          cell,
        ) => [
          trace.layerOf(cell),
          trace.modelLayer(trace.layerOf(cell)),
          trace.stepOf(cell),
          ...[metric.before, metric.after, metric.plain].filter(Boolean).map((all) => all[cell]),
        ]),
      ],
    });
    pane.append(node);
    map = new megaflux.HeatMapCanvas({
      body,
      trace,
      values,
      domain,
      isGain,
      pixels: theme.pixels(scale, from),
      showMarks: view.marks,
      write: metric.write,
      label:
        `Heat map of ${metric.label}, ${trace.numLayers} layers by ${trace.numSteps} steps. Arrow keys move the cursor, Enter opens the microbatch, plus and minus zoom, 0 shows all.`,
    });
    listen(map, trace, app);
    view.maps.push({ map, trace });
    const { layer, step } = app.placeIn(trace);
    map.setCursor(layer, step);
  }

  megaflux.views.push({
    id: "heatmap",
    nav: "Heat map",
    title: "Every layer of every step",
    takes: ["trace", "with"],
    lead:
      "Click a cell to open it. Ctrl + wheel or + and \u2212 zoom, dragging moves, Shift + drag picks a part; with the keyboard, arrows move the cursor and Enter opens.",
    draw(host, app) {
      view.maps = [];
      const again = () => app.redraw("heatmap");
      const both = app.traces.some((trace) => hasBoth(metricOf(trace, view.metric)));
      const marks = h("input", {
        type: "checkbox",
        checked: view.marks,
        "data-key": "heat-marks",
        on: {
          change: () => {
            view.marks = marks.checked;
            again();
          },
        },
      });
      host.append(
        h(
          "div",
          { class: "controls" },
          select({
            label: "Figure",
            key: "heat-metric",
            options: metricOptions(app.traces),
            value: view.metric,
            onChange: (value) => {
              view.metric = value;
              again();
            },
          }),
          both && choice({
            label: "Side",
            key: "heat-side",
            options: SIDES,
            value: view.side,
            onChange: (value) => {
              view.side = value;
              again();
            },
          }),
          h("label", { class: "field" }, marks, h("span", null, "mark cells with full detail")),
        ),
      );
      const domain = domainFor(app.traces);
      panes(host, app, (pane, trace) => {
        drawMap(pane, trace, app, domain);
        if (trace.details.chosen) {
          pane.append(h("p", { class: "faint small" }, `Full detail: ${trace.details.chosen}.`));
        }
      });
    },
    // The cursor follows without drawing all cells again.
    follow(app) {
      for (const { map, trace } of view.maps) {
        const { layer, step } = app.placeIn(trace);
        map.setCursor(layer, step, { reveal: true });
      }
    },
    swapSide() {
      view.side = view.side === "before" ? "after" : "before";
    },
  });
})();
