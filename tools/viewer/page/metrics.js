// What can be shown of a cell: each metric with its words, its number format, and its values before and after.
"use strict";
(() => {
  const { format } = megaflux;

  const derived = (
    first,
    second,
    combine,
  ) => (first && second ? new Float32Array(first).map((value, cell) => combine(value, second[cell])) : undefined);

  // {key, label, explain, write, axis, before?, after?, plain?, ideal?}; plain = a property of the routing itself.
  function metricsOf(trace) {
    return trace.once("metrics", () => {
      const c = trace.cells;
      const all = [
        {
          key: "imbalance",
          label: "Imbalance",
          explain: "largest load / mean load; 1 is even",
          write: format.ratio,
          axis: d3.format(".3~f"),
          floor: 1,
          before: c.imbalance_before,
          after: c.imbalance_after,
        },
        {
          key: "time",
          label: "Predicted layer time",
          explain: "cost model, one layer of one step",
          write: format.us,
          axis: format.us,
          floor: 0,
          before: c.fixed_us,
          after: c.planned_us,
          ideal: c.ideal_us,
        },
        {
          key: "speed_up",
          label: "Predicted speed-up",
          explain: "time with fixed placement / time with the plan",
          write: format.factor,
          axis: d3.format(".3~f"),
          floor: 1,
          after: derived(c.fixed_us, c.planned_us, (fixed, planned) => fixed / planned),
        },
        {
          key: "share_of_ideal",
          label: "Share of ideal",
          explain: "ideal time / time with the plan; ideal = all loads equal",
          write: format.percent,
          axis: d3.format(".0%"),
          before: derived(c.ideal_us, c.fixed_us, (ideal, fixed) => ideal / fixed),
          after: derived(c.ideal_us, c.planned_us, (ideal, planned) => ideal / planned),
        },
        {
          key: "kappa",
          label: "kappa",
          explain: "skew of the routing: 1 is uniform, E is one expert with everything",
          write: format.kappa,
          axis: format.short,
          floor: 1,
          plain: c.kappa,
        },
        {
          key: "copies",
          label: "Copies",
          explain: "replicas whose weights move",
          write: format.count,
          axis: format.short,
          floor: 0,
          after: c.copies,
        },
        {
          key: "churn",
          label: "Churn",
          explain: "replicas that the step before did not have",
          write: format.count,
          axis: format.short,
          floor: 0,
          after: c.churn,
        },
        {
          key: "moved_bytes",
          label: "Moved weights",
          explain: "bytes of weights into slots, one pass",
          write: format.bytes,
          axis: format.bytes,
          floor: 0,
          after: c.moved_bytes,
        },
        {
          key: "moved_rows",
          label: "Moved rows",
          explain: "rows computed away from their expert's owner",
          write: format.rows,
          axis: format.short,
          floor: 0,
          after: c.moved_rows,
        },
        {
          key: "remote",
          label: "Remote rows",
          explain: "rows whose token is on another rank",
          write: format.rows,
          axis: format.short,
          floor: 0,
          before: c.remote_before,
          after: c.remote_after,
        },
        {
          key: "peak",
          label: "Peak rows",
          explain: "most rows a rank holds, parts padded to tiles of 128",
          write: format.rows,
          axis: format.short,
          floor: 0,
          before: c.peak_before,
          after: c.peak_after,
        },
        {
          key: "tau_ratio",
          label: "max / tau",
          explain: "largest load over the least possible one; 1 is optimal",
          write: format.ratio,
          axis: d3.format(".3~f"),
          floor: 1,
          after: c.tau_ratio,
        },
        {
          key: "plan_us",
          label: "Planner time",
          explain: "host time of one planner call",
          write: format.us,
          axis: format.us,
          floor: 0,
          after: c.plan_us,
        },
        {
          key: "rows",
          label: "Rows",
          explain: "rows routed in this layer of this step",
          write: format.rows,
          axis: format.short,
          floor: 0,
          plain: c.rows,
        },
      ];
      return all.filter((metric) => metric.before || metric.after || metric.plain);
    });
  }

  const metricOf = (trace, key) => metricsOf(trace).find((metric) => metric.key === key);

  // Metrics that any of the traces has, as options of a select.
  function metricOptions(traces, needed = () => true) {
    const seen = new Map();
    for (const trace of traces) {
      for (const metric of metricsOf(trace)) if (needed(metric)) seen.set(metric.key, metric.label);
    }
    return [...seen];
  }

  // Values of one side; "gain" is what the plan improves. For speed-up and shares more is better.
  function sideValues(trace, metric, side) {
    if (metric.plain) return metric.plain;
    if (side !== "gain") return metric[side];
    return trace.once(`gain ${metric.key}`, () => {
      const sign = metric.key === "share_of_ideal" ? -1 : 1;
      return derived(metric.before, metric.after, (before, after) => sign * (before - after));
    });
  }

  megaflux.metrics = { metricsOf, metricOf, metricOptions, sideValues };
})();
