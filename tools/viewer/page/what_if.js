// Other planners, slots and ranks on the same trace: a picture of imbalances and a table that sorts by any column.
"use strict";
(() => {
  const { h, select, button, hover, empty, speak } = megaflux.elements;
  const { figure, panes, drawing } = megaflux.charts;
  const { format } = megaflux;
  const ALL = "all";
  const view = { sort: null, isDown: false, ranks: null, slots: ALL };

  const timed = (row) => row.planned_us !== null && row.planned_us !== undefined;
  // Labels may repeat slots and ranks, which have their own columns here.
  const nameOf = (row) => String(row.label).replace(/, \d+ ranks?$/, "").replace(/, \d+ slots?$/, "");

  const COLUMNS = [
    { key: "label", name: "planner", value: (row) => nameOf(row), write: String, isText: true },
    { key: "ranks", name: "ranks", value: (row) => row.ranks, write: format.count },
    { key: "slots", name: "slots", value: (row) => row.slots, write: format.count },
    { key: "median", name: "median", group: "imbalance", value: (row) => row.imbalance.median, write: format.ratio },
    { key: "p90", name: "p90", group: "imbalance", value: (row) => row.imbalance.p90, write: format.ratio },
    { key: "p99", name: "p99", group: "imbalance", value: (row) => row.imbalance.p99, write: format.ratio },
    { key: "max", name: "max", group: "imbalance", value: (row) => row.imbalance.max, write: format.ratio },
    { key: "copies", name: "copies", group: "mean a cell", value: (row) => row.copies, write: format.mean },
    {
      key: "moved_bytes",
      name: "weights moved",
      group: "mean a cell",
      value: (row) => row.moved_bytes,
      write: format.bytes,
    },
    {
      key: "remote_rows",
      name: "remote rows",
      group: "mean a cell",
      value: (row) => row.remote_rows,
      write: format.short,
      full: format.rows,
    },
    { key: "peak_rows", name: "peak rows", value: (row) => row.peak_rows, write: format.short, full: format.rows },
    { key: "slots_needed", name: "slots needed", value: (row) => row.slots_needed, write: format.count },
    { key: "plan_us", name: "planner", group: "time", value: (row) => row.plan_us, write: format.us },
    { key: "planned_us", name: "layer", group: "time", value: (row) => row.planned_us, write: format.us },
    {
      key: "speed_up",
      name: "speed-up",
      group: "predicted",
      value: (row) => (timed(row) && row.fixed_us ? row.fixed_us / row.planned_us : null),
      write: format.factor,
      isDown: true,
    },
    {
      key: "share_of_ideal",
      name: "of ideal",
      group: "predicted",
      value: (row) => row.share_of_ideal,
      write: format.percent,
      isDown: true,
    },
    {
      key: "break_even_rows",
      name: "break-even rows",
      group: "predicted",
      value: (row) => row.break_even_rows,
      write: format.count,
      title: "least rows a rank at which the plan is predicted to beat fixed placement",
    },
  ];

  const rowsOf = (trace) => (trace.entry.what_if && trace.entry.what_if.rows) || [];
  const distinct = (traces, key) =>
    [...new Set(traces.flatMap((trace) => rowsOf(trace).map((row) => row[key])))].sort((a, b) => a - b);
  const columnsOf = (traces) =>
    COLUMNS.filter(({ key, value }) =>
      key === "break_even_rows"
        ? traces.some((trace) => rowsOf(trace).some(timed))
        : traces.some((trace) => rowsOf(trace).some((row) => value(row) !== null && value(row) !== undefined))
    );

  // What is missing sorts last either way.
  function sorted(rows) {
    const { value, isText } = COLUMNS.find(({ key }) => key === view.sort);
    const sign = view.isDown ? -1 : 1;
    const known = (row) => value(row) !== null && value(row) !== undefined;
    return rows.map((row, place) => ({ row, place })).sort((a, b) => {
      if (known(a.row) !== known(b.row)) return known(a.row) ? -1 : 1;
      const [one, two] = [value(a.row), value(b.row)];
      const order = !known(a.row) ? 0 : isText ? String(one).localeCompare(String(two)) : one - two;
      return sign * order || a.place - b.place;
    }).map(({ row }) => row);
  }

  // Fixed placement has no slots; it stays in sight whatever number of slots is chosen.
  const isShown = (row) =>
    (view.ranks === ALL || row.ranks === Number(view.ranks)) &&
    (view.slots === ALL || row.slots === Number(view.slots) || row.planner === "fixed");

  function sortBy(app, column) {
    view.isDown = view.sort === column.key ? !view.isDown : Boolean(column.isDown);
    view.sort = column.key;
    app.redraw("what_if");
    speak(
      `Sorted by ${column.group ? `${column.group} ` : ""}${column.name}, ${
        view.isDown ? "largest" : "smallest"
      } first`,
    );
  }

  function headRows(columns, app, index) {
    const groups = [];
    for (const { group } of columns) {
      if (groups.length && group && groups[groups.length - 1].group === group) groups[groups.length - 1].span += 1;
      else groups.push({ group, span: 1 });
    }
    return [
      h(
        "tr",
        { class: "group-row" },
        groups.map(({ group, span }) =>
          h("th", { colspan: span, scope: group ? "colgroup" : null, class: group ? "group" : "" }, group || "")
        ),
      ),
      h(
        "tr",
        null,
        columns.map((column) => {
          const isSorted = view.sort === column.key;
          return h(
            "th",
            {
              scope: "col",
              "aria-sort": isSorted ? (view.isDown ? "descending" : "ascending") : "none",
              class: column.isText ? "text" : "",
              title: column.title,
            },
            button(
              [
                column.name,
                h("span", { class: "sort-arrow", "aria-hidden": "true" }, isSorted ? (view.isDown ? "▼" : "▲") : ""),
              ],
              () => sortBy(app, column),
              { "data-key": `sort-${column.key}-${index}`, "data-sort": column.key },
            ),
          );
        }),
      ),
    ];
  }

  const tags = (row) => [
    row.is_best && h("span", { class: "tag best" }, "best"),
    row.is_over_budget &&
    h("span", { class: "tag over", title: `needs ${row.slots_needed} slots a rank` }, "over budget"),
    row.history && h("span", { class: "tag", title: "plans from the loads of earlier steps" }, "from history"),
  ];

  function table(pane, trace, rows, app, index) {
    const columns = columnsOf(app.traces);
    const { node, body } = figure({
      key: "what_if",
      trace,
      title: "All settings",
      note: `means and percentiles over ${format.count(trace.entry.what_if.cells)} cells${
        trace.entry.what_if.text ? `: ${trace.entry.what_if.text}` : ""
      }`,
      png: false,
      csv: () => [
        [...columns.map(({ key }) => key), "history", "over_budget", "best"],
        ...rows.map((row) => [
          ...columns.map(({ value }) => value(row)),
          row.history ? 1 : 0,
          row.is_over_budget ? 1 : 0,
          row.is_best ? 1 : 0,
        ]),
      ],
    });
    pane.append(node);
    const cell = (column, row) => {
      const text = column.key === "break_even_rows" && row.break_even_rows === null
        ? (row.planner === "fixed" || !timed(row) ? format.MISSING : "never")
        : column.write(column.value(row));
      return h("td", {
        class: view.sort === column.key ? "sorted" : "",
        title: column.full && column.full(column.value(row)),
      }, text);
    };
    body.append(
      h(
        "div",
        { class: "scroll-box wide-table", tabindex: 0, role: "region", "aria-label": "Settings compared" },
        h(
          "table",
          { class: "what-if" },
          h("thead", null, headRows(columns, app, index)),
          h(
            "tbody",
            null,
            rows.map((row) =>
              h(
                "tr",
                {
                  class: `${row.is_best ? "best-row" : ""} ${row.is_over_budget ? "over-row" : ""} ${
                    row.planner === "fixed" ? "fixed-row" : ""
                  }`,
                  "data-planner": row.planner,
                },
                columns.map((column) => (column.isText
                  ? h("th", { scope: "row" }, h("span", { class: "planner-name" }, nameOf(row)), tags(row))
                  : cell(column, row))
                ),
              )
            ),
          ),
        ),
      ),
    );
  }

  // Median, p90, p99 and max of each setting on one line.
  function picture(pane, trace, rows, domain) {
    const some = rows.slice(0, 40);
    const many = {
      ranks: new Set(some.map(({ ranks }) => ranks)).size > 1,
      slots: new Set(some.filter(({ planner }) => planner !== "fixed").map(({ slots }) => slots)).size > 1,
    };
    const lineName = (row) =>
      [nameOf(row), many.ranks && `P ${row.ranks}`, many.slots && row.planner !== "fixed" && `s ${row.slots}`].filter(
        Boolean,
      ).join(", ");
    const { node, body } = figure({
      key: "what_if_imbalance",
      trace,
      title: "Imbalance under each setting",
      note: `${
        rows.length > some.length ? `the first ${some.length} of ${rows.length} rows of the table; ` : ""
      }from the median to the largest value; 1 is even`,
      legend: [
        { colour: "before", text: "fixed placement" },
        { colour: "after", text: "best setting" },
        { colour: "ideal", text: "others" },
        { colour: "ink-soft", look: "spot-swatch", text: "median" },
        { colour: "ink-soft", look: "bar-swatch", text: "p90, p99" },
        { colour: "ink-soft", look: "ring-swatch", text: "max" },
      ],
      csv: () => [
        ["planner", "ranks", "slots", "median", "p90", "p99", "max"],
        ...some.map((
          row,
        ) => [
          nameOf(row),
          row.ranks,
          row.slots,
          row.imbalance.median,
          row.imbalance.p90,
          row.imbalance.p99,
          row.imbalance.max,
        ]),
      ],
    });
    pane.append(node);
    const left = Math.min(220, 26 + 6.6 * (d3.max(some, (row) => lineName(row).length) || 10));
    const tall = 22;
    const { svg, g, width, height } = drawing(body, {
      height: some.length * tall + 50,
      margin: { top: 6, right: 22, bottom: 44, left },
      label: "Imbalance of each setting, from median to largest",
    });
    const x = d3.scaleLinear().domain(domain).range([0, width]).nice(6);
    g.append("g").attr("class", "axis x").attr("transform", `translate(0,${height})`).call(
      d3.axisBottom(x).ticks(6).tickSize(-height).tickPadding(8).tickFormat(d3.format(".3~f")),
    ).select(".domain").remove();
    g.append("text").attr("class", "axis-title").attr("x", width / 2).attr("y", height + 38).text("imbalance");
    some.forEach((row, i) => {
      const look = row.planner === "fixed" ? "before" : row.is_best ? "after" : "ideal";
      const { median, p90, p99, max } = row.imbalance;
      const line = g.append("g").attr("class", row.is_over_budget ? "over-line" : "").attr(
        "transform",
        `translate(0,${(i + 0.5) * tall})`,
      );
      line.append("text").attr("class", `row-name ${row.is_best ? "strong" : ""}`).attr("x", -12).attr("dy", "0.34em")
        .attr("text-anchor", "end").text(lineName(row));
      line.append("line").attr("class", `range-line ${look}-line`).attr("x1", x(median)).attr("x2", x(max));
      for (const value of [p90, p99]) {
        line.append("line").attr("class", `range-tick ${look}-line`).attr("x1", x(value)).attr("x2", x(value)).attr(
          "y1",
          -5,
        ).attr("y2", 5);
      }
      line.append("circle").attr("class", `range-end ${look}-line`).attr("cx", x(max)).attr("r", 3.5);
      line.append("circle").attr("class", `${look}-fill`).attr("cx", x(median)).attr("r", 4);
    });
    hover(svg, (event) => {
      const row = some[Math.floor(d3.clientPoint(g.node(), event)[1] / tall)];
      return row
        ? {
          key: row,
          title: `${nameOf(row)}, ${row.ranks} ranks, ${row.slots} slots`,
          rows: [...["median", "p90", "p99", "max"].map((key) => [key, format.ratio(row.imbalance[key])]), [
            "copies, mean",
            format.mean(row.copies),
          ], timed(row) && ["layer, predicted", format.us(row.planned_us)]],
        }
        : null;
    });
  }

  function bestWords(trace) {
    const isWanted = (row) => row.is_best && (view.ranks === ALL || row.ranks === Number(view.ranks));
    const best = rowsOf(trace).filter(isWanted);
    return best.map((row) =>
      h(
        "p",
        { class: "best-words" },
        h("span", { class: "tag best" }, "best"),
        h("strong", null, ` ${nameOf(row)}`),
        `, ${format.count(row.ranks)} ranks, ${format.count(row.slots)} slots: imbalance ${
          format.ratio(row.imbalance.median)
        } median, ${format.ratio(row.imbalance.p99)} p99; ${format.mean(row.copies)} copies`,
        timed(row) && row.fixed_us
          ? `; ${format.factor(row.fixed_us / row.planned_us)} fixed placement, pays from ${
            row.break_even_rows === null ? "no number of" : format.count(row.break_even_rows)
          } rows a rank`
          : "",
        ".",
      )
    );
  }

  megaflux.views.push({
    id: "what_if",
    nav: "What if",
    title: "What if",
    takes: ["trace", "with"],
    lead: "Other planners, numbers of slots and of ranks on the same loads. Click a column to sort by it.",
    draw(host, app) {
      const [ranks, slots] = [
        distinct(app.traces, "ranks"),
        distinct(app.traces, "slots").filter((count) => count > 0),
      ];
      if (view.ranks === null) {
        view.ranks = ranks.includes(app.traces[0].numRanks) ? String(app.traces[0].numRanks) : ALL;
      }
      if (view.sort === null) {
        view.sort = app.traces.some((trace) => rowsOf(trace).some(timed)) ? "planned_us" : "p99";
      }
      const again = (key) => (value) => {
        view[key] = value;
        app.redraw("what_if");
      };
      if (ranks.length) {
        host.append(
          h(
            "div",
            { class: "controls" },
            select({
              label: "Ranks",
              key: "what-if-ranks",
              value: view.ranks,
              options: [[ALL, "all"], ...ranks.map((count) => [count, count])],
              onChange: again("ranks"),
            }),
            select({
              label: "Slots",
              key: "what-if-slots",
              value: view.slots,
              options: [[ALL, "all"], ...slots.map((count) => [count, count])],
              onChange: again("slots"),
            }),
          ),
        );
      }
      const shown = app.traces.map((trace) => sorted(rowsOf(trace).filter(isShown)));
      const top = d3.max(shown.flat(), (row) => row.imbalance.max) || 2;
      panes(host, app, (pane, trace, index) => {
        if (!rowsOf(trace).length) {
          pane.append(empty("Nothing was simulated", "This report was made without other settings to compare."));
        } else if (!shown[index].length) {
          pane.append(empty("No such setting", "No simulated setting of this trace has these ranks and slots."));
        } else {
          pane.append(...bestWords(trace));
          picture(pane, trace, shown[index], [1, top]);
          table(pane, trace, shown[index], app, index);
        }
      });
    },
  });
})();
