// The drawing of a heat map layer x step, up to millions of cells: colours on a canvas, axes and cursor above it, and a
// window over the cells that zooms and pans. It knows no metric and no section.
"use strict";
(() => {
  const { s } = megaflux.elements;
  const { roundIndices } = megaflux.charts;
  const MARGIN = { top: 6, right: 12, bottom: 46, left: 62 };
  const WIDEST_CELL = 112;
  const TALLEST_CELL = 48;
  const clamp = (value, low, high) => Math.min(high, Math.max(low, value));

  class HeatMapCanvas {
    // {trace, values, pixels: 256 colours, domain, isGain, showMarks, write(value), label, body}
    constructor(options) {
      Object.assign(this, options);
      const { trace, body } = this;
      const room = Math.max(200, body.clientWidth - MARGIN.left - MARGIN.right);
      this.width = Math.min(room, trace.numSteps * WIDEST_CELL);
      this.height = trace.numLayers * clamp(Math.floor(480 / trace.numLayers), 5, 26);
      this.height = Math.min(this.height, 720);
      this.canvas = document.createElement("canvas");
      Object.assign(this.canvas.style, {
        left: `${MARGIN.left}px`,
        top: `${MARGIN.top}px`,
        width: `${this.width}px`,
        height: `${this.height}px`,
      });
      this.canvas.setAttribute("aria-label", this.label);
      this.canvas.setAttribute("role", "application");
      this.canvas.tabIndex = 0;
      const full = [this.width + MARGIN.left + MARGIN.right, this.height + MARGIN.top + MARGIN.bottom];
      this.svg = s("svg", {
        class: "heat-over",
        width: full[0],
        height: full[1],
        viewBox: `0 0 ${full[0]} ${full[1]}`,
        "aria-hidden": "true",
      });
      body.classList.add("heat");
      body.style.height = `${full[1]}px`;
      body.append(this.canvas, this.svg);
      const root = d3.select(this.svg).append("g").attr("transform", `translate(${MARGIN.left},${MARGIN.top})`);
      this.axes = root.append("g");
      this.cursorNode = root.append("g").attr("class", "heat-cursor");
      this.brushNode = root.append("rect").attr("class", "heat-brush").attr("visibility", "hidden");
      this.x = d3.scaleLinear().range([0, this.width]);
      this.y = d3.scaleLinear().range([0, this.height]);
      this.cursor = null;
      this.reset();
    }

    reset() {
      this.look([0, this.trace.numSteps], [0, this.trace.numLayers]);
    }

    get isZoomed() {
      const [[x0, x1], [y0, y1]] = [this.x.domain(), this.y.domain()];
      return x1 - x0 < this.trace.numSteps - 1e-6 || y1 - y0 < this.trace.numLayers - 1e-6;
    }

    // Shows these steps and layers, kept inside the trace and not closer than cells of that size.
    look(xs, ys) {
      const fit = ([low, high], count, most) => {
        const size = clamp(high - low, Math.min(count, most), count);
        const middle = (low + high) / 2;
        const start = clamp(middle - size / 2, 0, count - size);
        return [start, start + size];
      };
      this.x.domain(fit(xs, this.trace.numSteps, Math.max(2, this.width / WIDEST_CELL)));
      this.y.domain(fit(ys, this.trace.numLayers, Math.max(2, this.height / TALLEST_CELL)));
      this.draw();
    }

    zoom(factor, px = this.width / 2, py = this.height / 2) {
      const about = (scale, at, count, closest) => {
        const [low, high] = scale.domain();
        const anchor = scale.invert(at);
        const size = clamp((high - low) * factor, Math.min(count, closest), count);
        const start = anchor - ((anchor - low) * size) / (high - low);
        return [start, start + size];
      };
      this.look(
        about(this.x, px, this.trace.numSteps, Math.max(2, this.width / WIDEST_CELL)),
        about(this.y, py, this.trace.numLayers, Math.max(2, this.height / TALLEST_CELL)),
      );
    }

    pan(dx, dy) {
      const moved = (scale, by) => scale.range().map((edge) => scale.invert(edge - by));
      this.look(moved(this.x, dx), moved(this.y, dy));
    }

    cellAt(px, py) {
      if (px < 0 || py < 0 || px >= this.width || py >= this.height) return null;
      const step = clamp(Math.floor(this.x.invert(px)), 0, this.trace.numSteps - 1);
      const layer = clamp(Math.floor(this.y.invert(py)), 0, this.trace.numLayers - 1);
      return { layer, step, cell: this.trace.cellOf(layer, step) };
    }

    boxOf(layer, step) {
      return {
        x: this.x(step),
        y: this.y(layer),
        width: this.x(step + 1) - this.x(step),
        height: this.y(layer + 1) - this.y(layer),
      };
    }

    setCursor(layer, step, { reveal = false } = {}) {
      this.cursor = { layer, step };
      if (reveal) {
        const inside = ([low, high], at) => at >= low - 1e-6 && at + 1 <= high + 1e-6;
        const moved = (
          [low, high],
          at,
        ) => (inside([low, high], at)
          ? [low, high]
          : at < low
          ? [at, at + high - low]
          : [at + 1 - (high - low), at + 1]);
        const [xs, ys] = [moved(this.x.domain(), step), moved(this.y.domain(), layer)];
        if (xs[0] !== this.x.domain()[0] || ys[0] !== this.y.domain()[0]) this.look(xs, ys);
      }
      this.drawCursor();
    }

    colourIndex(value) {
      const [low, high] = this.domain;
      return clamp(Math.round((255 * (value - low)) / (high - low || 1)), 0, 255);
    }

    // One pixel column may stand for several steps: it shows the one that stands out most.
    strongest(layer, first, last) {
      const { values, isGain, trace } = this;
      let best = NaN;
      for (let step = first; step < last; ++step) {
        const value = values[step * trace.numLayers + layer];
        if (Number.isNaN(best) || (isGain ? Math.abs(value) > Math.abs(best) : value > best)) best = value;
      }
      return best;
    }

    draw() {
      const density = window.devicePixelRatio || 1;
      const columns = Math.round(this.width * density);
      const [y0, y1] = this.y.domain();
      const [top, bottom] = [Math.floor(y0), Math.min(this.trace.numLayers, Math.ceil(y1))];
      const image = new ImageData(columns, bottom - top);
      const target = new Uint32Array(image.data.buffer);
      const firsts = d3.range(columns + 1).map((column) => this.x.invert(column / density));
      for (let layer = top; layer < bottom; ++layer) {
        for (let column = 0; column < columns; ++column) {
          const first = Math.min(this.trace.numSteps - 1, Math.floor(firsts[column] + 1e-9));
          const last = Math.max(first + 1, Math.min(this.trace.numSteps, Math.floor(firsts[column + 1] + 1e-9)));
          const value = this.strongest(layer, first, last);
          target[(layer - top) * columns + column] = Number.isNaN(value) ? 0 : this.pixels[this.colourIndex(value)];
        }
      }
      const strip = document.createElement("canvas");
      strip.width = columns;
      strip.height = bottom - top;
      strip.getContext("2d").putImageData(image, 0, 0);
      this.canvas.width = columns;
      this.canvas.height = Math.round(this.height * density);
      const context = this.canvas.getContext("2d");
      context.imageSmoothingEnabled = false;
      context.drawImage(
        strip,
        0,
        0,
        columns,
        bottom - top,
        0,
        this.y(top) * density,
        columns,
        (this.y(bottom) - this.y(top)) * density,
      );
      context.scale(density, density);
      this.drawGaps(context);
      this.drawValues(context);
      if (this.showMarks) this.drawMarks(context);
      this.drawAxes();
      this.drawCursor();
    }

    // Cells large enough to be told apart get a hairline between them.
    drawGaps(context) {
      if (Math.min(this.x(1) - this.x(0), this.y(1) - this.y(0)) < 7) return;
      context.fillStyle = megaflux.theme.colours().surface;
      const lines = (scale, mark) => {
        const [low, high] = scale.domain();
        for (let at = Math.ceil(low); at <= high; ++at) mark(scale(at) - 0.5);
      };
      lines(this.x, (x) => context.fillRect(x, 0, 1, this.height));
      lines(this.y, (y) => context.fillRect(0, y, this.width, 1));
    }

    // Cells with room for it show their value.
    drawValues(context) {
      const [width, height] = [this.x(1) - this.x(0), this.y(1) - this.y(0)];
      if (!this.write || width < 62 || height < 15) return;
      const colours = megaflux.theme.colours();
      context.font = `12px ${getComputedStyle(document.body).fontFamily}`;
      context.textAlign = "center";
      const [first, last] = this.x.domain();
      for (let step = Math.floor(first); step < Math.min(this.trace.numSteps, last); ++step) {
        for (
          let layer = Math.floor(this.y.domain()[0]);
          layer < Math.min(this.trace.numLayers, this.y.domain()[1]);
          ++layer
        ) {
          const value = this.values[this.trace.cellOf(layer, step)];
          const scale = this.isGain ? Math.abs(this.colourIndex(value) - 127.5) * 2 : this.colourIndex(value);
          context.fillStyle = scale > 110 ? colours["mark-halo"] : colours.mark;
          context.fillText(this.write(value), this.x(step + 0.5), this.y(layer + 0.5) + 4);
        }
      }
    }

    drawMarks(context) {
      const { trace } = this;
      const colours = megaflux.theme.colours();
      const [width, height] = [this.x(1) - this.x(0), this.y(1) - this.y(0)];
      const isLarge = Math.min(width, height) >= 9;
      context.globalAlpha = isLarge ? 0.8 : 0.6; // the colours of the cells come first
      for (const cell of trace.detailCells) {
        const px = isLarge ? this.x(trace.stepOf(cell) + 1) - 4.5 : this.x(trace.stepOf(cell) + 0.5);
        const py = isLarge ? this.y(trace.layerOf(cell)) + 4.5 : this.y(trace.layerOf(cell) + 0.5);
        if (px < -2 || py < -2 || px > this.width + 2 || py > this.height + 2) continue;
        const radius = isLarge ? 2 : 0.9;
        const isStrong = this.colourIndex(this.values[cell]) > 110;
        context.fillStyle = isStrong ? colours["mark-halo"] : colours.mark;
        context.fillRect(px - radius, py - radius, 2 * radius, 2 * radius);
      }
      context.globalAlpha = 1;
    }

    drawAxes() {
      const { trace, axes } = this;
      axes.selectAll("*").remove();
      const text = (x, y, words, anchor) =>
        axes.append("text").attr("x", x).attr("y", y).attr("text-anchor", anchor).attr("class", "tick-text").text(
          words,
        );
      const within = (scale, count, room) => {
        const [low, high] = scale.domain();
        const visible = roundIndices(Math.ceil(high - low), room);
        const step = visible.length > 1 ? visible[1] : Math.max(1, Math.ceil(high - low));
        return d3.range(Math.ceil(Math.floor(low) / step) * step, Math.min(count, high), step).filter((at) =>
          at + 0.5 >= low && at + 0.5 <= high
        );
      };
      for (const layer of within(this.y, trace.numLayers, Math.max(1, this.height / 20))) {
        text(-8, this.y(layer + 0.5) + 4, trace.modelLayer(layer), "end");
      }
      for (const step of within(this.x, trace.numSteps, Math.max(1, this.width / 56))) {
        text(this.x(step + 0.5), this.height + 18, (trace.entry.first_step || 0) + step, "middle");
      }
      axes.append("text").attr("class", "axis-title").attr("x", Math.max(20, this.width / 2)).attr(
        "y",
        this.height + 38,
      ).text("step");
      axes.append("text").attr("class", "axis-title").attr(
        "transform",
        `translate(-48,${this.height / 2}) rotate(-90)`,
      ).text(trace.hasModelLayers ? "model layer" : "layer");
    }

    drawCursor() {
      this.cursorNode.selectAll("*").remove();
      if (!this.cursor) return;
      const box = this.boxOf(this.cursor.layer, this.cursor.step);
      const [cx, cy] = [box.x + box.width / 2, box.y + box.height / 2];
      if (cx < 0 || cy < 0 || cx > this.width || cy > this.height) return;
      const [width, height] = [Math.max(7, box.width), Math.max(7, box.height)];
      for (const look of ["halo", "ring"]) {
        this.cursorNode.append("rect").attr("class", look).attr("x", cx - width / 2).attr("y", cy - height / 2).attr(
          "width",
          width,
        ).attr("height", height).attr("rx", 2);
      }
      this.cursorNode.append("path").attr("class", "pointer").attr("d", `M-2,${cy}l-5,-4v8z`);
      this.cursorNode.append("path").attr("class", "pointer").attr("d", `M${cx},${this.height + 2}l-4,5h8z`);
    }
  }

  megaflux.HeatMapCanvas = HeatMapCanvas;
  megaflux.HeatMapCanvas.MARGIN = MARGIN;
})();
