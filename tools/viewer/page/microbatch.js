// One layer of one step: its figures before and after, its ranks, their experts, the traffic, and the replicas.
"use strict";
(() => {
  const { h, choice, number, button, empty, select } = megaflux.elements;
  const { figure, panes } = megaflux.charts;
  const { metricsOf } = megaflux.metrics;
  const { format } = megaflux;
  const view = { mode: "both" };

  function controls(host, app) {
    const [trace] = app.traces;
    const { layer, step } = app.placeIn(trace);
    const at = trace.cellOf(layer, step);
    const cells = trace.detailCells;
    const [before, after] = [cells[d3.bisectLeft(cells, at) - 1], cells[d3.bisectRight(cells, at)]];
    const jump = (text, cell, words, key) =>
      button(text, () => app.goToCell(trace, cell), {
        disabled: cell === undefined,
        title: words,
        "aria-label": words,
        "data-key": key,
      });
    host.append(
      h(
        "div",
        { class: "controls" },
        number({
          label: trace.hasModelLayers ? "Layer index" : "Layer",
          key: "cell-layer",
          value: layer,
          min: 0,
          max: app.maxLayer,
          onChange: (value) => app.go({ layer: value }),
        }),
        trace.hasModelLayers &&
          select({
            label: "Model layer",
            key: "cell-model-layer",
            value: layer,
            options: d3.range(trace.numLayers).map((index) => [index, trace.modelLayer(index)]),
            onChange: (value) => app.go({ layer: Number(value) }),
          }),
        number({
          label: trace.entry.first_step ? "Step index" : "Step",
          key: "cell-step",
          value: step,
          min: 0,
          max: app.maxStep,
          onChange: (value) => app.go({ step: value }),
        }),
        h(
          "div",
          { class: "button-row", role: "group", "aria-label": "Cells with full detail" },
          jump("\u2190 Previous", before, "Previous cell with full detail", "cell-previous"),
          jump("Next \u2192", after, "Next cell with full detail", "cell-next"),
          jump(
            "Worst",
            cells.length ? trace.worstCell : undefined,
            "The cell with full detail whose imbalance is largest without replicas",
            "cell-worst",
          ),
        ),
        choice({
          label: "Placement shown",
          key: "cell-mode",
          options: [["before", "Before"], ["after", "After"], ["both", "Both"]],
          value: view.mode,
          onChange: (value) => {
            view.mode = value;
            app.redraw("microbatch");
          },
        }),
      ),
    );
  }

  // Every figure of the cell as a row: before, after.
  function facts(trace, cell, place) {
    const rows = metricsOf(trace).filter(({ key }) => key !== "rows").map((metric) => ({
      metric,
      before: metric.before && metric.before[cell],
      after: metric.after && metric.after[cell],
      plain: metric.plain && metric.plain[cell],
    }));
    const { node, body } = figure({
      key: "cell_figures",
      trace,
      place,
      title: "Figures of this microbatch",
      png: false,
      csv: () => [
        ["figure", "before", "after"],
        ...rows.map((
          { metric, before, after, plain },
        ) => [metric.label, plain === undefined ? before : plain, after]),
      ],
    });
    body.append(
      h(
        "table",
        { class: "plain facts" },
        h(
          "thead",
          null,
          h(
            "tr",
            null,
            h("th", { scope: "col" }, "figure"),
            h("th", { scope: "col" }, "before"),
            h("th", { scope: "col" }, "after"),
          ),
        ),
        h(
          "tbody",
          null,
          rows.map(({ metric, before, after, plain }) =>
            h(
              "tr",
              null,
              h("th", { scope: "row", title: metric.explain }, metric.label),
              plain !== undefined ? h("td", { colspan: 2, class: "spread" }, metric.write(plain)) : [
                h("td", { class: "before-ink" }, before === undefined ? "" : metric.write(before)),
                h("td", { class: "after-ink" }, after === undefined ? "" : metric.write(after)),
              ],
            )
          ),
        ),
      ),
    );
    return node;
  }

  function replicaTable(trace, detail, app, place) {
    const rows = trace.expertRows(detail);
    const replicas = trace.instances(detail, "after").filter(({ isReplica }) => isReplica).sort((a, b) =>
      b.rows - a.rows
    );
    const { node, body } = figure({
      key: "replicas",
      trace,
      place,
      title: `Replicas (${format.count(replicas.length)})`,
      note: "experts with a second place to run; open one to follow it",
      png: false,
      csv: () => [
        ["expert", "owner", "rank", "rows", "rows_of_expert"],
        ...replicas.map((r) => [r.expert, trace.ownerOf[r.expert], r.rank, r.rows, rows[r.expert]]),
      ],
    });
    if (!replicas.length) {
      body.append(
        empty("No replicas", "Every expert runs on its owner here: the plan found no copy worth its place."),
      );
      return node;
    }
    body.append(
      h(
        "div",
        { class: "scroll-box", tabindex: 0, role: "region", "aria-label": "Replicas" },
        h(
          "table",
          { class: "plain" },
          h(
            "thead",
            null,
            h(
              "tr",
              null,
              ["expert", "owner", "replica on", "rows there", "of its rows"].map((name) =>
                h("th", { scope: "col" }, name)
              ),
            ),
          ),
          h(
            "tbody",
            null,
            replicas.map((r) =>
              h(
                "tr",
                null,
                h(
                  "td",
                  null,
                  button(`expert ${r.expert}`, () => app.openExpert(trace, r.expert), {
                    class: "link",
                    "data-key": `replica-${r.expert}-${r.rank}`,
                    "data-expert": r.expert,
                  }),
                ),
                h("td", null, `rank ${trace.ownerOf[r.expert]}`),
                h("td", null, `rank ${r.rank}`),
                h("td", null, format.count(r.rows)),
                h("td", null, format.percent(r.rows / rows[r.expert])),
              )
            ),
          ),
        ),
      ),
    );
    return node;
  }

  function withoutDetail(trace, layer, step) {
    const command = `--detail ${layer}:${step}`;
    return empty(
      "Only the figures of this cell are in the file",
      `Full detail is kept for ${format.count(trace.detailCells.length)} of ${format.count(trace.numCells)} cells`,
      trace.details.chosen ? ` (${trace.details.chosen}). ` : ". ",
      "To have ranks, experts and traffic of this one as well, make the report again with ",
      h("code", null, command),
      ".",
    );
  }

  function drawCell(pane, trace, app, scale) {
    const { layer, step, isInside } = app.placeIn(trace);
    if (!isInside) {
      pane.append(
        empty(
          "Not in this trace",
          `${trace.name} has ${format.count(trace.numLayers)} layers and ${format.count(trace.numSteps)} steps.`,
        ),
      );
      return;
    }
    const cell = trace.cellOf(layer, step);
    const detail = trace.detailOf(cell);
    const place = `layer${layer}_step${step}`;
    const flags = trace.flagWords(cell);
    pane.append(
      h(
        "p",
        { class: "cell-title" },
        h("strong", null, trace.cellWords(layer, step)),
        " ",
        h(
          "span",
          { class: "soft" },
          `${format.rows(trace.cells.rows[cell])}, ${format.count(trace.cells.copies[cell])} copies`,
          detail >= 0 && `; full detail: ${trace.whyWords(detail)}`,
          flags && `; ${flags}`,
        ),
      ),
    );
    if (detail < 0) {
      pane.append(h("div", { class: "beside" }, facts(trace, cell, place), withoutDetail(trace, layer, step)));
      return;
    }
    const shared = { trace, detail, mode: view.mode, place, cell: trace.cellWords(layer, step) };
    megaflux.rankCharts.rankBars(pane, { ...shared, top: scale.rows });
    megaflux.rankCharts.expertStacks(pane, {
      ...shared,
      top: scale.rows,
      expert: app.state.expert,
      open: (expert) => app.openExpert(trace, expert),
    });
    megaflux.traffic.trafficMatrix(pane, { ...shared, high: scale.traffic });
    pane.append(h("div", { class: "beside" }, facts(trace, cell, place), replicaTable(trace, detail, app, place)));
  }

  megaflux.views.push({
    id: "microbatch",
    nav: "Microbatch",
    title: "One microbatch",
    takes: ["trace", "with", "layer", "step", "expert"],
    lead:
      "One layer of one step. N and P go to the next and previous cell with full detail, B switches before, after and both.",
    draw(host, app) {
      controls(host, app);
      const scale = { rows: 1, tau: 1, traffic: 1 };
      for (const trace of app.traces) {
        const { layer, step, isInside } = app.placeIn(trace);
        const detail = isInside ? trace.detailOf(trace.cellOf(layer, step)) : -1;
        if (detail < 0) continue;
        for (const side of ["before", "after"]) {
          scale.rows = Math.max(scale.rows, d3.max(trace.rankRows(detail, side)));
          scale.tau = Math.max(scale.tau, trace.tauRows(detail));
          if (trace.traffic(detail, side)) {
            scale.traffic = Math.max(scale.traffic, d3.max(trace.traffic(detail, side)));
          }
        }
      }
      // One rank far above all others would flatten them: its bar is cut, and says how far it reaches.
      if (scale.rows > 5 * scale.tau) scale.rows = 4 * scale.tau;
      panes(host, app, (pane, trace) => drawCell(pane, trace, app, scale));
    },
    swapSide() {
      view.mode = { before: "after", after: "both", both: "before" }[view.mode];
    },
  });
})();
