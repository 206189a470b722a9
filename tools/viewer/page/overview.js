// The first screen: what replication does to this trace, in one sentence, a row of figures, and where to look first.
"use strict";
(() => {
  const { h } = megaflux.elements;
  const { format } = megaflux;
  const { panes } = megaflux.charts;
  const { metricsOf } = megaflux.metrics;

  const arrow = (before, after) => [
    h("span", { class: "before-ink" }, before),
    h("span", { class: "arrow", "aria-label": "to" }, "→"),
    h("span", { class: "after-ink" }, after),
  ];

  function card(key, label, value, notes, look) {
    return h(
      "div",
      { class: `card ${look || ""}`, "data-card": key },
      h("div", { class: "card-label" }, label),
      h("div", { class: "card-value" }, value),
      notes.filter(Boolean).map((note) => h("div", { class: "card-note" }, note)),
    );
  }

  function imbalanceCard(trace) {
    const [before, after] = ["before", "after"].map((side) =>
      trace.overall(`imbalance ${side}`, trace.cells[`imbalance_${side}`])
    );
    const two = (value) => format.factor(value).replace("×", "");
    const names = [["median", "median"], ["p90", "90th percentile"], ["max", "max"]];
    return h(
      "div",
      { class: "card double", "data-card": "imbalance" },
      h("div", { class: "card-label" }, "Imbalance, largest / mean load"),
      h(
        "div",
        { class: "triple" },
        names.map(([key, name]) =>
          h(
            "div",
            { title: `${format.ratio(before[key])} to ${format.ratio(after[key])}` },
            h("div", { class: "card-value" }, arrow(two(before[key]), two(after[key]))),
            h("div", { class: "card-note" }, name),
          )
        ),
      ),
      h("div", { class: "ranges", "aria-hidden": "true" }, [
        range(before, "before", before.max),
        range(after, "after", before.max),
      ]),
    );
  }

  // From the median (dot) over p90 (tick) to the largest value, on a line from 1 to `top`.
  function range({ median, p90, max }, side, top) {
    const at = (value) => `${Math.min(100, (100 * (value - 1)) / Math.max(1e-6, top - 1)).toFixed(2)}%`;
    return h(
      "div",
      { class: `range ${side}-ink` },
      h("span", { class: "range-bar", style: `left:${at(median)};right:calc(100% - ${at(max)})` }),
      h("span", { class: "range-p90", style: `left:${at(p90)}` }),
      h("span", { class: "range-dot", style: `left:${at(median)}` }),
    );
  }

  // Times as bars on one scale, means over cells.
  function timeCard(trace) {
    const c = trace.cells;
    if (!c.planned_us) return null;
    const bars = [["fixed", "before", c.fixed_us], ["planned", "after", c.planned_us], [
      "second ideal",
      "ideal",
      c.second_ideal_us,
    ], ["ideal", "ideal", c.ideal_us]]
      .filter(([, , values]) => values).map((
        [name, colour, values],
      ) => [name, colour, trace.overall(`time ${name}`, values).mean]);
    const top = d3.max(bars, ([, , value]) => value) || 1;
    return h(
      "div",
      { class: "card double", "data-card": "time" },
      h("div", { class: "card-label" }, "Predicted time of a layer, mean"),
      h(
        "dl",
        { class: "bars" },
        bars.map(([name, colour, value]) => [
          h("dt", null, name),
          h(
            "dd",
            null,
            h(
              "span",
              { class: "bar-track" },
              h("span", { class: "bar", style: `width:${(100 * value) / top}%;background:var(--${colour})` }),
            ),
            h("span", { class: "bar-value" }, format.us(value)),
          ),
        ]),
      ),
    );
  }

  function timeFigures(trace) {
    const c = trace.cells;
    if (!c.planned_us) {
      return [
        card("no-time", "Predicted time", format.MISSING, [
          "No shape of a model was given, so there is no time and there are no bytes.",
          "Name one with --model.",
        ], "double wordy"),
      ];
    }
    const mean = (name, values) => trace.overall(`time ${name}`, values).mean;
    const [fixed, planned, ideal] = [
      mean("fixed", c.fixed_us),
      mean("planned", c.planned_us),
      mean("ideal", c.ideal_us),
    ];
    const secondIdeal = c.second_ideal_us && mean("second ideal", c.second_ideal_us);
    const perCell = trace.overall("speed-up", metricsOf(trace).find(({ key }) => key === "speed_up").after);
    return [
      card("speed-up", "Predicted speed-up", h("span", { class: "after-ink" }, format.factor(fixed / planned)), [
        `sum of all cells; a cell ${format.factor(perCell.median)} median, ${format.factor(perCell.max)} most`,
      ]),
      card(
        "share",
        "Share of ideal",
        arrow(format.wholePercent(ideal / fixed), format.wholePercent(ideal / planned)),
        [
          `${format.percent(ideal / planned)} with all loads equal`,
          secondIdeal && `${format.percent(secondIdeal / planned)} of the second ideal, experts as routed`,
        ],
      ),
    ];
  }

  function cards(trace) {
    const c = trace.cells;
    const { setting } = trace.entry;
    const all = (key) => trace.overall(key, c[key]);
    const copies = all("copies");
    const kappa = all("kappa");
    const bytes = c.moved_bytes && all("moved_bytes");
    const tau = c.tau_ratio && all("tau_ratio");
    const fill = [
      ["planner", "Planner time, host", format.us(all("plan_us").median), [
        `median; p90 ${format.us(all("plan_us").p90)}`,
      ]],
      ["moved-rows", "Rows moved a cell", format.short(all("moved_rows").median), [
        "median, computed away from their expert's owner",
      ]],
      ["rows", "Rows a cell", format.short(all("rows").median), [
        `median; ${format.count(all("rows").min)} to ${format.count(all("rows").max)}`,
      ]],
      ["details", "Cells with full detail", format.count(trace.detailCells.length), [
        `of ${format.count(trace.numCells)}; the others hold their figures`,
      ]],
    ].filter(([key]) =>
      key === "details" || c[{ planner: "plan_us", "moved-rows": "moved_rows", rows: "rows" }[key]]
    );
    const optimal = c.tau_ratio &&
      trace.once("optimal", () => c.tau_ratio.reduce((sum, value) => sum + (value < 1.0005), 0) / trace.numCells);
    const main = [
      imbalanceCard(trace),
      timeCard(trace),
      ...timeFigures(trace),
      card("copies", "Copies a cell", format.mean(copies.median), [
        `median of ${format.count(setting.ranks * setting.slots)} slots; p90 ${format.count(copies.p90)}, max ${
          format.count(copies.max)
        }`,
      ]),
      bytes &&
      card("bytes", "Weights moved a pass", format.bytes(bytes.mean), [
        `mean over all ranks; max ${format.bytes(bytes.max)}`,
      ]),
      card("kappa", "Skew of the routing, kappa", format.kappa(kappa.median), [
        `median; p90 ${format.kappa(kappa.p90)}, max ${format.kappa(kappa.max)} of ${trace.numExperts}`,
      ]),
      c.peak_before &&
      card(
        "peak",
        "Peak rows of a rank",
        arrow(format.short(all("peak_before").max), format.short(all("peak_after").max)),
        [`largest of all cells: ${format.count(all("peak_before").max)} and ${format.count(all("peak_after").max)}`],
      ),
      c.remote_before &&
      card(
        "remote",
        "Remote rows",
        arrow(
          format.wholePercent(all("remote_before").mean / all("rows").mean),
          format.wholePercent(all("remote_after").mean / all("rows").mean),
        ),
        [`on another rank than their token: ${format.percent(all("remote_before").mean / all("rows").mean)} and ${
          format.percent(all("remote_after").mean / all("rows").mean)
        } of all rows`],
      ),
      tau &&
      card("tau", "Plans at the bound tau", format.percent(optimal), [
        `of all cells; max / tau ${format.ratio(tau.p99)} p99, ${format.ratio(tau.max)} max`,
      ]),
    ].filter(Boolean);
    // Full rows of six, four, three or two: 12 places are filled.
    const places = main.reduce((sum, each) => sum + (each.classList.contains("double") ? 2 : 1), 0);
    return [...main, ...fill.slice(0, Math.max(0, 12 - places)).map((each) => card(...each))];
  }

  function headline(trace) {
    const [before, after] = ["before", "after"].map((side) =>
      trace.overall(`imbalance ${side}`, trace.cells[`imbalance_${side}`]).median
    );
    const { entry } = trace;
    const machine = entry.setting.machine;
    const shape = entry.setting.model_shape;
    const facts = [
      entry.model,
      `${format.count(trace.numExperts)} experts, top ${entry.topk}`,
      `${format.count(trace.numLayers)} ${trace.numLayers === 1 ? "layer" : "layers"} × ${
        format.count(trace.numSteps)
      } ${trace.numSteps === 1 ? "step" : "steps"}`,
      `${format.count(trace.numRanks)} ranks, ${entry.setting.slots} slots a rank`,
      `planner ${entry.setting.planner}`,
      shape && `H ${shape.hidden}, I ${shape.inter}`,
      machine && machine.name,
    ].filter(Boolean);
    return h(
      "div",
      { class: "headline" },
      h(
        "h1",
        null,
        after < before - 0.005
          ? [
            "The slowest rank carries ",
            h("span", { class: "before-ink" }, format.factor(before)),
            " the mean load; with replicas ",
            h("span", { class: "after-ink" }, format.factor(after)),
            ".",
          ]
          : before < 1.05
          ? [
            "The loads of this trace are even: the slowest rank carries ",
            h("span", { class: "after-ink" }, format.factor(after)),
            " the mean.",
          ]
          : [
            "The slowest rank carries ",
            h("span", { class: "before-ink" }, format.factor(before)),
            " the mean load, and replicas do not change that.",
          ],
      ),
      h(
        "p",
        { class: "soft" },
        "Median over all layers and steps. ",
        facts.map((fact) => [h("span", { class: "fact" }, fact), " "]),
      ),
      (entry.origin || entry.licence) &&
        h(
          "p",
          { class: "faint small" },
          [entry.origin && `Origin: ${entry.origin}`, entry.licence && `licence: ${entry.licence}`].filter(Boolean)
            .join("; "),
        ),
    );
  }

  megaflux.views.push({
    id: "overview",
    nav: "Overview",
    title: "Overview",
    takes: ["trace", "with"],
    draw(host, app) {
      const tops = app.traces.flatMap((trace) =>
        ["before", "after"].map((side) => trace.overall(`imbalance ${side}`, trace.cells[`imbalance_${side}`]).max)
      );
      const domain = [1, Math.max(1.05, d3.max(tops))];
      panes(host, app, (pane, trace) => {
        pane.append(headline(trace));
        pane.append(h("div", { class: "cards" }, cards(trace)));
        megaflux.spread.histogram(pane, trace, domain);
        megaflux.spread.lookFirst(pane, trace, app);
      });
    },
  });
})();
