// The frame every chart and table stands in: title, words, controls, export; and what charts share: panes for one
// trace or two, and drawings with axes.
"use strict";
(() => {
  const { h, s, button } = megaflux.elements;

  // {key, title, note, legend: [{colour, text}], ramp: {low, high, colour(t)}, controls: [node], csv: () => rows, png: true, trace, place: for the file name, cell: words}
  function figure(spec) {
    const body = h("div", { class: "figure-body" });
    const parts = ["megaflux", spec.key, spec.trace && spec.trace.name.replace(/\.npz$/, ""), spec.place];
    const tools = [
      spec.csv &&
      button("CSV", () => megaflux.exports.saveCsv(parts, spec.csv()), {
        class: "tool",
        "data-export": "csv",
        "data-key": `${spec.key}-csv`,
        title: "Save the numbers as CSV",
        "aria-label": `Save ${spec.title} as CSV`,
      }),
      spec.png !== false &&
      button("PNG", () => megaflux.exports.savePng(parts, body, spec), {
        class: "tool",
        "data-export": "png",
        "data-key": `${spec.key}-png`,
        title: "Save the chart as PNG",
        "aria-label": `Save ${spec.title} as PNG`,
      }),
    ];
    const legend = spec.legend && spec.legend.length &&
      h(
        "ul",
        { class: "legend", "aria-label": "Legend" },
        spec.legend.map(({ colour, text, look }) =>
          h("li", null, h("span", { class: `swatch ${look || ""}`, style: `--swatch: var(--${colour})` }), text)
        ),
      );
    const ramp = spec.ramp &&
      h(
        "div",
        { class: "ramp-legend" },
        h("span", null, spec.ramp.low),
        h("span", {
          class: "ramp",
          style: `background:linear-gradient(90deg,${
            d3.range(0, 1.0001, 0.1).map((t) => spec.ramp.colour(t)).join(",")
          })`,
        }),
        h("span", null, spec.ramp.high),
      );
    const node = h(
      "figure",
      { class: `figure ${spec.wide ? "wide" : ""}`, "data-figure": spec.key },
      h(
        "div",
        { class: "figure-head" },
        h(
          "div",
          { class: "figure-words" },
          h("h3", null, spec.title),
          spec.note && h("p", { class: "soft small" }, spec.note),
        ),
        h("div", { class: "figure-tools" }, spec.controls, tools),
      ),
      legend,
      ramp,
      body,
    );
    return { node, body };
  }

  // One column for one trace, two for two; `draw(pane, trace, index)` is called when both stand in the page.
  function panes(host, app, draw) {
    const many = app.traces.length > 1;
    const nodes = app.traces.map((trace, index) =>
      h(
        "div",
        { class: "pane", "data-pane": index },
        many &&
          h("div", { class: "pane-name" }, h("span", { class: "badge" }, "AB"[index]), h("span", null, trace.name)),
      )
    );
    host.append(h("div", { class: many ? "panes two" : "panes" }, nodes));
    app.traces.forEach((trace, index) => draw(nodes[index], trace, index));
  }

  // A drawing as wide as its body: {svg, g, width, height} with the inner sizes.
  function drawing(body, { height, margin, label, width }) {
    const outer = Math.max(240, Math.floor(width || body.clientWidth || 640));
    const svg = s("svg", {
      viewBox: `0 0 ${outer} ${height}`,
      width: outer,
      height,
      role: "img",
      "aria-label": label,
    });
    const g = s("g", { transform: `translate(${margin.left},${margin.top})` });
    svg.append(g);
    body.append(svg);
    return {
      svg,
      g: d3.select(g),
      width: outer - margin.left - margin.right,
      height: height - margin.top - margin.bottom,
    };
  }

  // Quiet axes: grid lines and numbers, no ticks, no frame.
  function yAxis(g, scale, width, write, count = 5) {
    const axis = g.append("g").attr("class", "axis y").call(
      d3.axisLeft(scale).ticks(count).tickSize(-width).tickPadding(8).tickFormat(write),
    );
    axis.select(".domain").remove();
    return axis;
  }
  function xAxis(g, scale, height, title, { write, count, values } = {}) {
    const axis = d3.axisBottom(scale).tickSize(0).tickPadding(8);
    if (count) axis.ticks(count);
    if (values) axis.tickValues(values);
    if (write) axis.tickFormat(write);
    const node = g.append("g").attr("class", "axis x").attr("transform", `translate(0,${height})`).call(axis);
    if (title) {
      const [from, to] = d3.extent(scale.range());
      node.append("text").attr("class", "axis-title").attr("x", (from + to) / 2).attr("y", 36).text(title);
    }
    return node;
  }

  // At most `most` of 0 .. count-1, evenly and in round steps, for labels.
  function roundIndices(count, most) {
    const step =
      [1, 2, 4, 5, 8, 10, 16, 20, 32, 50, 64, 100, 128, 200, 250, 256, 500, 512, 1000, 2000, 5000, 1e4, 1e5, 1e6]
        .find((each) => count / each <= most) || count;
    return d3.range(0, count, step);
  }

  // From the floor of a metric (0 or 1) to a little above the largest value.
  function domainOf(values, floor) {
    const top = d3.max(values.filter((value) => Number.isFinite(value)));
    const low = floor === undefined ? 0 : floor;
    if (top === undefined || top <= low) return [low, low + (low || 1)];
    return [low, top + (top - low) * 0.04];
  }

  megaflux.charts = { figure, panes, drawing, yAxis, xAxis, roundIndices, domainOf };
  megaflux.views = [];
})();
