// How much of the set of replicas changes from step to step: what sharing slots between steps could save.
"use strict";
(() => {
  const { h, hover, walk, tipAt, speak, empty } = megaflux.elements;
  const { figure, panes, drawing, yAxis, xAxis, domainOf } = megaflux.charts;
  const { format } = megaflux;

  // Per step: mean copies and churn over layers, and the churn of one layer. Many steps share a point, as means.
  function byStep(trace, layer, most) {
    const { copies, churn } = trace.cells;
    const size = Math.max(1, Math.ceil(trace.numSteps / most));
    return d3.range(0, trace.numSteps, size).map((first) => {
      const last = Math.min(trace.numSteps, first + size);
      const sums = { copies: 0, churn: 0, cells: 0, own: 0, steps: 0 };
      for (let step = first; step < last; ++step) {
        for (let each = 0; each < trace.numLayers; ++each) {
          const cell = trace.cellOf(each, step);
          if (Number.isNaN(churn[cell])) continue;
          sums.cells += 1;
          sums.copies += copies[cell];
          sums.churn += churn[cell];
          if (each === layer) [sums.own, sums.steps] = [sums.own + churn[cell], sums.steps + 1];
        }
      }
      return {
        first,
        last: last - 1,
        copies: sums.copies / sums.cells,
        churn: sums.churn / sums.cells,
        own: sums.own / sums.steps,
      };
    });
  }

  function byLayer(trace) {
    const { copies, churn } = trace.cells;
    return trace.once("churn by layer", () =>
      d3.range(trace.numLayers).map((layer) => {
        const sums = { copies: 0, churn: 0 };
        for (let step = 0; step < trace.numSteps; ++step) {
          const cell = trace.cellOf(layer, step);
          if (Number.isNaN(churn[cell])) continue;
          sums.copies += copies[cell];
          sums.churn += churn[cell];
        }
        return { layer, ...sums, kept: sums.copies ? 1 - sums.churn / sums.copies : NaN };
      }));
  }

  const LINES = [["copies", "ideal", "copies, mean over layers"], ["churn", "after", "churn, mean over layers"], [
    "own",
    "ink",
    "churn of the chosen layer",
  ]];

  function overTime(pane, trace, layer, domain) {
    const { node, body } = figure({
      key: "churn",
      trace,
      title: "Copies and churn, step by step",
      note: `churn: replicas that the step before did not have; chosen layer: ${trace.layerWords(layer)}`,
      legend: LINES.map(([, colour, text]) => ({ colour, text })),
      csv: () => [
        ["step_index", "copies_mean", "churn_mean", "churn_of_layer"],
        ...byStep(trace, layer, trace.numSteps).map((d) => [d.first, d.copies, d.churn, d.own]),
      ],
    });
    pane.append(node);
    const { svg, g, width, height } = drawing(body, {
      height: 260,
      margin: { top: 10, right: 16, bottom: 46, left: 68 },
      label: "Copies and churn over steps. Arrow keys read the values.",
    });
    const points = byStep(trace, layer, Math.max(50, Math.floor(width / 2)));
    const x = d3.scaleLinear().domain([0, Math.max(1, trace.numSteps - 1)]).range([0, width]);
    const y = d3.scaleLinear().domain(domain).range([height, 0]).nice(5);
    yAxis(g, y, width, format.short);
    xAxis(g, x, height, "step", {
      count: Math.min(trace.numSteps, Math.floor(width / 70)),
      write: (step) => (Number.isInteger(step) ? (trace.entry.first_step || 0) + step : ""),
    });
    for (const [key, look] of LINES) {
      g.append("path").attr("class", `line ${key === "own" ? "thin" : ""} ${look}-line`).attr(
        "d",
        d3.line().defined((d) => Number.isFinite(d[key])).x((d) => x((d.first + d.last) / 2)).y((d) => y(d[key]))(
          points,
        ),
      );
    }
    const guide = g.append("line").attr("class", "guide").attr("y2", height).attr("visibility", "hidden");
    const tipOf = (i) => {
      const d = points[i];
      guide.attr("x1", x((d.first + d.last) / 2)).attr("x2", x((d.first + d.last) / 2)).attr("visibility", "visible");
      return {
        key: i,
        title: d.first === d.last ? trace.stepWords(d.first) : `steps ${d.first} to ${d.last}, means`,
        rows: LINES.map(([key, look, text]) => [text, format.mean(d[key]), `${look}-ink`]),
      };
    };
    hover(svg, (event) => {
      const at = x.invert(d3.clientPoint(g.node(), event)[0]);
      return tipOf(
        Math.max(0, Math.min(points.length - 1, Math.round((at / Math.max(1, trace.numSteps)) * points.length))),
      );
    });
    svg.addEventListener("pointerleave", () => guide.attr("visibility", "hidden"));
    walk(svg, {
      count: () => points.length,
      show: (i) => {
        const tip = tipOf(i);
        tipAt(svg, 68 + x(points[i].first), 30, tip);
        speak(`${tip.title}: ${tip.rows.map(([name, value]) => `${name} ${value}`).join(", ")}`);
      },
    });
  }

  function keptByLayer(pane, trace, app, layer) {
    const list = byLayer(trace);
    const { node, body } = figure({
      key: "kept_by_layer",
      trace,
      title: "Replicas kept from the step before, by layer",
      note: "a replica that stays where it was needs no copy if its slot is kept",
      csv: () => [
        ["layer_index", "model_layer", "copies", "churn", "kept"],
        ...list.map((d) => [d.layer, trace.modelLayer(d.layer), d.copies, d.churn, d.kept]),
      ],
    });
    pane.append(node);
    const { svg, g, width, height } = drawing(body, {
      height: 200,
      margin: { top: 10, right: 16, bottom: 46, left: 68 },
      label: "Share of replicas kept, by layer",
    });
    const x = d3.scaleBand().domain(d3.range(trace.numLayers)).range([0, Math.min(width, trace.numLayers * 96)])
      .paddingInner(0.22).paddingOuter(0.1);
    const y = d3.scaleLinear().domain([0, 1]).range([height, 0]);
    yAxis(g, y, width, d3.format(".0%"), 4);
    xAxis(g, x, height, trace.hasModelLayers ? "model layer" : "layer", {
      values: megaflux.charts.roundIndices(trace.numLayers, x.range()[1] / 34),
      write: (each) => trace.modelLayer(each),
    });
    g.selectAll(".kept").data(list.filter(({ kept }) => Number.isFinite(kept))).enter().append("rect").attr(
      "class",
      (d) => `kept ${d.layer === layer ? "ink-fill" : "after-fill"}`,
    )
      .attr("x", (d) => x(d.layer)).attr("width", x.bandwidth()).attr("y", (d) => y(Math.max(0, d.kept))).attr(
        "height",
        (d) => height - y(Math.max(0, d.kept)),
      ).attr("rx", Math.min(2, x.bandwidth() / 4));
    const at = (event) => Math.floor((d3.clientPoint(g.node(), event)[0] / x.range()[1]) * trace.numLayers);
    hover(svg, (event) => {
      const d = list[at(event)];
      return d
        ? {
          key: d.layer,
          title: trace.layerWords(d.layer),
          rows: [["kept", format.percent(d.kept)], ["copies in all", format.count(d.copies)], [
            "of them new",
            format.count(d.churn),
          ]],
        }
        : null;
    });
    svg.addEventListener("click", (event) => list[at(event)] && app.go({ layer: at(event) }));
    svg.classList.add("can-open");
  }

  megaflux.views.push({
    id: "churn",
    nav: "Churn",
    title: "Copy churn over time",
    takes: ["trace", "with", "layer"],
    lead: "How many replicas of a step are new, and how many were there a step before.",
    draw(host, app) {
      const timed = app.traces.filter((trace) => trace.cells.churn && trace.entry.time_ordered && trace.numSteps > 1);
      const tops = timed.flatMap((trace) =>
        byStep(trace, app.placeIn(trace).layer, 600).flatMap(({ copies, churn, own }) => [copies, churn, own])
      );
      panes(host, app, (pane, trace) => {
        if (!timed.includes(trace)) {
          pane.append(
            trace.entry.time_ordered && trace.cells.churn
              ? empty("One step only", "Churn compares a step with the one before.")
              : empty(
                "Steps are not in time order",
                "This trace does not say that its steps followed each other, so there is no step before to compare with.",
              ),
          );
          return;
        }
        const all = byLayer(trace);
        const [copies, churn] = [d3.sum(all, (d) => d.copies), d3.sum(all, (d) => d.churn)];
        const { layer } = app.placeIn(trace);
        const shape = trace.cells.moved_bytes && trace.overall("copies", trace.cells.copies).mean
          ? trace.overall("moved_bytes", trace.cells.moved_bytes).mean /
            trace.overall("copies", trace.cells.copies).mean
          : null;
        pane.append(
          h(
            "dl",
            { class: "fact-row" },
            [["Copies", format.count(copies)], ["New since the step before", format.percent(churn / copies)], [
              "Kept",
              format.percent(1 - churn / copies),
            ], shape && ["Weights of one copy", format.bytes(shape)]]
              .filter(Boolean).map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, value))),
          ),
        );
        overTime(pane, trace, layer, domainOf(tops, 0));
        keptByLayer(pane, trace, app, layer);
      });
    },
  });
})();
