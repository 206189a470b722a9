"""`megaflux report`: the file that it writes, taken apart with Python's own zlib and json."""

import array
import base64
import json
import re
import struct
import zipfile
import zlib

from program import DATA_DIR, ProgramTest

LAW = DATA_DIR / "esft_law.npz"
OLMOE = DATA_DIR / "olmoe_lens_counts.npz"
CODES = {"f32": "f", "u32": "I", "u16": "H", "u8": "B"}
QUICK = ["--what-if-planners", "megaflux,fixed", "--what-if-ranks", "8", "--what-if-slots", "2"]


def npy(dtype, shape, data):
    header = repr({"descr": dtype, "fortran_order": False, "shape": shape})
    header += " " * (-(len(header) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data


def write_trace(path, steps=3, layers=2, ranks=1, experts=16, **meta):
    """A trace whose hot expert moves with every step."""
    meta = {"schema": "megaflux.trace/1", "num_experts": experts, "topk": 2, "num_ranks": ranks,
            "layers": list(range(layers)), "time_ordered": True, **meta}
    text = json.dumps(meta).encode()
    loads = array.array("i", [
        1000 + 37 * e + 9000 * (e == (s + layer) % experts)
        for s in range(steps) for layer in range(layers) for _ in range(ranks)
        for e in range(experts)])
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("meta.npy", npy("|u1", (len(text),), text))
        archive.writestr("loads.npy", npy("<i4", (steps, layers, ranks, experts), loads.tobytes()))
    return path


class Report:
    def __init__(self, path):
        self.html = path.read_text()
        (meta,) = re.findall(r'<script type="application/json" id="report-meta">(.*?)</script>',
                             self.html, re.S)
        (data,) = re.findall(
            r'<script type="application/octet-stream" id="report-data">(.*?)</script>', self.html,
            re.S)
        self.meta = json.loads(meta)
        self.blob = zlib.decompress(base64.b64decode(data, validate=True), wbits=-15)

    def array(self, group, name, trace=0):
        reference = self.meta["traces"][trace][group][name]
        values = array.array(CODES[reference["type"]])
        size = reference["count"] * values.itemsize
        values.frombytes(self.blob[reference["at"]:reference["at"] + size])
        assert len(values) == reference["count"], name
        return values


class ReportTest(ProgramTest):
    def report(self, *arguments):
        path = self.folder / "report.html"
        self.ok("report", *arguments, "-o", path)
        return Report(path)

    def test_a_real_trace(self):
        report = self.report(LAW, "--model", "2048,1408,6", *QUICK)
        self.assertEqual(report.meta["schema"], "megaflux.report/1")
        self.assertIn("megaflux report", report.meta["command"])
        (trace,) = report.meta["traces"]
        cells = trace["num_steps"] * trace["num_layers"]
        self.assertEqual(trace["setting"]["model_shape"],
                         {"name": "2048,1408,6", "hidden": 2048, "inter": 1408, "topk": 6})
        self.assertTrue(trace["has_sources"])
        for name in ["rows", "kappa", "imbalance_before", "imbalance_after", "tau_ratio", "copies",
                     "moved_rows", "moved_bytes", "remote_before", "remote_after", "peak_before",
                     "peak_after", "fixed_us", "planned_us", "ideal_us", "second_ideal_us",
                     "plan_us"]:
            self.assertEqual(len(report.array("cells", name)), cells, name)
        before, after = report.array("cells", "imbalance_before"), report.array("cells", "imbalance_after")
        self.assertLess(sum(after), sum(before))
        self.assertGreaterEqual(min(after), 1)
        begin = report.array("details", "instance_begin")
        rows = report.array("details", "instance_rows")
        expert_rows = report.array("details", "expert_rows")
        for d, cell in enumerate(report.array("details", "cell")):
            self.assertEqual(sum(rows[begin[d]:begin[d + 1]]), report.array("cells", "rows")[cell])
            self.assertEqual(sum(expert_rows[64 * d:64 * (d + 1)]),
                             sum(report.array("details", "traffic_after")[64 * d:64 * (d + 1)]))
        best = [row for row in trace["what_if"]["rows"] if row["is_best"]]
        self.assertEqual([row["planner"] for row in best], ["megaflux"])

    def test_the_page_is_whole(self):
        report = self.report(write_trace(self.folder / "a.npz"), *QUICK)
        self.assertTrue(report.html.startswith("<!doctype html>"))
        self.assertTrue(report.html.rstrip().endswith("</html>"))
        self.assertNotRegex(report.html, r"<(script|link|img|iframe)[^>]*(src|href)=\"(?!data:|#)")
        self.assertNotIn("report-payload", report.html)
        self.assertIn("Mike Bostock", report.html)
        self.assertIn("Redistributions in binary form", report.html)

    def test_two_traces_side_by_side(self):
        first = write_trace(self.folder / "first.npz")
        second = write_trace(self.folder / "second.npz", steps=5, ranks=4, experts=24)
        report = self.report(first, second, "--ranks", 4, "--detail", "1:2", *QUICK)
        self.assertEqual([trace["name"] for trace in report.meta["traces"]],
                         ["first.npz", "second.npz"])
        self.assertEqual(len(report.array("cells", "rows", 0)), 6)
        self.assertEqual(len(report.array("cells", "rows", 1)), 10)
        self.assertNotIn("remote_before", report.meta["traces"][0]["cells"])
        self.assertIn("remote_before", report.meta["traces"][1]["cells"])
        for trace in range(2):
            self.assertEqual(report.array("details", "why", trace)[5] & 8, 8)

    def test_equal_bytes_without_times(self):
        trace = write_trace(self.folder / "a.npz", steps=40)
        files = []
        for threads in [1, 3]:
            self.ok("report", trace, "-o", "report.html", "--no-times", "--threads", threads,
                    cwd=self.folder)
            html = (self.folder / "report.html").read_text()
            files.append(html.replace(f"--threads {threads}", "--threads"))
        self.assertEqual(files[0], files[1])
        self.assertNotIn("plan_us", Report(self.folder / "report.html").meta["traces"][0]["cells"])

    def test_hostile_text_stays_text(self):
        hostile = "</script><script>alert(1)</script><!--"
        trace = write_trace(self.folder / "a.npz", model=hostile, origin=hostile, licence=hostile)
        report = self.report(trace, *QUICK)
        self.assertNotIn("<script>alert", report.html)
        self.assertEqual(report.meta["traces"][0]["model"], hostile)

    def test_summary(self):
        path = self.folder / "report.html"
        summary = self.json("report", OLMOE, "-o", path, *QUICK)
        self.assertEqual(summary["schema"], "megaflux.report-summary/1")
        self.assertEqual(summary["bytes"], path.stat().st_size)
        self.assertEqual(summary["file"], str(path))
        trace = Report(path).meta["traces"][0]
        self.assertEqual(summary["cells"], trace["num_steps"] * trace["num_layers"])
        self.assertEqual(summary["details"], trace["details"]["cell"]["count"])
        self.assertEqual(summary["traces"][0]["setting"], trace["setting"])
        self.assertGreater(summary["seconds"], 0)
        text = self.ok("report", OLMOE, "-o", path, *QUICK).stdout
        for word in ["olmoe_lens_counts.npz", "imbalance with the plan", "full detail", "all "]:
            self.assertIn(word, text)

    def test_what_if_axes(self):
        report = self.report(write_trace(self.folder / "a.npz"), "--ranks", 8, "--slots", 3,
                             "--what-if-planners", "megaflux,eplb", "--what-if-slots", "1")
        rows = report.meta["traces"][0]["what_if"]["rows"]
        self.assertEqual([(r["planner"], r["ranks"], r["slots"], r["history"]) for r in rows],
                         [(planner, ranks, slots, planner == "eplb") for ranks in [4, 8, 16]
                          for slots in [1, 3] for planner in ["megaflux", "eplb"]])

    def test_bad_input(self):
        trace = write_trace(self.folder / "a.npz")
        html = self.folder / "r.html"
        arguments = ["report", trace, "-o", html]
        for options, words in [
            (["--detail", "2:0"], ["--detail", "layer index 2", "[0, 1]"]),
            (["--detail", "0:3"], ["--detail", "step 3", "[0, 2]"]),
            (["--detail", "7"], ["--detail", "'7'", "LAYER:STEP"]),
            (["--detail", "a:1"], ["--detail", "'a'"]),
            (["--model", "gpt"], ["--model", "'gpt'", "qwen3-30b"]),
            (["--what-if-ranks", "8,0"], ["--what-if-ranks", "0", "[1, 1024]"]),
            (["--what-if-slots", "x"], ["--what-if-slots", "'x'"]),
            (["--what-if-planners", "best"], ["--what-if-planners", "'best'"]),
            (["--what-if-ranks", ",".join(map(str, range(1, 40)))], ["400"]),
            (["--objective", "cost"], ["--objective", "--model"]),
            (["--threads", 2000], ["--threads", "2000", "[0, 1024]"]),
            (["--ranks", 0], ["--ranks", "0", "[1, 1024]"]),
            (["--machine", "m.json"], ["m.json"]),
            (["--json", self.folder], ["--json", "folder"]),
        ]:
            self.rejected(*arguments, *options, words=words)
        self.rejected("report", trace, words=["error: -o is required"])
        self.rejected("report", "-o", html, words=["TRACE"])
        self.rejected("report", trace, "-o", "-", words=["-o", "file"])
        self.rejected("report", trace, "-o", "/dev/null", words=["-o", "/dev/null", "regular file"])
        self.rejected("report", trace, "-o", trace, words=["-o", "a.npz", "overwritten"])
        self.rejected("report", trace, "-o", html, "--json", html, words=["--json", "r.html", "-o"])
        self.rejected("report", trace, "-o", html, "--json", trace, words=["--json", "overwritten"])
        self.rejected("report", trace, "-o", self.folder / "none/r.html", words=["-o", "folder"])
        self.rejected("report", *[trace] * 5, "-o", html, words=["TRACE", "5 traces", "4"])
        rows = self.write("rows.csv", ",".join(["1"] * 16))
        self.rejected(*arguments, "--rival", f"history={rows}", words=["--rival", "history", "trace"])
        self.rejected("report", self.loads(), "-o", html, words=["TRACE", ".npz"])
        broken = self.write("broken.npz", "nothing")
        self.rejected("report", trace, broken, "-o", html, words=["TRACE", "broken.npz"])
        self.assertFalse(html.exists())
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()),
                         ["a.npz", "broken.npz", "loads.csv", "rows.csv"])
