// How imbalance is spread over all cells, and the cells at the far end of it.
"use strict";
(() => {
  const { h, hover, button } = megaflux.elements;
  const { format } = megaflux;
  const { figure, drawing, xAxis } = megaflux.charts;

  // Before above the line, after below it, on one axis: how many cells have which imbalance.
  function histogram(pane, trace, domain) {
    const c = trace.cells;
    const bins = 72;
    const scale = d3.scaleLinear().domain(domain);
    const counts = ["before", "after"].map((side) => {
      const count = new Array(bins).fill(0);
      for (const value of c[`imbalance_${side}`]) {
        ++count[Math.min(bins - 1, Math.floor(((value - domain[0]) / (domain[1] - domain[0])) * bins))];
      }
      return count;
    });
    const edge = (bin) => domain[0] + ((domain[1] - domain[0]) * bin) / bins;
    const { node, body } = figure({
      key: "imbalance_distribution",
      trace,
      title: "How imbalance is spread over all cells",
      note: "a cell is one layer of one step; each side is scaled to its own largest bin",
      legend: [{ colour: "before", text: "fixed placement" }, { colour: "after", text: "with replicas" }],
      csv: () => [
        ["imbalance_from", "imbalance_to", "cells_before", "cells_after"],
        ...d3.range(bins).map((bin) => [edge(bin), edge(bin + 1), counts[0][bin], counts[1][bin]]),
      ],
    });
    pane.append(node);
    const { svg, g, width, height } = drawing(body, {
      height: 210,
      margin: { top: 8, right: 16, bottom: 44, left: 16 },
      label: "Histogram of the imbalance of all cells, before and after",
    });
    scale.range([0, width]);
    counts.forEach((count, side) =>
      count.forEach((value, bin) => {
        if (!value) return;
        const size = Math.max(1.5, ((height / 2 - 2) * value) / d3.max(count));
        g.append("rect").attr("class", side ? "after-fill" : "before-fill").attr("x", scale(edge(bin)) + 0.5).attr(
          "width",
          Math.max(1, width / bins - 1),
        )
          .attr("y", side ? height / 2 + 1 : height / 2 - 1 - size).attr("height", size).attr("rx", 1);
      })
    );
    g.append("line").attr("class", "base").attr("x2", width).attr("y1", height / 2).attr("y2", height / 2);
    xAxis(g, scale, height, "imbalance", { count: 8, write: d3.format(".3~f") });
    hover(svg, (event) => {
      const bin = Math.floor(((d3.clientPoint(g.node(), event)[0]) / width) * bins);
      if (bin < 0 || bin >= bins) return null;
      return {
        key: bin,
        title: `imbalance ${format.ratio(edge(bin))} to ${format.ratio(edge(bin + 1))}`,
        rows: [["fixed", `${format.count(counts[0][bin])} cells`, "before-ink"], [
          "with replicas",
          `${format.count(counts[1][bin])} cells`,
          "after-ink",
        ]],
      };
    });
  }

  function lookFirst(pane, trace, app) {
    const c = trace.cells;
    const lists = [["Worst without replicas", "before"], ["Worst with replicas", "after"]];
    const found = lists.map((
      [title, side],
    ) => [title, side, trace.once(`worst ${side}`, () => trace.worstCells(c[`imbalance_${side}`], 5))]);
    pane.append(h(
      "div",
      { class: "look-first" },
      found.map(([title, side, cells]) => {
        const { node, body } = figure({
          key: `worst_${side}`,
          trace,
          title,
          note: "open one to see its ranks and experts",
          png: false,
          csv: () => [
            ["layer_index", "model_layer", "step_index", "imbalance_before", "imbalance_after", "copies"],
            ...cells.map((
              cell,
            ) => [
              trace.layerOf(cell),
              trace.modelLayer(trace.layerOf(cell)),
              trace.stepOf(cell),
              c.imbalance_before[cell],
              c.imbalance_after[cell],
              c.copies[cell],
            ]),
          ],
        });
        body.append(
          h(
            "table",
            { class: "plain" },
            h(
              "thead",
              null,
              h("tr", null, ["cell", "before", "after", "copies"].map((name) => h("th", { scope: "col" }, name))),
            ),
            h(
              "tbody",
              null,
              cells.map((cell) =>
                h(
                  "tr",
                  null,
                  h(
                    "td",
                    null,
                    button(
                      trace.cellWords(trace.layerOf(cell), trace.stepOf(cell)),
                      () => app.openCell(trace, cell),
                      { class: "link", "data-key": `worst-${side}-${cell}`, "data-cell": cell },
                    ),
                  ),
                  h("td", { class: "before-ink" }, format.ratio(c.imbalance_before[cell])),
                  h("td", { class: "after-ink" }, format.ratio(c.imbalance_after[cell])),
                  h("td", null, format.count(c.copies[cell])),
                )
              ),
            ),
          ),
        );
        return node;
      }),
    ));
  }

  megaflux.spread = { histogram, lookFirst };
})();
