// One microbatch, rank by rank: bars of load, and what each bar is made of.
"use strict";
(() => {
  const { hover, walk, tipAt, hideTip, speak } = megaflux.elements;
  const { figure, drawing, yAxis, xAxis, roundIndices } = megaflux.charts;
  const { format } = megaflux;
  const NAMES = { before: "fixed placement", after: "with replicas" };
  const MARGIN = { top: 20, right: 84, bottom: 46, left: 68 };
  let patterns = 0;

  const sidesOf = (mode) => (mode === "both" ? ["before", "after"] : [mode]);

  function scales(trace, top, width, height, sides) {
    const x = d3.scaleBand().domain(d3.range(trace.numRanks)).range([0, width]).paddingInner(
      trace.numRanks > 40 ? 0.2 : 0.28,
    ).paddingOuter(0.1);
    const inner = d3.scaleBand().domain(sides).range([0, x.bandwidth()]).paddingInner(sides.length > 1 ? 0.08 : 0);
    return { x, inner, y: d3.scaleLinear().domain([0, top * 1.03 || 1]).range([height, 0]).clamp(true) };
  }

  // Bars that reach beyond the scale end in a gap and their number.
  function cutMarks(g, { x, inner, y }, rows, sides) {
    const top = y.domain()[1];
    for (const side of sides) {
      Array.from(rows[side]).forEach((value, rank) => {
        if (value <= top) return;
        const [left, width] = [x(rank) + inner(side), inner.bandwidth()];
        g.append("path").attr("class", "cut-mark").attr("d", `M${left - 2},13l${width + 4},-5v5l${-width - 4},5z`);
        g.append("text").attr("class", "cut-text").attr("x", left + width / 2).attr("y", -4).attr(
          "text-anchor",
          "middle",
        )
          .text(format.short(value));
      });
    }
  }

  // The bound and its name, above whatever is drawn.
  function tauLine(g, y, width, tau) {
    g.append("line").attr("class", "tau-line").attr("x2", width + 8).attr("y1", y(tau)).attr("y2", y(tau));
    g.append("text").attr("class", "tau-text").attr("x", width + 13).attr("y", y(tau) + 4).text("tau");
    g.append("text").attr("class", "tau-rows").attr("x", width + 13).attr("y", y(tau) + 19).text(format.count(tau));
  }

  function axes(g, trace, x, y, width, height) {
    yAxis(g, y, width, format.short);
    xAxis(g, x, height, "rank", { values: roundIndices(trace.numRanks, width / 30) });
    g.select(".axis.y").append("text").attr("class", "axis-title").attr(
      "transform",
      `translate(-54,${height / 2}) rotate(-90)`,
    ).text("rows");
  }

  // {trace, detail, mode, top: largest row count of the scale, place: words for file names}
  function rankBars(pane, { trace, detail, mode, top, place, cell }) {
    const sides = sidesOf(mode);
    const rows = { before: trace.rankRows(detail, "before"), after: trace.rankRows(detail, "after") };
    const tau = trace.tauRows(detail);
    const mean = d3.mean(rows.before);
    const { node, body } = figure({
      key: "rank_bars",
      trace,
      place,
      cell,
      title: "Load of each rank",
      note: `tau is the bound in whole blocks of ${
        format.count(trace.entry.setting.block_rows)
      } rows; half-filled blocks let bars of rows end below it`,
      legend: sides.map((side) => ({ colour: side, text: NAMES[side] })),
      csv: () => [
        ["rank", "rows_before", "rows_after", "tau_rows"],
        ...d3.range(trace.numRanks).map((rank) => [rank, rows.before[rank], rows.after[rank], tau]),
      ],
    });
    pane.append(node);
    const { svg, g, width, height } = drawing(body, {
      height: 280,
      margin: MARGIN,
      label: `Rows of ${trace.numRanks} ranks. Arrow keys read the values.`,
    });
    const { x, inner, y } = scales(trace, top, width, height, sides);
    axes(g, trace, x, y, width, height);
    for (const side of sides) {
      g.append("g").selectAll("rect").data(Array.from(rows[side])).enter().append("rect").attr(
        "class",
        `rank-bar ${side}-fill`,
      ).attr("data-side", side).attr("data-rows", (d) => d)
        .attr("x", (d, rank) => x(rank) + inner(side)).attr("width", inner.bandwidth()).attr("y", (d) => y(d)).attr(
          "height",
          (d) => height - y(d),
        ).attr("rx", Math.min(2, inner.bandwidth() / 4));
    }
    cutMarks(g, { x, inner, y }, rows, sides);
    tauLine(g, y, width, tau);
    const tipOf = (rank) => ({
      key: rank,
      title: `rank ${rank}`,
      rows: [
        ...["before", "after"].map((
          side,
        ) => [
          NAMES[side],
          `${format.rows(rows[side][rank])}, ${format.factor(rows[side][rank] / mean)} mean`,
          `${side}-ink`,
        ]),
        ["tau", format.rows(tau)],
      ],
    });
    hover(svg, (event) => {
      const rank = Math.floor((d3.clientPoint(g.node(), event)[0] / width) * trace.numRanks);
      return rank >= 0 && rank < trace.numRanks ? tipOf(rank) : null;
    });
    walk(svg, {
      count: () => trace.numRanks,
      show: (rank) => {
        const tip = tipOf(rank);
        tipAt(svg, MARGIN.left + x(rank) + x.bandwidth(), 40, tip);
        speak(`${tip.title}: ${tip.rows.map(([name, value]) => `${name} ${value}`).join(", ")}`);
      },
    });
  }

  function hatch(g, side) {
    const id = `hatch-${side}-${++patterns}`;
    const pattern = g.append("defs").append("pattern").attr("id", id).attr("width", 5).attr("height", 5).attr(
      "patternUnits",
      "userSpaceOnUse",
    ).attr("patternTransform", "rotate(45)");
    pattern.append("rect").attr("class", `${side}-soft-fill`).attr("width", 5).attr("height", 5);
    pattern.append("rect").attr("class", `${side}-fill`).attr("width", 2).attr("height", 5);
    return id;
  }

  // Owned experts from the bottom, largest first, replicas on top.
  function stacked(instances, numRanks) {
    const below = new Float64Array(numRanks);
    const order = new Int32Array(numRanks);
    return [...instances].sort((a, b) => a.isReplica - b.isReplica || b.rows - a.rows || a.expert - b.expert).map(
      (instance) => {
        const from = below[instance.rank];
        below[instance.rank] += instance.rows;
        return { ...instance, from, place: order[instance.rank]++ };
      },
    );
  }

  // {trace, detail, mode, top, expert, open(expert), place}
  function expertStacks(pane, { trace, detail, mode, top, expert, open, place, cell }) {
    const sides = sidesOf(mode);
    const expertRows = trace.expertRows(detail);
    const instances = Object.fromEntries(
      ["before", "after"].map((side) => [side, stacked(trace.instances(detail, side), trace.numRanks)]),
    );
    const { node, body } = figure({
      key: "expert_stacks",
      trace,
      place,
      cell,
      title: "Which experts make up the load",
      note: "one segment an expert, largest at the bottom; click one to follow the expert",
      legend: [
        ...sides.map((side) => ({ colour: side, text: `${NAMES[side]}: owned` })),
        ...(sides.includes("after") ? [{ colour: "after", look: "hatched", text: "replica" }] : []),
      ],
      csv: () => [
        ["placement", "rank", "expert", "owner", "is_replica", "rows"],
        ...sides.flatMap((side) =>
          instances[side].map((i) => [side, i.rank, i.expert, trace.ownerOf[i.expert], i.isReplica ? 1 : 0, i.rows])
        ),
      ],
    });
    pane.append(node);
    const { svg, g, width, height } = drawing(body, {
      height: 380,
      margin: MARGIN,
      label: "Experts stacked by rank. Arrow keys walk over the segments, Enter follows an expert.",
    });
    const { x, inner, y } = scales(trace, top, width, height, sides);
    axes(g, trace, x, y, width, height);
    const stacks = g.append("g").attr("class", "stacks");
    const drawn = [];
    for (const side of sides) {
      const pattern = hatch(g, side);
      for (const each of instances[side]) {
        const tall = y(each.from) - y(each.from + each.rows);
        if (each.from >= y.domain()[1]) continue; // beyond a cut scale
        const rect = stacks.append("rect").attr(
          "class",
          `segment ${side}-fill ${each.isReplica ? "replica" : ""} ${tall > 3 ? "parted" : ""}`,
        )
          .attr("data-expert", each.expert).attr("x", x(each.rank) + inner(side)).attr("width", inner.bandwidth())
          .attr("y", y(each.from + each.rows)).attr("height", Math.max(0.5, tall))
          .attr("fill-opacity", each.isReplica ? 1 : each.place % 2 ? 0.68 : 0.94);
        if (each.isReplica) rect.style("fill", `url(#${pattern})`).style("stroke", `var(--${side})`);
        drawn.push({ ...each, side, rect: rect.node() });
      }
    }
    const rows = { before: trace.rankRows(detail, "before"), after: trace.rankRows(detail, "after") };
    cutMarks(g, { x, inner, y }, rows, sides);
    tauLine(g, y, width, trace.tauRows(detail));
    const outlines = g.append("g").attr("class", "outlines");
    outline(outlines, drawn, expert);
    listenToStacks({ outlines, expert, svg, stacks, drawn, trace, expertRows, open });
  }

  // A frame around every instance of one expert, above all segments.
  function outline(outlines, drawn, expert) {
    outlines.selectAll("rect").remove();
    for (const { rect } of drawn.filter((each) => each.expert === expert)) {
      const frame = outlines.append("rect");
      for (const name of ["x", "y", "width", "height"]) frame.attr(name, rect.getAttribute(name));
    }
  }

  function listenToStacks({ outlines, expert: chosen, svg, stacks, drawn, trace, expertRows, open }) {
    const total = d3.sum(expertRows);
    const byRect = new Map(drawn.map((each) => [each.rect, each]));
    const tipOf = (each) => ({
      key: each,
      title: `expert ${each.expert}${each.isReplica ? ", replica" : ""} on rank ${each.rank}`,
      rows: [["placement", NAMES[each.side], `${each.side}-ink`], ["owner", `rank ${trace.ownerOf[each.expert]}`], [
        "rows here",
        format.rows(each.rows),
      ], [
        "rows in all",
        `${format.count(expertRows[each.expert])}, ${format.percent(expertRows[each.expert] / total)}`,
      ]],
    });
    const light = (expert) => {
      stacks.classed("dimmed", expert !== null);
      for (const { rect, expert: own } of drawn) rect.classList.toggle("lit", own === expert);
      outline(outlines, drawn, expert === null ? chosen : expert);
    };
    let lit = null;
    hover(svg, (event) => {
      const each = byRect.get(event.target);
      const expert = each ? each.expert : null;
      if (expert !== lit) light(lit = expert);
      return each ? tipOf(each) : null;
    });
    svg.addEventListener("pointerleave", () => light(lit = null));
    svg.addEventListener("click", (event) => {
      const each = byRect.get(event.target);
      if (each) open(each.expert);
    });
    const byPlace = [...drawn].sort((a, b) =>
      a.rank - b.rank || (a.side < b.side ? 1 : a.side > b.side ? -1 : a.place - b.place)
    );
    walk(svg, {
      count: () => byPlace.length,
      open: (index) => open(byPlace[index].expert),
      show: (index) => {
        const each = byPlace[index];
        const [frame, box] = [svg.getBoundingClientRect(), each.rect.getBoundingClientRect()];
        light(lit = each.expert);
        const tip = tipOf(each);
        tipAt(svg, box.right - frame.left, box.top - frame.top, tip);
        speak(`${tip.title}: ${tip.rows.map(([name, value]) => `${name} ${value}`).join(", ")}`);
      },
    });
    svg.addEventListener("blur", () => {
      hideTip();
      light(lit = null);
    });
  }

  megaflux.rankCharts = { rankBars, expertStacks };
})();
