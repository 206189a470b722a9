"""What the sections show is what the payload holds."""

import unittest
from collections import Counter

import numpy as np

from browser import PageTest
from report_arrays import TraceArrays


class Overview(PageTest):
    def test_cards_hold_the_figures_of_the_cells(self):
        meta = self.open("sources")
        arrays = TraceArrays(meta, self.report("sources")[2])

        def nearest_rank(values, p):
            return np.sort(values)[max(0, int(np.ceil(p * len(values))) - 1)]

        card = self.text('[data-card="imbalance"]')
        for side in ("before", "after"):
            values = arrays.cells(f"imbalance_{side}")
            for p in (0.5, 0.9, 1.0):
                self.assertIn(f"{nearest_rank(values, p):.2f}", card)
        fixed, planned, ideal = (
            arrays.cells(f"{name}_us").astype(float).mean() for name in ("fixed", "planned", "ideal")
        )
        self.assertIn(f"{fixed / planned:.2f}×", self.text('[data-card="speed-up"]'))
        self.assertIn(f"{100 * ideal / planned:.1f}", self.text('[data-card="share"]'))
        self.assertIn(f"{nearest_rank(arrays.cells('kappa'), 0.5):.2f}", self.text('[data-card="kappa"]'))
        self.assertIn(f"{arrays.cells('moved_bytes').mean() / 2 ** 20:.1f}", self.text('[data-card="bytes"]'))
        self.assertTrue(
            self.text('[data-card="copies"]')
            .split("\n")[1]
            .startswith(f"{nearest_rank(arrays.cells('copies'), 0.5):.0f}")
        )


class HeatMap(PageTest):
    def test_hover_shows_the_exact_value(self):
        meta = self.open("small")
        arrays = TraceArrays(meta, self.report("small")[2])
        canvas = self.one(".heat canvas")
        width, height = self.script("return [arguments[0].clientWidth, arguments[0].clientHeight]", canvas)
        self.point_at(canvas, width * 20.5 / 40, height * 7.5 / 16)
        cell = 20 * arrays.L + 7
        tip = self.text("#tooltip")
        self.assertIn("layer 7, step 20", tip)
        for side in ("before", "after"):
            self.assertIn(f"{arrays.cells(f'imbalance_{side}')[cell]:.3f}", tip)
        self.assertIn(f"{arrays.cells('rows')[cell]:,}", tip)

    def test_sides_and_figures_change_the_picture(self):
        self.open("small")
        picture = "const c = document.querySelector('.heat canvas'); return c.toDataURL()"
        seen = [self.script(picture)]
        for side in ("after", "gain"):
            self.choose(f"heat-side-{side}")
            seen.append(self.script(picture))
        self.pick("heat-metric", "copies")
        seen.append(self.script(picture))
        self.assertEqual(len(set(seen)), len(seen))
        self.assertFalse(self.all("[data-key='heat-side-before']"), "copies have one side only")
        self.pick("heat-metric", "imbalance")
        self.choose("heat-side-before")

    def test_dark_cells_are_the_worst_ones(self):
        meta = self.open("small")
        arrays = TraceArrays(meta, self.report("small")[2])
        self.choose("theme-light")
        worst, least = int(arrays.cells("imbalance_before").argmax()), int(
            arrays.cells("imbalance_before").argmin()
        )
        light = [
            self.script(
                """const c = document.querySelector('.heat canvas'), [l, s] = arguments;
            const d = c.getContext('2d').getImageData(c.width * (s + 0.5) / 40, c.height * (l + 0.5) / 16, 1, 1).data; return d[0] + d[1] + d[2]""",
                cell % arrays.L,
                cell // arrays.L,
            )
            for cell in (worst, least)
        ]
        self.assertLess(light[0] + 200, light[1])
        self.choose("theme-auto")


class Microbatch(PageTest):
    def bars(self, side):
        return self.script(
            f"return [...document.querySelectorAll('.rank-bar[data-side={side}]')].map((b) => [Number(b.dataset.rows), Number(b.getAttribute('height'))])"
        )

    def test_bars_are_the_loads_of_the_ranks(self):
        meta = self.open("sources")
        arrays = TraceArrays(meta, self.report("sources")[2])
        detail = arrays.detail_of(arrays.worst_cell())
        for side in ("before", "after"):
            bars = self.bars(side)
            self.assertEqual([rows for rows, _ in bars], arrays.rank_rows(detail, side))
            per_row = [height / rows for rows, height in bars if rows]
            self.assertAlmostEqual(min(per_row), max(per_row), places=6)

    def test_before_and_after_toggle(self):
        self.open("sources")
        self.choose("cell-mode-before")
        self.assertTrue(self.bars("before"))
        self.assertFalse(self.bars("after"))
        self.assertFalse(self.all(".segment.replica"))
        self.choose("cell-mode-after")
        self.assertFalse(self.bars("before"))
        self.assertTrue(self.bars("after"))
        self.assertTrue(self.all(".segment.replica"))
        self.assertEqual(len(self.all(".traffic-canvas")), 1)
        self.choose("cell-mode-both")
        self.assertEqual(len(self.bars("before")), len(self.bars("after")))
        self.assertEqual(len(self.all(".traffic-canvas")), 2)

    def test_replicas_are_listed(self):
        meta = self.open("sources")
        arrays = TraceArrays(meta, self.report("sources")[2])
        replicas = arrays.replicas(arrays.detail_of(arrays.worst_cell()))
        listed = self.script(
            "return [...document.querySelectorAll('[data-figure=replicas] tbody tr')].map((r) => [...r.cells].map((c) => c.innerText))"
        )
        self.assertEqual(
            {
                (int(e.split()[1]), int(r.split()[1])): int(rows.replace(",", ""))
                for e, _, r, rows, _ in listed
            },
            replicas,
        )
        self.assertEqual(len(self.all(".segment.replica")), len(replicas))

    def test_traffic_shows_exact_rows(self):
        meta = self.open("sources")
        arrays = TraceArrays(meta, self.report("sources")[2])
        matrix = arrays.details("traffic_after").reshape(-1, arrays.P, arrays.P)[
            arrays.detail_of(arrays.worst_cell())
        ]
        canvas = self.all(".traffic-canvas")[1]
        size = self.script("return arguments[0].clientWidth", canvas)
        self.point_at(canvas, size * 5.5 / arrays.P, size * 2.5 / arrays.P)
        self.assertIn("rank 2 to rank 5", self.text("#tooltip"))
        self.assertIn(f"{matrix[2, 5]:,} rows", self.text("#tooltip"))

    def test_without_sources_words_stand_there(self):
        self.open("small")
        self.assertIn("Sources unknown", self.text("[data-figure=traffic]"))

    def test_a_cell_without_detail_says_how_to_add_it(self):
        meta = self.open("small")
        arrays = TraceArrays(meta, self.report("small")[2])
        detailed = set(arrays.details("cell").tolist())
        cell = next(c for c in range(len(arrays.cells("rows"))) if c not in detailed)
        layer, step = cell % arrays.L, cell // arrays.L
        self.pick("cell-layer", layer)
        self.pick("cell-step", step)
        shown = self.text("#section-microbatch")
        self.assertIn(f"--detail {layer}:{step}", shown)
        self.assertIn(f"{arrays.cells('imbalance_before')[cell]:.3f}", shown)
        self.assertFalse(self.bars("before"))


class Expert(PageTest):
    def test_rows_over_the_cells_with_detail(self):
        meta = self.open("small", "#expert=11&layer=3")
        arrays = TraceArrays(meta, self.report("small")[2])
        cells = arrays.details("cell")
        here = [i for i, cell in enumerate(cells) if cell % arrays.L == 3]
        replicated = sum(any(e == 11 for e, _ in arrays.replicas(i)) for i in here)
        self.assertIn(f"{replicated} of {len(here)} cells", self.text("#section-expert"))
        self.assertEqual(len(self.all("[data-figure=expert_everywhere] circle")), len(cells))

    def test_until_one_is_chosen_the_most_replicated_is_shown(self):
        meta = self.open("small")
        arrays = TraceArrays(meta, self.report("small")[2])
        layer = arrays.worst_cell() % arrays.L
        times, rows = Counter(), Counter()
        for detail, cell in enumerate(arrays.details("cell")):
            if cell % arrays.L == layer:
                replicas = arrays.replicas(detail)
                times.update({expert for expert, _ in replicas})
                for (expert, _), some in replicas.items():
                    rows[expert] += some
        most = min(times, key=lambda expert: (-times[expert], -rows[expert], expert))
        self.assertIn(f"Rows of expert {most} in layer {layer}", self.text("#section-expert"))
        self.assertIn(f"{times[most]} of ", self.text("#section-expert .fact-row"))
        self.click("#section-expert .chip:not(.chosen)")
        self.assertNotIn(f"Rows of expert {most} ", self.text("#section-expert"))
        self.assertIn("expert", self.address())


class WhatIf(PageTest):
    def column(self, index):
        return self.script(
            """return [...document.querySelectorAll('.what-if tbody tr')].map((r) =>
            (r.cells[arguments[0]].querySelector('.planner-name') || r.cells[arguments[0]]).innerText)""",
            index,
        )

    def test_sorts_by_every_column_both_ways(self):
        meta = self.open("small")
        rows = [r for r in meta["traces"][0]["what_if"]["rows"] if r["ranks"] == 8]
        for key, ask in (
            ("p99", lambda r: r["imbalance"]["p99"]),
            ("copies", lambda r: r["copies"]),
            ("plan_us", lambda r: r["plan_us"]),
            ("planned_us", lambda r: r["planned_us"]),
            ("label", lambda r: r["label"]),
        ):
            self.click(f"[data-sort={key}]")
            directions = set()
            for _ in range(2):
                sort = self.script(
                    "return document.querySelector(`[data-sort=${arguments[0]}]`).closest('th').getAttribute('aria-sort')",
                    key,
                )
                directions.add(sort)
                shown = self.column(0)
                values = sorted(map(ask, rows), reverse=sort == "descending")
                first = [r["label"] for r in rows if ask(r) == values[0]]
                self.assertIn(shown[0], first, (key, sort))
                self.click(f"[data-sort={key}]")
            self.assertEqual(directions, {"ascending", "descending"})
        self.assertEqual(len(self.column(0)), len(rows))

    def test_every_heading_sorts_and_keeps_the_focus(self):
        self.open("small")
        keys = self.script("return [...document.querySelectorAll('[data-sort]')].map((b) => b.dataset.sort)")
        self.assertGreaterEqual(len(keys), 15)
        for key in keys:
            self.script("document.querySelector(`[data-sort=${arguments[0]}]`).focus()", key)
            self.press("\ue007")
            self.assertEqual(self.script("return document.activeElement.dataset.sort"), key)
            self.assertNotEqual(
                self.script("return document.activeElement.closest('th').getAttribute('aria-sort')"), "none"
            )

    def test_missing_values_sort_last_and_rows_are_marked(self):
        meta = self.open("small")
        self.click("[data-sort=break_even_rows]")
        for _ in range(2):
            self.assertIn(
                self.column(
                    -1
                    % len(
                        self.script(
                            "return [...document.querySelector('.what-if tbody tr').cells].map(() => 0)"
                        )
                    )
                )[-1],
                ("never", "\u2013"),
            )
            self.click("[data-sort=break_even_rows]")
        best = next(r for r in meta["traces"][0]["what_if"]["rows"] if r["is_best"])
        self.assertIn(best["label"], self.text(".best-row"))
        self.assertIn("over budget", self.text(".over-row"))
        self.assertIn(best["label"], self.text(".best-words"))

    def test_filters_by_ranks_and_slots(self):
        meta = self.open("small")
        rows = meta["traces"][0]["what_if"]["rows"]
        self.pick("what-if-ranks", "16")
        self.pick("what-if-slots", "2")
        expected = [r for r in rows if r["ranks"] == 16 and (r["slots"] == 2 or r["planner"] == "fixed")]
        self.assertEqual(len(self.column(0)), len(expected))
        self.assertEqual(set(self.column(1)), {"16"})
        self.pick("what-if-ranks", "all")
        self.pick("what-if-slots", "all")
        self.assertEqual(len(self.column(0)), len(rows))


if __name__ == "__main__":
    unittest.main()
