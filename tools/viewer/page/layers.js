// Layer by layer: median, 90th percentile and largest value over the steps, before and after.
"use strict";
(() => {
  const { h, select, hover, walk, tipAt, speak } = megaflux.elements;
  const { figure, panes, drawing, yAxis, xAxis, roundIndices, domainOf } = megaflux.charts;
  const { metricOf, metricOptions } = megaflux.metrics;
  let chosen = "imbalance";

  const SIDES = [["before", "fixed placement"], ["after", "with replicas"], ["plain", "as routed"]];

  // [{side, name, layers: [{median, p90, max}]}] of a metric.
  function series(trace, metric) {
    return SIDES.filter(([side]) => metric[side]).map(([side, name]) => ({
      side,
      name,
      layers: d3.range(trace.numLayers).map((layer) => trace.ofLayer(`${metric.key} ${side}`, metric[side], layer)),
    }));
  }

  function tipOf(trace, metric, lines, layer) {
    const rows = lines.flatMap(({ side, name, layers }) =>
      ["median", "p90", "max"].map((key) => [`${name}, ${key}`, metric.write(layers[layer][key]), `${side}-ink`])
    );
    return { key: layer, title: trace.layerWords(layer), rows };
  }

  function drawLines(g, lines, x, y) {
    const at = (key) =>
      d3.line().defined((d) => Number.isFinite(d[key])).x((d, layer) => x(layer)).y((d) => y(d[key]));
    const band = d3.area().defined((d) => Number.isFinite(d.max)).x((d, layer) => x(layer)).y0((d) => y(d.median)).y1(
      (d) => y(d.max),
    );
    for (const { side, layers } of lines) {
      g.append("path").attr("class", `band ${side}-fill`).attr("d", band(layers));
      g.append("path").attr("class", `line thin dotted ${side}-line`).attr("d", at("max")(layers));
      g.append("path").attr("class", `line thin ${side}-line`).attr("d", at("p90")(layers));
      g.append("path").attr("class", `line ${side}-line`).attr("d", at("median")(layers));
      if (layers.length <= 40) {
        g.selectAll(null).data(layers).enter().filter((d) => Number.isFinite(d.median)).append("circle").attr(
          "class",
          `${side}-fill`,
        ).attr("r", 2.6)
          .attr("cx", (d) => x(layers.indexOf(d))).attr("cy", (d) => y(d.median));
      }
    }
  }

  function chart(pane, trace, app, domain) {
    const metric = metricOf(trace, chosen);
    if (!metric) {
      pane.append(
        megaflux.elements.empty(
          "Not in this trace",
          "This figure needs what the trace does not hold: a model's shape, sources of rows, or steps in time order.",
        ),
      );
      return;
    }
    const lines = series(trace, metric);
    const { node, body } = figure({
      key: `layers_${metric.key}`,
      trace,
      title: `${metric.label} by layer`,
      note: metric.explain,
      legend: [
        ...lines.map(({ side, name }) => ({ colour: side === "plain" ? "ideal" : side, text: name })),
        { colour: "ink-soft", look: "line-swatch", text: "median" },
        { colour: "ink-soft", look: "line-swatch thin", text: "90th percentile" },
        { colour: "ink-soft", look: "line-swatch dotted", text: "max" },
      ],
      csv: () => [
        [
          "layer_index",
          "model_layer",
          ...lines.flatMap(({ side }) => ["median", "p90", "max"].map((key) => `${metric.key}_${side}_${key}`)),
        ],
        ...d3.range(trace.numLayers).map((layer) => [
          layer,
          trace.modelLayer(layer),
          ...lines.flatMap(({ layers }) => ["median", "p90", "max"].map((key) => layers[layer][key])),
        ]),
      ],
    });
    pane.append(node);
    const { svg, g, width, height } = drawing(body, {
      height: 300,
      margin: { top: 12, right: 18, bottom: 46, left: 68 },
      label: `${metric.label} of ${trace.numLayers} layers. Arrow keys read the values.`,
    });
    const x = d3.scaleLinear().domain([0, Math.max(1, trace.numLayers - 1)]).range(
      trace.numLayers > 1 ? [0, width] : [width / 2, width],
    );
    const y = d3.scaleLinear().domain(domain).range([height, 0]).nice(5);
    y.domain([domain[0], y.domain()[1]]);
    yAxis(g, y, width, metric.axis);
    xAxis(g, x, height, trace.hasModelLayers ? "model layer" : "layer", {
      values: roundIndices(trace.numLayers, width / 42),
      write: (layer) => trace.modelLayer(layer),
    });
    const guide = g.append("line").attr("class", "guide").attr("y2", height).attr("visibility", "hidden");
    drawLines(g, lines, x, y);
    const layerAt = (event) =>
      Math.max(0, Math.min(trace.numLayers - 1, Math.round(x.invert(d3.clientPoint(g.node(), event)[0]))));
    const show = (layer) => {
      guide.attr("x1", x(layer)).attr("x2", x(layer)).attr("visibility", "visible");
    };
    const open = (layer) => app.openCell(trace, worstOfLayer(trace, layer));
    hover(svg, (event) => {
      const layer = layerAt(event);
      show(layer);
      return tipOf(trace, metric, lines, layer);
    });
    svg.addEventListener("pointerleave", () => guide.attr("visibility", "hidden"));
    svg.addEventListener("click", (event) => open(layerAt(event)));
    svg.classList.add("can-open");
    walk(svg, {
      count: () => trace.numLayers,
      open,
      show: (layer) => {
        const tip = tipOf(trace, metric, lines, layer);
        show(layer);
        tipAt(svg, x(layer) + 68, 20, tip);
        speak(`${tip.title}: ${tip.rows.map(([name, value]) => `${name} ${value}`).join(", ")}`);
      },
    });
  }

  // The worst cell of a layer; one with full detail, if there is any.
  function worstOfLayer(trace, layer) {
    const value = trace.cells.imbalance_before;
    const all = d3.range(trace.numSteps).map((step) => trace.cellOf(layer, step));
    const detailed = all.filter((cell) => trace.detailOf(cell) >= 0);
    return (detailed.length ? detailed : all).reduce((worst, cell) => (value[cell] > value[worst] ? cell : worst));
  }

  megaflux.views.push({
    id: "layers",
    nav: "Layers",
    title: "Layer by layer",
    takes: ["trace", "with"],
    lead: "Each layer over all its steps. Click a layer to open its worst microbatch.",
    draw(host, app) {
      host.append(h(
        "div",
        { class: "controls" },
        select({
          label: "Figure",
          key: "layers-metric",
          options: metricOptions(app.traces),
          value: chosen,
          onChange: (value) => {
            chosen = value;
            app.redraw("layers");
          },
        }),
      ));
      const shown = app.traces.map((trace) => [trace, metricOf(trace, chosen)]).filter(([, metric]) => metric);
      const tops = shown.flatMap(([trace, metric]) =>
        series(trace, metric).flatMap(({ layers }) => layers.flatMap(({ max, median }) => [max, median]))
      );
      const floor = shown.length && shown[0][1].floor;
      panes(host, app, (pane, trace) => chart(pane, trace, app, domainOf(tops, floor)));
    },
  });
})();
