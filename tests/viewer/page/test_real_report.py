"""What `megaflux report` writes, in the browser: the program and the page agree on every array and on every word."""

import base64
import json
import os
import pathlib
import re
import subprocess
import unittest
import zlib

from browser import PageTest
from report_arrays import TraceArrays

PROGRAM = os.environ["MF_PROGRAM"]
DATA_DIR = pathlib.Path(__file__).resolve().parents[3] / "data"
TRACES = ["gptoss20b_decode_topk.npz", "olmoe_domain_counts.npz"]


def payload_of(path):
    """(meta, blob) as any other program would read them."""
    text = path.read_text(encoding="utf-8")
    meta = re.search(r'id="report-meta">(.*?)</script>', text, re.DOTALL)[1]
    data = re.search(r'id="report-data">(.*?)</script>', text, re.DOTALL)[1]
    return json.loads(meta), zlib.decompress(base64.b64decode(data), -15)


class RealReport(PageTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.path = cls.folder / "real.html"
        command = [PROGRAM, "report", *(str(DATA_DIR / name) for name in TRACES), "-o", str(cls.path)]
        command += ["--ranks", "8", "--slots", "2", "--rows-per-rank", "16384", "--model", "2048,1024,8", "--detail", "1:2"]
        subprocess.run(command, check=True, capture_output=True, timeout=300)
        cls.meta, cls.blob = payload_of(cls.path)

    def open_report(self, address=""):
        self.open_file(self.path, address)
        self.wait_until_settled()

    def test_opens_without_a_request_and_shows_its_figures(self):
        self.open_report("#with=1")
        foreign = [u for u in self.requested() if u != self.path.as_uri() and not u.startswith(("data:", "blob:"))]
        self.assertEqual([url for url in foreign if not url.startswith(self.path.as_uri())], [])
        text = self.text("main")
        for word in ("NaN", "undefined", "[object"):
            self.assertNotIn(word, text)
        for trace in self.meta["traces"]:
            self.assertIn(trace["model"], text)
        self.assertIn("BSD 3-Clause", self.text(".foot"))
        self.assertIn("Redistribution and use in source and binary forms", self.path.read_text(encoding="utf-8"))

    def test_bars_are_the_loads_of_the_plan(self):
        self.open_report("#section=microbatch&layer=1&step=2")
        arrays = TraceArrays(self.meta, self.blob)
        detail = arrays.detail_of(2 * arrays.L + 1)
        self.assertIn("asked for", self.text(".cell-title"))
        for side in ("before", "after"):
            bars = self.script(f"return [...document.querySelectorAll('.rank-bar[data-side={side}]')].map((b) => Number(b.dataset.rows))")
            self.assertEqual(bars, arrays.rank_rows(detail, side))
        self.assertEqual(sum(arrays.rank_rows(detail, "before")), int(arrays.cells("rows")[2 * arrays.L + 1]))
        replicas = arrays.replicas(detail)
        self.assertEqual(len(self.all("[data-figure=replicas] tbody tr")), len(replicas))

    def test_traffic_adds_up_to_the_loads(self):
        arrays = TraceArrays(self.meta, self.blob)
        for side in ("before", "after"):
            traffic = arrays.details(f"traffic_{side}").reshape(-1, arrays.P, arrays.P)
            self.assertEqual(traffic.sum(axis=1).tolist(), arrays.details(f"rows_{side}").reshape(-1, arrays.P).tolist())
        self.open_report("#section=microbatch&layer=1&step=2")
        self.assertEqual(len(self.all(".traffic-canvas")), 2)

    def test_the_option_that_the_page_names_adds_the_cell(self):
        help_text = subprocess.run([PROGRAM, "report", "--help"], capture_output=True, text=True, check=True).stdout
        self.assertRegex(help_text, r"--detail L:S")

    def test_what_if_shows_every_setting_and_a_best_one(self):
        self.open_report()
        self.pick("what-if-ranks", "all")
        rows = self.meta["traces"][0]["what_if"]["rows"]
        self.assertEqual(len(self.all(".what-if tbody tr")), len(rows))
        self.assertEqual(len(self.all(".what-if .best-row")), sum(row["is_best"] for row in rows))
        self.assertTrue(self.all(".best-words"))
        names = self.script("return [...document.querySelectorAll('.what-if .planner-name')].map((n) => n.innerText)")
        self.assertFalse([name for name in names if re.search(r"\d (rank|slot)s?$", name)], "names repeat other columns")


if __name__ == "__main__":
    unittest.main()
