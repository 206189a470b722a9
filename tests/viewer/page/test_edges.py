"""Traces at the edge of what there is: one cell, one layer, one step, many ranks, nothing kept, figures missing."""

import struct
import unittest

from selenium.webdriver.common.keys import Keys

from assemble import write_report
from browser import PageTest
from report_arrays import TraceArrays
from sample_report import sample

NO_FIGURES = ("NaN", "undefined", "Infinity", "[object", "null")


class Shapes(PageTest):
    """Every section is drawn, nothing fails, and no text shows what a number is not."""

    def look_at(self, meta, blob, name):
        self.open_file(write_report(self.folder / f"{name}.html", meta, blob))
        self.wait_until_settled()
        text = self.text("main")
        for word in NO_FIGURES:
            self.assertNotIn(word, text, name)
        drawn = "return [...document.querySelectorAll('svg *')].flatMap((n) => [...n.attributes].map((a) => a.value)).filter((v) => /NaN|undefined|Infinity/.test(v))"
        self.assertEqual(self.script(drawn), [], name)
        wide = self.script("return document.documentElement.scrollWidth - innerWidth")
        self.assertLessEqual(wide, 0, f"{name} is wider than the window")

    def test_one_cell(self):
        self.look_at(*sample("sources", layers=1, steps=1, experts=4, ranks=2, slots=1), "one_cell")

    def test_one_step_of_many_layers(self):
        self.look_at(*sample("small", layers=120, steps=1, layer_ids=list(range(3, 123))), "one_step")
        self.assertIn("One step only", self.text("#section-churn"))

    def test_one_layer_of_many_steps(self):
        self.look_at(*sample("small", layers=1, steps=700, first_step=5000), "one_layer")
        self.assertIn("step 5", self.text("#section-microbatch .cell-title"))

    def test_one_rank(self):
        self.look_at(*sample("sources", ranks=1, slots=0, layers=3, steps=3), "one_rank")

    def test_many_ranks_with_sources(self):
        self.look_at(*sample("sources", ranks=128, experts=256, layers=4, steps=4, most=6), "many_ranks")
        self.assertEqual(len(self.all(".traffic-canvas")), 2)

    def test_a_rank_far_above_all_others_is_cut_and_says_how_far_it_reaches(self):
        meta, blob = sample("small", ranks=64, experts=64, layers=4, steps=4)
        arrays = TraceArrays(meta, blob)
        rows = sorted(arrays.rank_rows(arrays.detail_of(arrays.worst_cell()), "before"))
        self.assertGreater(rows[-1], 5.5 * sum(rows) / len(rows), "the sample is not skewed enough for this test")
        self.look_at(meta, blob, "far_above")
        words = self.script("return [...document.querySelectorAll('[data-figure=rank_bars] .cut-text')].map((t) => t.textContent)")
        self.assertIn(f"{rows[-1] / 1000:.3g}k", words)
        heights = self.script("return [...document.querySelectorAll('.rank-bar')].map((b) => Number(b.getAttribute('height')))")
        self.assertLess(max(heights), 280)
        self.assertGreater(sorted(heights)[len(heights) // 2], 20, "the other bars are flat")

    def test_no_cell_has_detail(self):
        self.look_at(*sample("small", most=0), "no_detail")
        self.assertIn("--detail", self.text("#section-microbatch"))
        self.assertIn("No cell has full detail", self.text("#section-expert"))

    def test_no_settings_were_simulated(self):
        meta, blob = sample("small")
        meta["traces"][0]["what_if"]["rows"] = []
        self.look_at(meta, blob, "no_what_if")
        self.assertIn("Nothing was simulated", self.text("#section-what_if"))

    def test_least_figures(self):
        meta, blob = sample("small", shape=False, time_ordered=False)
        del meta["traces"][0]["cells"]["plan_us"]
        for row in meta["traces"][0]["what_if"]["rows"]:
            row["plan_us"] = None
        self.look_at(meta, blob, "least_figures")

    def test_a_cell_without_rows(self):
        meta, blob = sample("small")
        blob = bytearray(blob)
        cells = meta["traces"][0]["cells"]
        for name in ("imbalance_before", "imbalance_after", "tau_ratio", "kappa"):
            struct.pack_into("<f", blob, cells[name]["at"] + 4 * 3, float("nan"))
        self.look_at(meta, bytes(blob), "no_rows")

    def test_endless_words(self):
        meta, blob = sample("pair")
        for trace in meta["traces"]:
            trace.update(name="n" * 300, model="m" * 300, origin="o" * 300)
            trace["details"]["chosen"] = "c" * 300
            trace["setting"]["planner"] = "p" * 300
        meta["command"] = "r" * 900
        size = {"width": 900, "height": 800, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        try:
            self.look_at(meta, blob, "endless")
            self.pick("trace-b", 1)
            self.assertLessEqual(self.script("return document.documentElement.scrollWidth - innerWidth"), 0)
        finally:
            self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {**size, "width": 1440, "height": 900})

    def test_narrow_window(self):
        size = {"width": 420, "height": 800, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        try:
            self.look_at(*sample("pair"), "narrow")
        finally:
            self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {**size, "width": 1440, "height": 900})


class Gestures(PageTest):
    def steps_in_sight(self):
        ticks = "return [...document.querySelectorAll('.heat-over .tick-text[text-anchor=middle]')].map((t) => Number(t.textContent))"
        return self.script(ticks)

    def mouse(self, kind, x, y, **more):
        self.driver.execute_cdp_cmd("Input.dispatchMouseEvent", {"type": kind, "x": x, "y": y, "button": "left", **more})

    def canvas_box(self):
        canvas = self.one(".heat canvas")
        self.script("arguments[0].scrollIntoView({block: 'center'})", canvas)
        return self.script("const b = arguments[0].getBoundingClientRect(); return [b.left, b.top, b.width, b.height]", canvas)

    def test_wheel_zooms_with_ctrl_and_drag_pans(self):
        self.open("small")
        left, top, width, height = self.canvas_box()
        everything = self.steps_in_sight()
        at = (left + width / 2, top + height / 2)
        self.driver.execute_cdp_cmd(
            "Input.dispatchMouseEvent",
            {"type": "mouseWheel", "x": at[0], "y": at[1], "deltaX": 0, "deltaY": -200, "modifiers": 2},
        )
        self.wait_until_settled()
        closer = self.steps_in_sight()
        self.assertGreater(min(closer), min(everything))
        self.assertLess(max(closer), max(everything))
        self.mouse("mousePressed", *at, clickCount=1)
        for moved in (60, 120, 200):
            self.mouse("mouseMoved", at[0] + moved, at[1], buttons=1)
        self.mouse("mouseReleased", at[0] + 200, at[1], clickCount=1)
        self.wait_until_settled()
        self.assertLess(min(self.steps_in_sight()), min(closer))
        self.assertNotEqual(self.address().get("section"), "microbatch", "dragging opened a cell")

    def test_shift_and_drag_pick_a_part(self):
        self.open("small")
        left, top, width, height = self.canvas_box()
        start, end = (left + width * 0.25, top + height * 0.25), (left + width * 0.5, top + height * 0.5)
        self.mouse("mousePressed", *start, clickCount=1, modifiers=8)
        self.mouse("mouseMoved", *end, buttons=1, modifiers=8)
        self.mouse("mouseReleased", *end, clickCount=1, modifiers=8)
        self.wait_until_settled()
        self.assertGreaterEqual(min(self.steps_in_sight()), 8)
        self.assertLessEqual(max(self.steps_in_sight()), 22)

    def test_letters_switch_sides_and_colours(self):
        self.open("small")
        self.press("4")
        self.assertEqual(len(self.all(".rank-bar[data-side=before]")), 8)
        self.press("b")
        self.assertEqual(len(self.all(".rank-bar[data-side=after]")), 0)
        self.press("b")
        self.assertEqual(len(self.all(".rank-bar[data-side=before]")), 0)
        for mode in ("light", "dark", "auto"):
            self.press("t")
            self.assertEqual(self.script("return document.documentElement.dataset.theme"), mode)

    def test_letters_typed_into_fields_stay_there(self):
        self.open("small", "#section=microbatch&layer=2&step=3")
        self.script("document.querySelector('[data-key=cell-step]').focus()")
        self.press("7")
        self.assertEqual(self.address()["section"], "microbatch")

    def test_arrows_read_the_bars_of_ranks(self):
        meta = self.open("small")
        arrays = TraceArrays(meta, self.report("small")[2])
        rows = arrays.rank_rows(arrays.detail_of(arrays.worst_cell()), "after")
        self.script("document.querySelector('[data-figure=rank_bars] svg').focus()")
        self.press(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
        self.assertIn("rank 2", self.text("#spoken"))
        self.assertIn(f"{rows[2]:,} rows", self.text("#spoken"))


if __name__ == "__main__":
    unittest.main()
