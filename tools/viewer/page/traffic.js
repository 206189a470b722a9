// Rows between pairs of ranks, source by host, before and after on one scale of colours.
"use strict";
(() => {
  const { h, s, hover, walk, tipAt, speak, empty } = megaflux.elements;
  const { figure, roundIndices } = megaflux.charts;
  const { format, theme } = megaflux;
  const MARGIN = { top: 24, left: 46, bottom: 40, right: 6 };
  const NAMES = { before: "fixed placement", after: "with replicas" };

  function remoteOf(matrix, numRanks) {
    let [local, all] = [0, 0];
    for (let i = 0; i < matrix.length; ++i) {
      all += matrix[i];
      if (i % (numRanks + 1) === 0) local += matrix[i];
    }
    return { remote: all - local, all };
  }

  function paint(canvas, matrix, numRanks, size, high) {
    const density = window.devicePixelRatio || 1;
    const pixels = theme.pixels(theme.colours().heat);
    const image = new ImageData(numRanks, numRanks);
    const target = new Uint32Array(image.data.buffer);
    matrix.forEach((rows, i) => {
      target[i] = pixels[Math.min(255, Math.round((255 * rows) / (high || 1)))];
    });
    const strip = document.createElement("canvas");
    strip.width = strip.height = numRanks;
    strip.getContext("2d").putImageData(image, 0, 0);
    const cell = size / numRanks;
    canvas.width = canvas.height = Math.round(size * density);
    const context = canvas.getContext("2d");
    context.scale(density, density);
    context.imageSmoothingEnabled = false;
    context.drawImage(strip, 0, 0, size, size);
    context.strokeStyle = theme.colours().surface;
    context.lineWidth = cell >= 8 ? 1 : 0;
    if (context.lineWidth) {
      context.beginPath();
      for (let i = 1; i < numRanks; ++i) {
        context.moveTo(i * cell, 0);
        context.lineTo(i * cell, size);
        context.moveTo(0, i * cell);
        context.lineTo(size, i * cell);
      }
      context.stroke();
    }
  }

  function oneMatrix(host, { trace, matrix, side, size, high }) {
    const numRanks = trace.numRanks;
    const cell = size / numRanks;
    const outer = [size + MARGIN.left + MARGIN.right, size + MARGIN.top + MARGIN.bottom];
    const canvas = h("canvas", {
      class: "traffic-canvas",
      style: `left:${MARGIN.left}px;top:${MARGIN.top}px;width:${size}px;height:${size}px`,
      role: "application",
      "aria-label": `Rows by source and host, ${NAMES[side]}. Arrow keys read the values.`,
    });
    const svg = s("svg", {
      width: outer[0],
      height: outer[1],
      viewBox: `0 0 ${outer[0]} ${outer[1]}`,
      "aria-hidden": "true",
    });
    host.append(h("div", { class: "traffic-box", style: `width:${outer[0]}px;height:${outer[1]}px` }, canvas, svg));
    paint(canvas, matrix, numRanks, size, high);
    const g = d3.select(svg).append("g").attr("transform", `translate(${MARGIN.left},${MARGIN.top})`);
    g.append("text").attr("class", `small-title ${side}-ink-fill`).attr("y", -9).text(NAMES[side]);
    const text = (x, y, words, anchor, look) =>
      g.append("text").attr("class", look || "tick-text").attr("x", x).attr("y", y).attr("text-anchor", anchor).text(
        words,
      );
    for (const rank of roundIndices(numRanks, size / 28)) {
      text((rank + 0.5) * cell, size + 15, rank, "middle");
      text(-7, (rank + 0.5) * cell + 4, rank, "end");
    }
    text(size / 2, size + 33, "host rank", "middle", "axis-title");
    g.append("text").attr("class", "axis-title").attr("transform", `translate(-34,${size / 2}) rotate(-90)`).text(
      "source rank",
    );
    for (let rank = 0; rank < numRanks && cell >= 5; ++rank) {
      g.append("rect").attr("class", "diagonal").attr("x", rank * cell + 0.5).attr("y", rank * cell + 0.5).attr(
        "width",
        cell - 1,
      ).attr("height", cell - 1);
    }
    const mark = g.append("rect").attr("class", "heat-brush").attr("width", cell).attr("height", cell).attr(
      "visibility",
      "hidden",
    );
    const tipOf = (i) => {
      const [source, hostRank] = [Math.floor(i / numRanks), i % numRanks];
      mark.attr("x", hostRank * cell).attr("y", source * cell).attr("visibility", "visible");
      return {
        key: `${side}${i}`,
        title: source === hostRank ? `rank ${source}, kept local` : `rank ${source} to rank ${hostRank}`,
        rows: [[NAMES[side], format.rows(matrix[i]), `${side}-ink`]],
      };
    };
    hover(canvas, (event) => {
      const [column, row] = [Math.floor(event.offsetX / cell), Math.floor(event.offsetY / cell)];
      return column >= 0 && row >= 0 && column < numRanks && row < numRanks ? tipOf(row * numRanks + column) : null;
    });
    canvas.addEventListener("pointerleave", () => mark.attr("visibility", "hidden"));
    walk(canvas, {
      count: () => numRanks * numRanks,
      across: -numRanks,
      show: (i) => {
        const tip = tipOf(i);
        tipAt(canvas, ((i % numRanks) + 1) * cell, (Math.floor(i / numRanks) + 1) * cell, tip);
        speak(`${tip.title}: ${tip.rows[0][1]}`);
      },
    });
  }

  // What the matrices come to: sums and extremes of each side.
  function totalsTable(trace, all) {
    const P = trace.numRanks;
    const figures = Object.fromEntries(["before", "after"].map((side) => {
      const matrix = all[side];
      const { remote, all: rows } = remoteOf(matrix, P);
      const [into, out] = [new Float64Array(P), new Float64Array(P)];
      let busiest = 0;
      matrix.forEach((value, i) => {
        const [source, host] = [Math.floor(i / P), i % P];
        if (source === host) return;
        into[host] += value;
        out[source] += value;
        busiest = Math.max(busiest, value);
      });
      return [side, [
        format.count(remote),
        format.percent(remote / rows),
        format.count(busiest),
        format.count(d3.max(into)),
        format.count(d3.max(out)),
      ]];
    }));
    const names = ["rows between ranks", "of all rows", "busiest pair", "most into a rank", "most out of a rank"];
    return h(
      "table",
      { class: "plain traffic-totals" },
      h("thead", null, h("tr", null, ["", "before", "after"].map((name) => h("th", { scope: "col" }, name)))),
      h(
        "tbody",
        null,
        names.map((name, i) =>
          h(
            "tr",
            null,
            h("th", { scope: "row" }, name),
            h("td", { class: "before-ink" }, figures.before[i]),
            h("td", { class: "after-ink" }, figures.after[i]),
          )
        ),
      ),
    );
  }

  // {trace, detail, mode, place, high: top of the scale of colours}
  function trafficMatrix(pane, { trace, detail, mode, place, cell, high }) {
    const sides = (mode === "both" ? ["before", "after"] : [mode]).filter((side) => trace.traffic(detail, side));
    if (!sides.length) {
      const { node, body } = figure({ key: "traffic", trace, title: "Rows between ranks", png: false });
      pane.append(node);
      body.append(
        empty(
          "Sources unknown",
          "The loads of this trace do not say on which rank a token lives, so who sends to whom cannot be shown. Traces recorded with a count for each source rank can.",
        ),
      );
      return;
    }
    const all = Object.fromEntries(["before", "after"].map((side) => [side, trace.traffic(detail, side)]));
    const { node, body } = figure({
      key: "traffic",
      trace,
      place,
      cell,
      title: "Rows between ranks",
      note: "from the rank of the token (source) to the rank that computes the row (host); framed: kept local",
      ramp: { low: "0", high: format.rows(high), colour: theme.colours().heat },
      csv: () => [
        ["source", "host", "rows_before", "rows_after"],
        ...d3.range(trace.numRanks ** 2).map((
          i,
        ) => [Math.floor(i / trace.numRanks), i % trace.numRanks, all.before[i], all.after[i]]),
      ],
    });
    pane.append(node);
    body.classList.add("traffic");
    const isWide = body.clientWidth > 1040;
    const room =
      ((sides.length > 1 && body.clientWidth > 560 ? body.clientWidth - 24 : body.clientWidth) - (isWide ? 400 : 0)) /
      (sides.length > 1 && body.clientWidth > 560 ? 2 : 1);
    const size = Math.max(120, Math.min(480, Math.floor(room - MARGIN.left - MARGIN.right)));
    for (const side of sides) {
      oneMatrix(body, {
        trace,
        matrix: all[side],
        side,
        size: Math.max(trace.numRanks, Math.floor(size / trace.numRanks) * trace.numRanks),
        high,
      });
    }
    body.append(totalsTable(trace, all));
  }

  megaflux.traffic = { trafficMatrix };
})();
