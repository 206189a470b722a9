// One expert over the cells with full detail: its rows, and where and how often it has replicas.
"use strict";
(() => {
  const { h, number, button, hover, walk, tipAt, speak, empty } = megaflux.elements;
  const { figure, panes, drawing, yAxis, xAxis, roundIndices } = megaflux.charts;
  const { format } = megaflux;

  // Where one expert stands in each cell with full detail: rows, share of a fair part, replicas.
  function seen(trace, expert) {
    return trace.once(`expert ${expert}`, () =>
      Array.from(trace.detailCells, (cell, detail) => {
        const rows = trace.expertRows(detail);
        const total = trace.cells.rows[cell] || d3.sum(rows);
        const { instance_begin: begin, instance_expert: experts, instance_rank: ranks, instance_rows: given } =
          trace.details;
        const replicas = [];
        for (let i = begin[detail]; i < begin[detail + 1]; ++i) {
          if (experts[i] === expert && ranks[i] !== trace.ownerOf[expert]) {
            replicas.push({ rank: ranks[i], rows: given[i] });
          }
        }
        return {
          cell,
          layer: trace.layerOf(cell),
          step: trace.stepOf(cell),
          rows: rows[expert],
          fair: total / trace.numExperts,
          times: total ? (rows[expert] * trace.numExperts) / total : 0,
          replicas,
        };
      }));
  }

  function rowsByExpert(instances) {
    const found = new Map();
    for (const { expert, rows } of instances) found.set(expert, (found.get(expert) || 0) + rows);
    return found;
  }

  // Experts by how many cells of the layer with full detail have a replica of them.
  function mostReplicated(trace, layer, count) {
    const found = new Map();
    trace.detailCells.forEach((cell, detail) => {
      if (trace.layerOf(cell) !== layer) return;
      const replicas = trace.instances(detail, "after").filter(({ isReplica }) => isReplica);
      for (const [expert, rows] of rowsByExpert(replicas)) {
        const { times, all } = found.get(expert) || { times: 0, all: 0 };
        found.set(expert, { times: times + 1, all: all + rows });
      }
    });
    const order = ([one, a], [two, b]) => b.times - a.times || b.all - a.all || one - two;
    return [...found].sort(order).slice(0, count).map(([expert, { times }]) => [expert, times]);
  }

  // The experts that a reader will ask for, one click away.
  function suggestions(trace, app, { layer, chosen, most }) {
    if (!most.length) return null;
    const chips = most.map(([expert, times]) =>
      button(`${expert}`, () => app.go({ expert }), {
        class: expert === chosen ? "chip chosen" : "chip",
        "data-key": `expert-${expert}`,
        "aria-pressed": expert === chosen ? "true" : "false",
        "aria-label": `Expert ${expert}`,
        title: `replicated in ${format.count(times)} cells`,
      })
    );
    return h(
      "div",
      { class: "field", role: "group", "aria-label": "Most often replicated experts" },
      h("span", { class: "field-name" }, `Most often replicated in ${trace.layerWords(layer)}`),
      chips,
    );
  }

  function summary(trace, expert, layer, cells) {
    const replicated = cells.filter(({ replicas }) => replicas.length).length;
    const times = megaflux.statistics.distribution(Float32Array.from(cells, (each) => each.times));
    const facts = [
      ["Owner", `rank ${trace.ownerOf[expert]}`],
      ["Rows, median", cells.length ? `${format.factor(times.median)} a fair share` : format.MISSING],
      ["Rows, most", cells.length ? `${format.factor(times.max)} a fair share` : format.MISSING],
      ["Replicated in", `${format.count(replicated)} of ${format.count(cells.length)} cells`],
    ];
    return h(
      "dl",
      { class: "fact-row", "aria-label": `Expert ${expert} of ${trace.layerWords(layer)}` },
      facts.map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, value))),
    );
  }

  const tipOf = (trace, each) => ({
    key: each.cell,
    title: trace.cellWords(each.layer, each.step),
    rows: [["rows", format.rows(each.rows)], ["of a fair share", format.factor(each.times)], [
      "replicas",
      each.replicas.length
        ? each.replicas.map(({ rank, rows }) => `rank ${rank}: ${format.count(rows)}`).join(", ")
        : "none",
    ]],
  });

  // Bars of the layer's cells in order of time: the owner's rows below, those of replicas above.
  function rowsChart(pane, trace, app, { expert, layer, cells, top }) {
    const { node, body } = figure({
      key: "expert_rows",
      trace,
      place: `layer${layer}_expert${expert}`,
      title: `Rows of expert ${expert} in ${trace.layerWords(layer)}`,
      note: "cells with full detail, in order of steps; the line is a fair share, rows / experts",
      legend: [{ colour: "ideal", text: "computed by its owner" }, { colour: "after", text: "computed by replicas" }],
      csv: () => [
        ["layer_index", "step_index", "rows", "fair_share", "replica_ranks", "replica_rows"],
        ...cells.map((each) => [
          each.layer,
          each.step,
          each.rows,
          each.fair,
          each.replicas.map(({ rank }) => rank).join(" "),
          d3.sum(each.replicas, ({ rows }) => rows),
        ]),
      ],
    });
    pane.append(node);
    if (!cells.length) {
      body.append(
        empty(
          "No cell of this layer has full detail",
          "Choose another layer, or make the report again with ",
          h("code", null, `--detail ${layer}:STEP`),
          ".",
        ),
      );
      return;
    }
    const { svg, g, width, height } = drawing(body, {
      height: 260,
      margin: { top: 10, right: 16, bottom: 46, left: 68 },
      label: `Rows of expert ${expert}. Arrow keys read the values, Enter opens the microbatch.`,
    });
    const x = d3.scaleBand().domain(d3.range(cells.length)).range([0, Math.min(width, cells.length * 96)])
      .paddingInner(0.25).paddingOuter(0.15);
    const y = d3.scaleLinear().domain([0, top * 1.05 || 1]).range([height, 0]);
    yAxis(g, y, width, format.short);
    xAxis(g, x, height, "step", {
      values: roundIndices(cells.length, x.range()[1] / 44),
      write: (i) => (trace.entry.first_step || 0) + cells[i].step,
    });
    cells.forEach((each, i) => {
      const moved = d3.sum(each.replicas, ({ rows }) => rows);
      const bar = (from, to, look) =>
        to > from &&
        g.append("rect").attr("class", look).attr("x", x(i)).attr("width", x.bandwidth()).attr("y", y(to)).attr(
          "height",
          y(from) - y(to),
        ).attr("rx", Math.min(2, x.bandwidth() / 4));
      bar(0, each.rows - moved, "ideal-fill");
      bar(each.rows - moved, each.rows, "after-fill");
    });
    const fair = cells.map((each, i) => `M${x(i)},${y(each.fair)}h${x.bandwidth()}`).join("");
    g.append("path").attr("class", "tau-line solid").attr("d", fair);
    listen(svg, g, x, cells, trace, app);
  }

  function listen(svg, g, x, cells, trace, app) {
    const indexAt = (event) => {
      const i = Math.floor((d3.clientPoint(g.node(), event)[0] / x.range()[1]) * cells.length);
      return i >= 0 && i < cells.length ? i : -1;
    };
    svg.classList.add("can-open");
    hover(svg, (event) => (indexAt(event) < 0 ? null : tipOf(trace, cells[indexAt(event)])));
    svg.addEventListener("click", (event) => indexAt(event) >= 0 && app.openCell(trace, cells[indexAt(event)].cell));
    walk(svg, {
      count: () => cells.length,
      open: (i) => app.openCell(trace, cells[i].cell),
      show: (i) => {
        const tip = tipOf(trace, cells[i]);
        tipAt(svg, 68 + x(i) + x.bandwidth(), 30, tip);
        speak(`${tip.title}: ${tip.rows.map(([name, value]) => `${name} ${value}`).join(", ")}`);
      },
    });
  }

  // All layers at once; the same number in another layer is another expert, on the same owner.
  function everywhere(pane, trace, app, { expert, all, layer }) {
    const { node, body } = figure({
      key: "expert_everywhere",
      trace,
      place: `expert${expert}`,
      title: `Expert ${expert} of every layer`,
      note:
        "a circle is a cell with full detail, its area the rows as a multiple of a fair share; equal numbers in two layers are two experts",
      legend: [{ colour: "ideal", text: "on its owner only" }, { colour: "after", text: "with replicas" }],
      csv: () => [
        ["layer_index", "model_layer", "step_index", "rows", "times_fair_share", "replicas"],
        ...all.map((
          each,
        ) => [each.layer, trace.modelLayer(each.layer), each.step, each.rows, each.times, each.replicas.length]),
      ],
    });
    pane.append(node);
    const tall = Math.max(120, Math.min(420, trace.numLayers * 16));
    const { svg, g, width, height } = drawing(body, {
      height: tall + 56,
      margin: { top: 10, right: 16, bottom: 46, left: 68 },
      label: `Cells with full detail of expert ${expert}, by layer and step`,
    });
    const x = d3.scaleLinear().domain([-0.5, trace.numSteps - 0.5]).range([0, Math.min(width, trace.numSteps * 112)]);
    const y = d3.scaleLinear().domain([-0.5, trace.numLayers - 0.5]).range([0, height]);
    const radius = d3.scaleSqrt().domain([0, Math.max(4, d3.max(all, ({ times }) => times) || 0)]).range([
      0,
      Math.min(11, Math.max(5, height / trace.numLayers)),
    ]);
    const rows = roundIndices(trace.numLayers, height / 20);
    g.append("g").selectAll("line").data(rows).enter().append("line").attr("class", "grid-line").attr(
      "x2",
      x.range()[1],
    ).attr("y1", y).attr("y2", y);
    const axis = g.append("g").call(
      d3.axisLeft(y).tickValues(rows).tickSize(0).tickPadding(8).tickFormat((at) => trace.modelLayer(at)),
    ).attr("class", "axis y");
    axis.append("text").attr("class", "axis-title").attr("transform", `translate(-48,${height / 2}) rotate(-90)`)
      .text(trace.hasModelLayers ? "model layer" : "layer");
    xAxis(g, x, height, "step", {
      values: roundIndices(trace.numSteps, x.range()[1] / 56),
      write: (step) => (trace.entry.first_step || 0) + step,
    });
    g.append("rect").attr("class", "row-mark").attr("x", x.range()[0]).attr("width", x.range()[1]).attr(
      "y",
      y(layer - 0.5),
    ).attr("height", y(layer + 0.5) - y(layer - 0.5));
    const circles = g.append("g").selectAll("circle").data([...all].sort((a, b) => b.times - a.times)).enter().append(
      "circle",
    )
      .attr("class", (each) => `spot ${each.replicas.length ? "after-fill" : "hollow"}`).attr(
        "cx",
        (each) => x(each.step),
      ).attr("cy", (each) => y(each.layer)).attr("r", (each) => Math.max(1.2, radius(each.times)));
    const under = (event) => (event.target.tagName === "circle" ? d3.select(event.target).datum() : null);
    hover(svg, (event) => under(event) && tipOf(trace, under(event)));
    circles.on("click", (each) => app.openCell(trace, each.cell));
  }

  function hosts(pane, cells, { trace, expert, layer }) {
    const byRank = new Map();
    for (const { replicas } of cells) {
      for (const { rank, rows } of replicas) {
        const entry = byRank.get(rank) || { times: 0, rows: 0 };
        byRank.set(rank, { times: entry.times + 1, rows: entry.rows + rows });
      }
    }
    const list = [...byRank].sort((a, b) => b[1].times - a[1].times || a[0] - b[0]);
    if (!list.length) return;
    const { node, body } = figure({
      key: "expert_hosts",
      trace,
      place: `layer${layer}_expert${expert}`,
      title: "Ranks that held its replicas",
      note: `in ${trace.layerWords(layer)}`,
      png: false,
      csv: () => [["rank", "cells", "rows"], ...list.map(([rank, { times, rows }]) => [rank, times, rows])],
    });
    body.append(
      h(
        "div",
        { class: "scroll-box", tabindex: 0, role: "region", "aria-label": "Ranks that held its replicas" },
        h(
          "table",
          { class: "plain" },
          h(
            "thead",
            null,
            h("tr", null, ["rank", "cells", "of all", "rows"].map((name) => h("th", { scope: "col" }, name))),
          ),
          h(
            "tbody",
            null,
            list.map(([rank, { times, rows }]) =>
              h(
                "tr",
                null,
                h("td", null, `rank ${rank}`),
                h("td", null, format.count(times)),
                h("td", null, format.percent(times / cells.length)),
                h("td", null, format.count(rows)),
              )
            ),
          ),
        ),
      ),
    );
    pane.append(node);
  }

  megaflux.views.push({
    id: "expert",
    nav: "Expert",
    title: "One expert",
    takes: ["trace", "with", "layer", "expert"],
    lead: "Its rows and its replicas, over the cells with full detail.",
    draw(host, app) {
      const { layer } = app.placeIn(app.traces[0]);
      const most = mostReplicated(app.traces[0], layer, 8);
      // Until one is chosen, the one that is replicated most.
      const expert = app.state.expert === null && most.length ? most[0][0] : app.state.expert;
      host.append(
        h(
          "div",
          { class: "controls" },
          number({
            label: "Expert",
            key: "expert-number",
            value: expert === null ? "" : expert,
            min: 0,
            max: d3.max(app.traces, ({ numExperts }) => numExperts) - 1,
            onChange: (value) => app.go({ expert: value }),
          }),
          number({
            label: app.traces[0].hasModelLayers ? "Layer index" : "Layer",
            key: "expert-layer",
            value: layer,
            min: 0,
            max: app.maxLayer,
            onChange: (value) => app.go({ layer: value }),
          }),
          suggestions(app.traces[0], app, { layer, chosen: expert, most }),
        ),
      );
      const inLayer = (trace) => seen(trace, expert).filter((each) => each.layer === app.placeIn(trace).layer);
      const top = expert === null
        ? 1
        : d3.max(app.traces.filter(({ numExperts }) => expert < numExperts), (trace) =>
          d3.max(inLayer(trace), ({ rows, fair }) => Math.max(rows, fair))) || 1;
      panes(host, app, (pane, trace) => {
        const own = app.placeIn(trace).layer;
        if (!trace.detailCells.length) {
          pane.append(
            empty("No cell has full detail", "Make the report again with ", h("code", null, "--detail L:S"), "."),
          );
        } else if (expert === null) {
          pane.append(
            empty(
              "Choose an expert",
              `No expert of ${trace.layerWords(own)} has a replica in the cells with full detail. `,
              "Type the number of any above.",
            ),
          );
        } else if (expert >= trace.numExperts) {
          pane.append(empty("Not in this trace", `${trace.name} has ${format.count(trace.numExperts)} experts.`));
        } else {
          const cells = inLayer(trace);
          pane.append(summary(trace, expert, own, cells));
          rowsChart(pane, trace, app, { expert, layer: own, cells, top });
          everywhere(pane, trace, app, { expert, layer: own, all: seen(trace, expert) });
          hosts(pane, cells, { trace, expert, layer: own });
        }
      });
    },
  });
})();
