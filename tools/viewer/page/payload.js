// From the two data elements of the file to typed arrays: JSON with array references, and one deflated blob.
"use strict";
(() => {
  const TYPES = { f32: Float32Array, u32: Uint32Array, u16: Uint16Array, u8: Uint8Array };
  const SCHEMA = "megaflux.report/1";

  // What went wrong, in words for the person who opened the file.
  class ReportError extends Error {}

  function decoded(text) {
    try {
      if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
      const letters = atob(text);
      const bytes = new Uint8Array(letters.length);
      for (let i = 0; i < letters.length; ++i) bytes[i] = letters.charCodeAt(i);
      return bytes;
    } catch (error) {
      throw new ReportError("The data of this report is damaged: it is not base64. Was the file cut off on its way?");
    }
  }

  async function inflated(bytes) {
    if (typeof DecompressionStream === "undefined") {
      throw new ReportError(
        "This browser cannot unpack the data of the report (it has no DecompressionStream). " +
          "Chrome and Edge from 103, Firefox from 113 and Safari from 16.4 can.",
      );
    }
    try {
      const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
      return await new Response(stream).arrayBuffer();
    } catch (error) {
      throw new ReportError(
        "The data of this report is damaged: it does not unpack. Was the file cut off on its way?",
      );
    }
  }

  const isReference = (value) =>
    value !== null && typeof value === "object" && "at" in value && "count" in value && "type" in value;

  function slice(blob, reference, name) {
    const Type = TYPES[reference.type];
    if (!Type) {
      throw new ReportError(`The data of this report is damaged: ${name} has the unknown type "${reference.type}".`);
    }
    const end = reference.at + reference.count * Type.BYTES_PER_ELEMENT;
    if (!(reference.at >= 0 && reference.at % 4 === 0 && reference.count >= 0 && end <= blob.byteLength)) {
      throw new ReportError(`The data of this report is damaged: ${name} ends at byte ${end} of ${blob.byteLength}.`);
    }
    return new Type(blob, reference.at, reference.count);
  }

  // Every array reference of a group becomes its array; what is not there stays away.
  function sliced(blob, group, name) {
    const arrays = {};
    for (const [key, value] of Object.entries(group || {})) {
      arrays[key] = isReference(value) ? slice(blob, value, `${name}.${key}`) : value;
    }
    return arrays;
  }

  function expectCounts(trace, cells, details) {
    const numCells = trace.num_steps * trace.num_layers;
    for (const [key, values] of Object.entries(cells)) {
      if (values.length !== numCells) {
        throw new ReportError(
          `The data of this report is damaged: cells.${key} has ${values.length} of ${numCells} cells.`,
        );
      }
    }
    const [D, E, P] = [details.cell ? details.cell.length : 0, trace.num_experts, trace.setting.ranks];
    const M = details.instance_rows ? details.instance_rows.length : 0;
    const wanted = {
      why: D,
      expert_rows: D * E,
      rows_before: D * P,
      rows_after: D * P,
      instance_begin: D + 1,
      instance_expert: M,
      instance_rank: M,
      traffic_before: D * P * P,
      traffic_after: D * P * P,
    };
    for (const [key, count] of Object.entries(wanted)) {
      const values = details[key];
      if (D && values && values.length !== count) {
        throw new ReportError(
          `The data of this report is damaged: details.${key} has ${values.length} of ${count} values.`,
        );
      }
    }
  }

  async function read() {
    const metaNode = document.getElementById("report-meta");
    const dataNode = document.getElementById("report-data");
    if (!metaNode || !dataNode) {
      throw new ReportError(
        "This file holds the page of a report, but no data. `megaflux report TRACE -o report.html` writes both.",
      );
    }
    let meta;
    try {
      meta = JSON.parse(metaNode.textContent);
    } catch (error) {
      throw new ReportError("The data of this report is damaged: its description is not JSON.");
    }
    if (meta.schema !== SCHEMA) throw new ReportError(`This page reads ${SCHEMA}; the data is "${meta.schema}".`);
    if (!Array.isArray(meta.traces) || !meta.traces.length) throw new ReportError("This report holds no trace.");
    const blob = await inflated(decoded(dataNode.textContent.trim()));
    dataNode.remove();
    const traces = meta.traces.map((entry) => {
      const cells = sliced(blob, entry.cells, "cells");
      const details = sliced(blob, entry.details, "details");
      expectCounts(entry, cells, details);
      return new megaflux.Trace(entry, cells, details);
    });
    return { version: meta.version, command: meta.command, traces };
  }

  megaflux.payload = { read, ReportError };
})();
