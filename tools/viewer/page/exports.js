// What leaves the page: a chart as PNG, its numbers as CSV. Both are made here and offered as downloads.
"use strict";
(() => {
  const SCALE = 2; // pixels of the picture per pixel of the page
  const PADDING = 20;
  const LOOKS = [
    "fill",
    "fill-opacity",
    "stroke",
    "stroke-width",
    "stroke-opacity",
    "stroke-dasharray",
    "opacity",
    "font-size",
    "font-family",
    "font-weight",
    "text-anchor",
    "dominant-baseline",
    "shape-rendering",
    "paint-order",
    "visibility",
    "display",
  ];

  const fileName = (parts, ending) =>
    `${parts.filter(Boolean).join("_").replace(/[^\w.-]+/g, "-").slice(0, 120)}.${ending}`;

  function offer(blob, name) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = name;
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
    megaflux.elements.speak(`Saved ${name}`);
  }

  // A spreadsheet runs what starts with = + - @; text from a trace gets an apostrophe before it.
  function csvCell(value) {
    if (value === null || value === undefined || Number.isNaN(value)) return "";
    if (typeof value === "number") return String(value);
    const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value);
    return /[",\n\r]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
  }
  const csvText = (rows) => `${rows.map((row) => row.map(csvCell).join(",")).join("\r\n")}\r\n`;

  function saveCsv(parts, rows) {
    offer(new Blob([csvText(rows)], { type: "text/csv;charset=utf-8" }), fileName(parts, "csv"));
  }

  // The drawing with its looks written into it: outside the page there is no style sheet.
  function standalone(svg, width, height) {
    const copy = svg.cloneNode(true);
    const from = [svg, ...svg.querySelectorAll("*")];
    const to = [copy, ...copy.querySelectorAll("*")];
    from.forEach((node, i) => {
      const style = getComputedStyle(node);
      for (const look of LOOKS) to[i].style.setProperty(look, style.getPropertyValue(look));
      to[i].removeAttribute("class");
    });
    copy.setAttribute("width", width);
    copy.setAttribute("height", height);
    copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
    return new XMLSerializer().serializeToString(copy);
  }

  function picture(text) {
    return new Promise((resolve, reject) => {
      const image = new Image();
      image.onload = () => resolve(image);
      image.onerror = () => reject(new Error("the drawing did not become a picture"));
      image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
    });
  }

  function drawRamp(context, ramp, x) {
    const baseline = PADDING + 55;
    const ink = context.fillStyle;
    context.fillText(ramp.low, x, baseline);
    x += context.measureText(ramp.low).width + 8;
    for (let i = 0; i < 160; ++i) {
      context.fillStyle = ramp.colour(i / 159);
      context.fillRect(x + i, PADDING + 46, 1.5, 10);
    }
    context.fillStyle = ink;
    context.fillText(ramp.high, x + 168, baseline);
  }

  // A legend's mark, as the style sheet draws it on the page; returns its width.
  function drawMark(context, { colour, look }, colours, x) {
    const y = PADDING + 51;
    const kind = look || "";
    context.fillStyle = context.strokeStyle = colours[colour];
    context.lineWidth = kind.includes("thin") ? 1.2 : 2.2;
    context.setLineDash(kind.includes("dotted") ? [1.5, 3] : []);
    context.beginPath();
    if (kind.startsWith("line-swatch")) {
      context.moveTo(x, y);
      context.lineTo(x + 18, y);
      context.stroke();
    } else if (kind === "ring-swatch" || kind === "spot-swatch") {
      context.arc(x + 5, y, 4, 0, 2 * Math.PI);
      if (kind === "spot-swatch") context.fill();
      else context.stroke();
    } else if (kind === "bar-swatch") context.fillRect(x + 4, y - 5, 2, 10);
    else if (kind === "hatched") {
      context.save();
      context.rect(x, y - 5, 10, 10);
      context.clip();
      for (let at = -10; at <= 20; at += 4.5) {
        context.moveTo(x + at, y + 6);
        context.lineTo(x + at + 11, y - 6);
      }
      context.lineWidth = 1.6;
      context.stroke();
      context.restore();
      context.lineWidth = 1;
      context.strokeRect(x + 0.5, y - 4.5, 9, 9);
    } else context.fillRect(x, y - 5, 10, 10);
    context.setLineDash([]);
    return kind.startsWith("line-swatch") ? 18 : 10;
  }

  // Title and note, at the right the trace and the cell, and the legend: what the page says around the drawing.
  function drawHead(context, { title, note, legend, ramp, trace, cell }, colours, width) {
    const family = getComputedStyle(document.body).fontFamily;
    context.fillStyle = colours.ink;
    context.font = `650 16px ${family}`;
    context.fillText(title, PADDING, PADDING + 14, width);
    const titleWidth = context.measureText(title).width;
    context.font = `12px ${family}`;
    context.fillStyle = colours["ink-soft"];
    if (note) context.fillText(note, PADDING, PADDING + 34, width);
    const place = [trace && trace.name, cell].filter(Boolean).join(", ");
    context.textAlign = "right";
    if (place) context.fillText(place, PADDING + width, PADDING + 14, Math.max(40, width - titleWidth - 24));
    context.textAlign = "left";
    let x = PADDING;
    for (const entry of legend || []) {
      const mark = drawMark(context, entry, colours, x);
      context.fillStyle = colours["ink-soft"];
      context.fillText(entry.text, x + mark + 6, PADDING + 55);
      x += mark + 6 + context.measureText(entry.text).width + 18;
    }
    if (ramp) drawRamp(context, ramp, x);
  }

  // Everything drawn in the body of a figure, where it stands on the page, below its title and legend.
  async function savePng(parts, body, words) {
    const colours = megaflux.theme.colours();
    const frame = body.getBoundingClientRect();
    const head = words.ramp || (words.legend && words.legend.length) ? 70 : 48;
    const canvas = document.createElement("canvas");
    canvas.width = (frame.width + 2 * PADDING) * SCALE;
    canvas.height = (frame.height + 2 * PADDING + head) * SCALE;
    const context = canvas.getContext("2d");
    context.scale(SCALE, SCALE);
    context.fillStyle = colours.surface;
    context.fillRect(0, 0, canvas.width, canvas.height);
    drawHead(context, words, colours, frame.width);
    for (const node of body.querySelectorAll("canvas, svg")) {
      const box = node.getBoundingClientRect();
      if (!box.width || !box.height) continue;
      const image = node instanceof HTMLCanvasElement ? node : await picture(standalone(node, box.width, box.height));
      context.imageSmoothingEnabled = !(node instanceof HTMLCanvasElement);
      context.drawImage(
        image,
        PADDING + box.left - frame.left,
        PADDING + head + box.top - frame.top,
        box.width,
        box.height,
      );
    }
    const blob = await new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
    offer(blob, fileName(parts, "png"));
  }

  megaflux.exports = { saveCsv, savePng, csvText };
})();
