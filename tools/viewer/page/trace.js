// One trace of the report: its words, its cells and their statistics. A cell is one layer of one step,
// c = step * L + layer.
"use strict";
(() => {
  const NO_PREVIOUS_STEP = 65535;

  // Nearest-rank percentile of ascending values: the least value that at least p of them do not exceed.
  const percentile = (sorted, p) => (sorted.length ? sorted[Math.max(0, Math.ceil(p * sorted.length) - 1)] : NaN);

  // Ascending, without NaN. Copies by the array's own means: 100,000 values through callbacks would be felt.
  function ascending(values) {
    const sorted = new Float32Array(values).sort(); // NaN goes to the end
    let count = sorted.length;
    while (count > 0 && Number.isNaN(sorted[count - 1])) --count;
    return sorted.subarray(0, count);
  }

  // What is asked for is worked out: sums and extremes in one pass, and an order only for percentiles.
  function distribution(values) {
    let sorted = null;
    let sums = null;
    const at = (p) => percentile(sorted || (sorted = ascending(values)), p);
    const over = () => {
      if (sums) return sums;
      sums = { sum: 0, count: 0, min: NaN, max: NaN };
      for (let i = 0; i < values.length; ++i) {
        const value = values[i];
        if (Number.isNaN(value)) continue;
        sums.sum += value;
        sums.count += 1;
        if (!(value >= sums.min)) sums.min = value;
        if (!(value <= sums.max)) sums.max = value;
      }
      return sums;
    };
    return {
      get median() {
        return at(0.5);
      },
      get p90() {
        return at(0.9);
      },
      get p99() {
        return at(0.99);
      },
      get min() {
        return over().min;
      },
      get max() {
        return over().max;
      },
      get mean() {
        return over().count ? over().sum / over().count : NaN;
      },
    };
  }

  class Trace {
    constructor(entry, cells, details) {
      this.entry = entry;
      this.name = String(entry.name);
      this.numLayers = entry.num_layers;
      this.numSteps = entry.num_steps;
      this.numCells = entry.num_layers * entry.num_steps;
      this.numExperts = entry.num_experts;
      this.numRanks = entry.setting.ranks;
      this.ownerOf = entry.owner_of;
      this.cells = cells;
      this.details = details;
      this.detailCells = details.cell || new Uint32Array(0);
      this.cache = new Map();
      if (cells.churn) {
        this.cells.churn = new Float32Array(cells.churn).map((value) => (value === NO_PREVIOUS_STEP ? NaN : value));
      }
    }

    once(key, make) {
      if (!this.cache.has(key)) this.cache.set(key, make());
      return this.cache.get(key);
    }

    cellOf(layer, step) {
      return step * this.numLayers + layer;
    }
    layerOf(cell) {
      return cell % this.numLayers;
    }
    stepOf(cell) {
      return Math.floor(cell / this.numLayers);
    }

    // Models number their layers themselves; the index counts the recorded ones from 0.
    modelLayer(layer) {
      return this.entry.layers && this.entry.layers[layer] !== undefined ? this.entry.layers[layer] : layer;
    }
    get hasModelLayers() {
      return this.once(
        "model layers",
        () => d3.range(this.numLayers).some((layer) => this.modelLayer(layer) !== layer),
      );
    }
    layerWords(layer) {
      return this.hasModelLayers ? `model layer ${this.modelLayer(layer)} (index ${layer})` : `layer ${layer}`;
    }
    stepWords(step) {
      const first = this.entry.first_step || 0;
      return first ? `step ${first + step} (index ${step})` : `step ${step}`;
    }
    cellWords(layer, step) {
      return `${this.layerWords(layer)}, ${this.stepWords(step)}`;
    }

    // Position of a cell among those with full detail, or -1.
    detailOf(cell) {
      const at = d3.bisectLeft(this.detailCells, cell);
      return this.detailCells[at] === cell ? at : -1;
    }

    whyWords(detail) {
      const why = this.details.why ? this.details.why[detail] : 0;
      const words = [[1, "among the worst"], [2, "near the median"], [4, "every n-th"], [8, "asked for"]];
      return words.filter(([bit]) => why & bit).map(([, word]) => word).join(", ") || "kept";
    }

    flagWords(cell) {
      const flags = this.cells.flags ? this.cells.flags[cell] : 0;
      return [flags & 1 && "warm-up", flags & 2 && "replay"].filter(Boolean).join(", ");
    }

    overall(key, values) {
      return this.once(`all ${key}`, () => distribution(values));
    }

    ofLayer(key, values, layer) {
      return this.once(`layer ${key} ${layer}`, () => {
        const some = new Float32Array(this.numSteps);
        for (let step = 0; step < this.numSteps; ++step) some[step] = values[step * this.numLayers + layer];
        return distribution(some);
      });
    }

    // The first cell to look at: the worst one without replicas that has full detail, else the worst one.
    get worstCell() {
      return this.once("worst", () => {
        const value = this.cells.imbalance_before;
        const among = this.detailCells.length ? this.detailCells : d3.range(this.numCells);
        let worst = among[0] || 0;
        for (const cell of among) if (value[cell] > value[worst]) worst = cell;
        return worst;
      });
    }

    worstCells(values, count) {
      const best = [];
      for (let cell = 0; cell < values.length; ++cell) {
        if (Number.isNaN(values[cell]) || (best.length === count && !(values[cell] > values[best[count - 1]]))) {
          continue;
        }
        let at = best.length;
        while (at > 0 && values[cell] > values[best[at - 1]]) --at;
        best.splice(at, 0, cell);
        if (best.length > count) best.pop();
      }
      return best;
    }

    expertRows(detail) {
      return this.details.expert_rows.subarray(detail * this.numExperts, (detail + 1) * this.numExperts);
    }
    rankRows(detail, side) {
      return this.details[`rows_${side}`].subarray(detail * this.numRanks, (detail + 1) * this.numRanks);
    }
    traffic(detail, side) {
      const all = this.details[`traffic_${side}`];
      const size = this.numRanks * this.numRanks;
      return all ? all.subarray(detail * size, (detail + 1) * size) : null;
    }

    // [{expert, rank, rows, isReplica}]: with the plan, or every expert on its owner.
    instances(detail, side) {
      if (side === "before") {
        return Array.from(
          this.expertRows(detail),
          (rows, expert) => ({ expert, rank: this.ownerOf[expert], rows, isReplica: false }),
        )
          .filter(({ rows }) => rows > 0);
      }
      const { instance_begin: begin, instance_expert: experts, instance_rank: ranks, instance_rows: rows } =
        this.details;
      const found = [];
      for (let i = begin[detail]; i < begin[detail + 1]; ++i) {
        found.push({
          expert: experts[i],
          rank: ranks[i],
          rows: rows[i],
          isReplica: this.ownerOf[experts[i]] !== ranks[i],
        });
      }
      return found;
    }

    // The bound tau, whole blocks spread evenly over the ranks, as if all of them were full.
    tauRows(detail) {
      const beta = this.entry.setting.block_rows || 1;
      let blocks = 0;
      for (const rows of this.expertRows(detail)) blocks += Math.ceil(rows / beta);
      return Math.ceil(blocks / this.numRanks) * beta;
    }
  }

  megaflux.Trace = Trace;
  megaflux.statistics = { percentile, ascending, distribution };
})();
