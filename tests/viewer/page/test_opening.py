"""The file opens from disk alone, fast, and says what is wrong if its data is."""

import copy
import re
import statistics
import unittest

from assemble import report_text, write_report
from browser import PageTest
from sample_report import sample

GENEROUS_MS = 10000  # on a loaded machine; the figure that counts is printed
SCRIPT = "<script>window.wasRun = 1</script><img src=x onerror='window.wasRun = 2'>"


class Opening(PageTest):
    def test_asks_for_nothing_beyond_the_file(self):
        path, _, _ = self.report("sources")
        self.open("sources")
        for key in ("2", "3", "4", "5", "6", "7"):
            self.press(key)
        foreign = [
            url for url in self.requested() if url != path.as_uri() and not url.startswith(("data:", "blob:"))
        ]
        self.assertEqual(foreign, [])

    def test_policy_forbids_every_request(self):
        self.open("small")
        policy = self.script(
            "return document.querySelector('meta[http-equiv=Content-Security-Policy]').content"
        )
        self.assertIn("default-src 'none'", policy)
        self.expected_errors = True
        refused = self.driver.execute_async_script(
            "const done = arguments[0]; fetch('https://example.invalid/').then(() => done(false), () => done(true));"
        )
        self.assertTrue(refused)
        # Later, since what the driver itself runs is exempt.
        evaluated = self.driver.execute_async_script(
            "const done = arguments[0]; setTimeout(() => { try { done(eval('1')) } catch (error) { done('refused') } });"
        )
        self.assertEqual(evaluated, "refused")

    def test_every_figure_is_drawn(self):
        self.open("sources", "#expert=3")
        figures = self.script(
            "return [...document.querySelectorAll('[data-figure]')].map((f) => f.dataset.figure)"
        )
        for name in (
            "imbalance_distribution",
            "worst_before",
            "layers_imbalance",
            "heatmap_imbalance_before",
            "rank_bars",
            "expert_stacks",
            "traffic",
            "cell_figures",
            "replicas",
            "expert_rows",
            "expert_everywhere",
            "churn",
            "what_if",
            "what_if_imbalance",
        ):
            self.assertIn(name, figures)

    def test_text_of_a_trace_is_shown_and_never_run(self):
        meta, blob = sample("small")
        meta = copy.deepcopy(meta)
        trace = meta["traces"][0]
        trace.update(name=SCRIPT, model=SCRIPT, origin=SCRIPT, licence=SCRIPT)
        trace["setting"]["planner"] = SCRIPT
        trace["setting"]["machine"]["name"] = SCRIPT
        trace["details"]["chosen"] = SCRIPT
        trace["what_if"]["text"] = SCRIPT
        trace["what_if"]["rows"][1]["label"] = SCRIPT
        meta["command"] = SCRIPT
        self.open_file(write_report(self.folder / "hostile.html", meta, blob))
        self.wait_until_settled()
        self.assertIsNone(self.script("return window.wasRun || null"))
        self.assertEqual(
            self.script("return document.querySelectorAll('main img, main script, .foot img').length"), 0
        )
        for selector in (".headline", ".trace-name", "#section-heatmap", ".what-if", ".foot"):
            self.assertIn(
                "<script>window.wasRun",
                self.script("return document.querySelector(arguments[0]).textContent", selector),
            )

    def test_the_big_sample_opens_fast(self):
        path, _, _ = self.report("big")
        times = [self.open_file(path) for _ in range(5)]
        print(
            f"\n64 ranks x 256 experts x 100 layers x 1,000 steps, {path.stat().st_size:,} bytes: open after "
            f"{statistics.median(times):.0f} ms, {', '.join(f'{t:.0f}' for t in times)}",
            flush=True,
        )
        self.assertLess(statistics.median(times), GENEROUS_MS)
        self.wait_until_settled()


class DamagedData(PageTest):
    def failure(self, text):
        path = self.folder / "damaged.html"
        path.write_text(text, encoding="utf-8")
        self.expected_errors = True
        self.assertIsInstance(self.open_file(path), str)
        shown = self.text("#notice")
        self.assertIn("This report cannot be shown", shown)
        return shown

    def test_cut_off_data_is_named(self):
        text = report_text(*sample("small"))
        start = text.index('id="report-data">') + len('id="report-data">')
        self.assertIn(
            "does not unpack", self.failure(text[: start + 4000] + text[text.index("</script>", start) :])
        )

    def test_other_letters_are_named(self):
        text = report_text(*sample("small"))
        self.assertIn("not base64", self.failure(text.replace('id="report-data">', 'id="report-data">!?')))

    def test_an_array_beyond_the_data_is_named(self):
        meta, blob = sample("small")
        meta["traces"][0]["cells"]["kappa"]["at"] = len(blob)
        self.assertIn("cells.kappa", self.failure(report_text(meta, blob)))

    def test_an_array_of_the_wrong_length_is_named(self):
        meta, blob = sample("small")
        meta["traces"][0]["details"]["rows_after"]["count"] -= 1
        self.assertIn("details.rows_after", self.failure(report_text(meta, blob)))

    def test_a_later_schema_is_named(self):
        meta, blob = sample("small")
        meta["schema"] = "megaflux.report/9"
        self.assertIn("megaflux.report/9", self.failure(report_text(meta, blob)))

    def test_a_page_without_data_is_named(self):
        text = re.sub(
            r'<script type="application/json".*?</script>', "", report_text(*sample("small")), flags=re.DOTALL
        )
        self.assertIn("no data", self.failure(text))

    def test_a_browser_that_cannot_unpack_is_told(self):
        script = self.driver.execute_cdp_cmd(
            "Page.addScriptToEvaluateOnNewDocument", {"source": "delete window.DecompressionStream;"}
        )
        try:
            self.assertIn("no DecompressionStream", self.failure(report_text(*sample("small"))))
        finally:
            self.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", script)


if __name__ == "__main__":
    unittest.main()
