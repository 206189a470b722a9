#!/usr/bin/env python3
"""Made-up reports that keep the contract of the report file, for looking at the page and for its tests.

    /usr/bin/python3 tests/viewer/page/sample_report.py small|sources|pair|big FILE

Loads are drawn around a popularity of experts that drifts from step to step; the plan is a greedy one. Figures
hang together (rows are conserved, imbalances follow from loads), but no planner of ours stands behind them.
"""

import sys

import numpy as np

from assemble import write_report

LAYER_US_PER_ROW = 0.004


class Blob:
    """Bytes that arrays are appended to; append() gives the reference that stands in the JSON."""

    TYPES = {"f32": "<f4", "u32": "<u4", "u16": "<u2", "u8": "u1"}

    def __init__(self):
        self.pieces, self.size = [], 0

    def append(self, type_name, values):
        array = np.ascontiguousarray(values, dtype=self.TYPES[type_name]).ravel()
        reference = {"at": self.size, "count": int(array.size), "type": type_name}
        raw = array.tobytes()
        raw += bytes(-len(raw) % 4)
        self.pieces.append(raw)
        self.size += len(raw)
        return reference

    def bytes(self):
        return b"".join(self.pieces)


def drifting_loads(rng, steps, layers, experts, rows):
    """[S, L, E] rows; every layer has its own popularity, which wanders."""
    skew = 0.35 + 0.75 * rng.random((1, layers, 1)) ** 2
    rank = rng.permuted(np.tile(np.arange(experts), (layers, 1)), axis=1)[None]
    loads, walk = np.empty((steps, layers, experts), np.int64), np.zeros((layers, experts), np.float32)
    for step in range(steps):
        walk = 0.97 * walk + rng.normal(0, 0.08, walk.shape).astype(np.float32)
        share = np.exp(-skew[0] * np.log1p(rank[0]) + walk)
        loads[step] = share * (rows / share.sum(axis=1, keepdims=True))
    return loads


def greedy_plan(loads, owner_of, ranks, slots):
    """[(expert, rank, rows)], owners included: the fullest rank gives rows of its largest expert away."""
    held = {(e, int(owner_of[e])): int(loads[e]) for e in range(len(loads)) if loads[e]}
    load = np.bincount(owner_of, weights=loads, minlength=ranks).astype(np.int64)
    free = np.full(ranks, slots)
    target = -(-int(loads.sum()) // ranks)
    by_rank = {
        rank: sorted(
            (e for e in range(len(loads)) if owner_of[e] == rank and loads[e]), key=lambda e: -loads[e]
        )
        for rank in range(ranks)
    }
    for _ in range(ranks * slots):
        donor = int(load.argmax())
        open_ranks = np.flatnonzero(free > 0)
        if load[donor] <= target or not open_ranks.size:
            break
        receiver = int(open_ranks[load[open_ranks].argmin()])
        expert = next((e for e in by_rank[donor] if held[(e, donor)] > 0 and (e, receiver) not in held), None)
        rows = (
            0
            if expert is None
            else min(int(load[donor] - target), int(target - load[receiver]), held[(expert, donor)])
        )
        if rows <= 0:
            break
        held[(expert, donor)] -= rows
        held[(expert, receiver)] = rows
        load[donor] -= rows
        load[receiver] += rows
        free[receiver] -= 1
    return sorted((e, r, rows) for (e, r), rows in held.items() if rows > 0), load


def chosen_cells(imbalance, most):
    """{cell: why}: the worst, those nearest to the median, and every n-th. None if `most` is 0."""
    if most == 0:
        return {}, 1
    cells, order = len(imbalance), np.argsort(-imbalance, kind="stable")
    third = max(1, min(cells, most) // 3)
    stride = max(1, cells // third)
    why = {}
    middle = cells // 2
    for bit, some in (
        (1, order[:third]),
        (2, order[max(0, middle - third // 2) :][:third]),
        (4, np.arange(0, cells, stride)[:third]),
    ):
        for cell in some:
            why[int(cell)] = why.get(int(cell), 0) | bit
    return dict(sorted(why.items())), stride


def traffic(rng, experts_to_ranks, loads, ranks):
    """rows[source][host] from [(expert, rank, rows)]: every source sends an equal part, give or take."""
    matrix = np.zeros((ranks, ranks), np.int64)
    for _, host, rows in experts_to_ranks:
        matrix[:, host] += rng.multinomial(rows, np.full(ranks, 1 / ranks))
    return matrix


class TraceSample:
    """One trace of the report; `entry()` is its JSON, arrays going to the blob."""

    def __init__(
        self,
        blob,
        seed=1,
        *,
        name="sample.npz",
        model="Sample-MoE",
        experts=64,
        ranks=8,
        slots=2,
        layers=16,
        steps=40,
        rows=65536,
        topk=8,
        sources=False,
        shape=True,
        time_ordered=True,
        most=60,
        layer_ids=None,
        first_step=0,
    ):
        self.blob, self.rng = blob, np.random.default_rng(seed)
        self.name, self.model = name, model
        self.E, self.P, self.slots, self.L, self.S, self.topk = experts, ranks, slots, layers, steps, topk
        self.sources, self.shape, self.time_ordered, self.most = sources, shape, time_ordered, most
        self.layer_ids, self.first_step = layer_ids or list(range(layers)), first_step
        self.owner_of = np.arange(experts) * ranks // experts
        self.loads = drifting_loads(self.rng, steps, layers, experts, rows).reshape(-1, experts)
        before = np.add.reduceat(self.loads, np.searchsorted(self.owner_of, np.arange(ranks)), axis=1)
        self.total = self.loads.sum(axis=1)
        self.mean = self.total / ranks
        self.max_before = before.max(axis=1)
        self.imbalance_before = self.max_before / self.mean
        excess = np.maximum(before - self.mean[:, None], 0).sum(axis=1)
        self.copies = np.minimum(
            ranks * slots, 1 + (excess / self.mean * 3).astype(int) + self.rng.integers(0, 2, len(excess))
        )
        self.after = (
            1 + self.rng.gamma(1.2, 0.006, len(self.total)) + 0.02 * np.maximum(0, self.imbalance_before - 2)
        )
        self.details()

    def details(self):
        """Plans the chosen cells for good, and corrects their aggregates by it."""
        self.why, self.stride = chosen_cells(self.imbalance_before, self.most)
        self.planned = {}
        for cell in self.why:
            instances, load = greedy_plan(self.loads[cell], self.owner_of, self.P, self.slots)
            self.planned[cell] = (instances, load)
            self.after[cell] = load.max() / self.mean[cell]
            self.copies[cell] = sum(1 for e, r, _ in instances if self.owner_of[e] != r)

    def cells(self):
        put, rng, n = self.blob.append, self.rng, len(self.total)
        share = self.loads / np.maximum(1, self.total)[:, None]
        churn = np.minimum(self.copies, rng.binomial(self.copies, 0.4)).astype(np.int64)
        churn[: self.L] = 65535
        moved = np.minimum(self.total, self.total * 0.05 * (self.imbalance_before - 1) + 1).astype(np.int64)
        fixed = self.max_before * LAYER_US_PER_ROW * 8 + 90
        ideal = self.mean * LAYER_US_PER_ROW * 8 + 80
        cells = {
            "rows": put("u32", self.total),
            "kappa": put("f32", self.E * (share**2).sum(axis=1)),
            "imbalance_before": put("f32", self.imbalance_before),
            "imbalance_after": put("f32", self.after),
            "tau_ratio": put("f32", np.maximum(1, self.after - 0.002)),
            "copies": put("u16", self.copies),
            "churn": put("u16", churn),
            "moved_rows": put("u32", moved),
            "peak_before": put("u32", self.max_before + 64),
            "peak_after": put("u32", self.mean * self.after + 128),
            "plan_us": put("f32", 24 + 6 * rng.random(n)),
        }
        if self.sources:
            cells["remote_before"] = put("u32", self.total * (1 - 1 / self.P))
            cells["remote_after"] = put("u32", self.total * (1 - 1 / self.P) - moved * 0.2)
        if self.shape:
            cells["moved_bytes"] = put("f32", self.copies * 9.4e6)
            cells["fixed_us"], cells["ideal_us"] = put("f32", fixed), put("f32", ideal)
            cells["planned_us"] = put("f32", self.mean * self.after * LAYER_US_PER_ROW * 8 + 115)
            cells["second_ideal_us"] = put("f32", ideal * 1.02)
        if not self.time_ordered:
            del cells["churn"]
        return cells

    def detail_arrays(self):
        put, chosen = self.blob.append, list(self.why)
        begin, experts, ranks, rows = [0], [], [], []
        before = np.zeros((len(chosen), self.P), np.int64)
        for at, cell in enumerate(chosen):
            instances = self.planned[cell][0]
            experts += [i[0] for i in instances]
            ranks += [i[1] for i in instances]
            rows += [i[2] for i in instances]
            begin.append(len(experts))
            before[at] = np.bincount(self.owner_of, weights=self.loads[cell], minlength=self.P)
        arrays = {
            "cell": put("u32", chosen),
            "why": put("u8", list(self.why.values())),
            "expert_rows": put("u32", self.loads[chosen]),
            "rows_before": put("u32", before),
            "rows_after": put("u32", [self.planned[cell][1] for cell in chosen]),
            "instance_begin": put("u32", begin),
            "instance_expert": put("u16", experts),
            "instance_rank": put("u16", ranks),
            "instance_rows": put("u32", rows),
        }
        if self.sources:
            owned = [
                [(e, int(self.owner_of[e]), int(r)) for e, r in enumerate(self.loads[c])] for c in chosen
            ]
            arrays["traffic_before"] = put("u32", [traffic(self.rng, o, self.loads, self.P) for o in owned])
            arrays["traffic_after"] = put(
                "u32", [traffic(self.rng, self.planned[c][0], self.loads, self.P) for c in chosen]
            )
        third = max(1, min(len(self.total), self.most) // 3)
        return {
            "chosen": f"worst {third:,}, median {third:,}, every {self.stride:,}th; "
            f"{len(chosen):,} of {len(self.total):,} cells",
            "max": 1000,
            **arrays,
        }

    def what_if(self):
        rows, rng = [], self.rng
        quality = [
            ("fixed", None),
            ("megaflux", 0.002),
            ("megaflux, slack 0.01", 0.008),
            ("paper", 0.03),
            ("quota", 0.004),
            ("ultraep", 0.05),
            ("eplb", 0.35),
            ("lplb", 0.2),
            ("llep", 0.08),
            ("echo", 0.12),
            ("moonep", 0.01),
            ("broadcast", 0.3),
        ]
        for ranks in sorted({8, 16, self.P}):
            spread = float(np.median(self.imbalance_before)) * (
                1 + 0.25 * np.log2(ranks / 8 + 1e-9 if ranks > 8 else 1)
            )
            for slots in (1, 2, 4):
                for label, loss in quality:
                    rows.append(self.what_if_row(rng, label, ranks, slots, spread, loss))
        least = min(
            (r for r in rows if not r["is_over_budget"] and r["ranks"] == self.P),
            key=lambda r: r["imbalance"]["p99"],
        )
        least["is_best"] = True
        return {
            "cells": min(1000, len(self.total)),
            "text": "every cell" if len(self.total) <= 1000 else f"every {len(self.total) // 1000}th cell",
            "rows": rows,
        }

    def what_if_row(self, rng, label, ranks, slots, spread, loss):
        planner = label.split(",")[0]
        loss = spread - 1 if loss is None else loss * 2 / slots
        median = 1 + loss * (0.8 + 0.3 * rng.random())
        copies = 0 if planner == "fixed" else ranks * min(slots, 2) * 0.4 * (0.8 if "," in label else 1)
        ideal = self.mean.mean() * self.P / ranks * LAYER_US_PER_ROW * 8 + 80
        timed = self.shape
        planned = ideal * median + (0 if planner == "fixed" else 25)
        fixed = ideal * spread
        pays = timed and planned < fixed
        return {
            "planner": planner,
            "label": label,
            "ranks": ranks,
            "slots": 0 if planner == "fixed" else slots,
            "history": planner in ("eplb", "lplb"),
            "imbalance": {
                "median": median,
                "p90": median + 0.3 * loss,
                "p99": median + 0.6 * loss,
                "max": median + 1.2 * loss,
            },
            "copies": copies,
            "replicas": copies,
            "moved_bytes": copies * 9.4e6 if timed else None,
            "remote_rows": float(self.total.mean() * 0.8) if self.sources else None,
            "peak_rows": int(self.mean.max() * (median + 1.2 * loss)),
            "plan_us": 0.1 if planner == "fixed" else 15 + 20 * rng.random(),
            "planned_us": planned if timed else None,
            "fixed_us": fixed if timed else None,
            "ideal_us": ideal if timed else None,
            "second_ideal_us": ideal * 1.02 if timed else None,
            "share_of_ideal": ideal / planned if timed else None,
            "slots_needed": 12 if planner == "moonep" else slots,
            "is_over_budget": planner == "moonep" and slots < 4,
            "break_even_rows": int(900 * (1 + loss)) if pays and planner != "fixed" else None,
            "is_best": False,
        }

    def entry(self):
        shape = {"name": "sample", "hidden": 2048, "inter": 768, "topk": self.topk} if self.shape else None
        return {
            "name": self.name,
            "model": self.model,
            "origin": "drawn from a seed",
            "licence": "none needed",
            "num_experts": self.E,
            "topk": self.topk,
            "num_steps": self.S,
            "num_layers": self.L,
            "layers": self.layer_ids,
            "first_step": self.first_step,
            "time_ordered": self.time_ordered,
            "has_sources": self.sources,
            "recorded_ranks": self.P if self.sources else 1,
            "setting": {
                "planner": "megaflux",
                "objective": "forward",
                "ranks": self.P,
                "slots": self.slots,
                "block_rows": 128,
                "slack": 0.0,
                "model_shape": shape,
                "machine": {"name": "h200"} if self.shape else None,
                "rows_per_rank": 0,
            },
            "owner_of": self.owner_of.tolist(),
            "cells": self.cells(),
            "details": self.detail_arrays(),
            "what_if": self.what_if(),
        }


def sample(kind, **changes):
    """(meta, blob) of a named sample; `changes` go to its first trace."""
    blob = Blob()
    first = {
        "small": {},
        "sources": {"sources": True, "steps": 12},
        "pair": {"name": "monday.npz", "layer_ids": list(range(3, 19)), "sources": True, "steps": 24},
        "big": {
            "name": "big.npz",
            "experts": 256,
            "ranks": 64,
            "layers": 100,
            "steps": 1000,
            "rows": 4194304,
            "most": 1000,
            "model": "Sample-MoE-256",
        },
    }[kind]
    traces = [TraceSample(blob, 1, **{**first, **changes}).entry()]
    if kind == "pair":
        traces.append(
            TraceSample(
                blob,
                2,
                name="tuesday.npz",
                shape=False,
                time_ordered=False,
                steps=9,
                layers=12,
                layer_ids=list(range(12)),
                ranks=16,
            ).entry()
        )
    meta = {
        "schema": "megaflux.report/1",
        "version": "0.1.0",
        "command": f"megaflux report {traces[0]['name']}",
        "traces": traces,
    }
    return meta, blob.bytes()


if __name__ == "__main__":
    written = write_report(sys.argv[2], *sample(sys.argv[1]))
    print(f"{written}: {written.stat().st_size:,} bytes")
