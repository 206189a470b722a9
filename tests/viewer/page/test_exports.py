"""What leaves the page: CSV, PNG, paper."""

import base64
import csv
import io
import re
import unittest

from assemble import write_report
from browser import PageTest
from report_arrays import TraceArrays
from sample_report import sample

DECODE = """
const [base64, done] = arguments, image = new Image();
image.onerror = () => done(null);
image.onload = () => {
  const canvas = document.createElement('canvas');
  [canvas.width, canvas.height] = [image.width, image.height];
  const context = canvas.getContext('2d');
  context.drawImage(image, 0, 0);
  const pixels = new Uint32Array(context.getImageData(0, 0, image.width, image.height).data.buffer);
  const seen = new Set();
  for (let i = 0; i < pixels.length; i += 3) seen.add(pixels[i]);
  const hex = (p) => [p & 255, (p >> 8) & 255, (p >> 16) & 255].map((v) => v.toString(16).padStart(2, '0')).join('');
  done([image.width, image.height, [...seen].map(hex)]);
};
image.src = `data:image/png;base64,${base64}`;
"""


class Csv(PageTest):
    def saved(self, figure):
        data, name = self.download(lambda: self.click(f'[data-figure="{figure}"] [data-export=csv]'))
        return list(csv.DictReader(io.StringIO(data.decode()))), name

    def test_rank_bars(self):
        meta = self.open("sources")
        arrays = TraceArrays(meta, self.report("sources")[2])
        cell = arrays.worst_cell()
        rows, name = self.saved("rank_bars")
        for side in ("before", "after"):
            self.assertEqual(
                [int(row[f"rows_{side}"]) for row in rows], arrays.rank_rows(arrays.detail_of(cell), side)
            )
        self.assertIn(f"layer{cell % arrays.L}_step{cell // arrays.L}", name)

    def test_heat_map_holds_every_cell(self):
        meta = self.open("sources")
        arrays = TraceArrays(meta, self.report("sources")[2])
        rows, _ = self.saved("heatmap_imbalance_before")
        self.assertEqual(len(rows), len(arrays.cells("rows")))
        row = rows[37]
        self.assertEqual((int(row["layer_index"]), int(row["step_index"])), (37 % arrays.L, 37 // arrays.L))
        self.assertAlmostEqual(
            float(row["imbalance_before"]), float(arrays.cells("imbalance_before")[37]), places=6
        )

    def test_what_if(self):
        meta = self.open("sources")
        rows, _ = self.saved("what_if")
        expected = {
            (r["label"], r["slots"]): r for r in meta["traces"][0]["what_if"]["rows"] if r["ranks"] == 8
        }
        for row in rows:
            if row["label"] != "fixed":
                self.assertEqual(
                    float(row["p99"]), expected[(row["label"], int(row["slots"]))]["imbalance"]["p99"]
                )

    def test_a_formula_from_a_trace_stays_text(self):
        meta, blob = sample("small")
        meta["traces"][0]["what_if"]["rows"][1]["label"] = '=cmd|"x"!A1, "two"'
        self.open_file(write_report(self.folder / "formula.html", meta, blob))
        self.wait_until_settled()
        rows, _ = self.saved("what_if")
        self.assertIn('\'=cmd|"x"!A1, "two"', [row["label"] for row in rows])

    def test_every_offered_export_is_a_table(self):
        self.open("sources", "#expert=3")
        names = self.script(
            "return [...document.querySelectorAll('[data-export=csv]')].map((b) => b.closest('[data-figure]').dataset.figure)"
        )
        self.assertGreaterEqual(len(names), 14)
        for name in names:
            data, _ = self.download(lambda: self.click(f'[data-figure="{name}"] [data-export=csv]'))
            lines = list(csv.reader(io.StringIO(data.decode())))
            self.assertGreater(len(lines), 1, name)
            self.assertEqual({len(line) for line in lines}, {len(lines[0])}, name)


class Png(PageTest):
    def decoded(self, png):
        """(width, height, colours seen), as a browser sees the picture."""
        self.assertEqual(png[:8], b"\x89PNG\r\n\x1a\n")
        return self.driver.execute_async_script(DECODE, base64.b64encode(png).decode())

    def test_every_offered_picture_is_drawn(self):
        self.open("sources", "#expert=3")
        names = self.script(
            "return [...document.querySelectorAll('[data-export=png]')].map((b) => b.closest('[data-figure]').dataset.figure)"
        )
        self.assertGreaterEqual(len(names), 9)
        for name in names:
            png, _ = self.download(lambda: self.click(f'[data-figure="{name}"] [data-export=png]'))
            width, height, seen = self.decoded(png)
            frame = self.script(
                'const b = document.querySelector(`[data-figure="${arguments[0]}"] .figure-body`).getBoundingClientRect(); return [b.width, b.height]',
                name,
            )
            self.assertEqual(width, int(2 * (frame[0] + 40)), name)
            self.assertGreater(height, 2 * frame[1], name)
            self.assertGreater(len(seen), 10, name)

    def test_colours_of_before_and_after_are_in_it(self):
        self.open("sources")
        self.choose("theme-light")
        png, _ = self.download(lambda: self.click('[data-figure="rank_bars"] [data-export=png]'))
        seen = self.decoded(png)[2]
        self.assertIn("b34e05", seen)
        self.assertIn("0a64b0", seen)
        self.choose("theme-auto")


class Paper(PageTest):
    def test_prints_every_section_and_comes_back(self):
        self.open("sources", "#expert=3")
        self.choose("theme-dark")
        self.script(
            """window.seen = {};
            addEventListener('beforeprint', () => { seen.shown = document.documentElement.dataset.shown; seen.width = document.querySelector('main').clientWidth;
                seen.over = [...document.querySelectorAll('main *')].filter((n) => n.getBoundingClientRect().right > document.querySelector('main').getBoundingClientRect().right + 1 && !n.closest('.section-what_if, svg')).map((n) => n.outerHTML.slice(0, 80)); });"""
        )
        pdf = self.pdf()
        self.assertEqual(pdf[:5], b"%PDF-")
        self.assertGreaterEqual(len(re.findall(rb"/Type\s*/Page\b", pdf)), 4)
        self.assertGreater(len(pdf), 50000)
        self.wait_until_settled()
        seen = self.script("return window.seen")
        self.assertEqual((seen["shown"], seen["width"]), ("light", 700))
        self.assertEqual(seen["over"], [])
        self.assertEqual(self.script("return document.documentElement.dataset.shown"), "dark")
        self.assertGreater(self.script("return document.querySelector('main').clientWidth"), 1000)
        self.choose("theme-auto")


if __name__ == "__main__":
    unittest.main()
