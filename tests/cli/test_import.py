"""import and export, with files written by Python and NumPy."""

import json
import sys

from program import DATA_DIR, ProgramTest

try:
    import numpy as np
except ImportError:
    sys.exit("python3-numpy is missing; type: apt-get install python3-numpy")


def counts(steps=3, layers=2, experts=8, tokens=64):
    """[step, layer, expert], the layers of a step adding up to the same."""
    rng = np.random.default_rng(5)
    return np.stack([[np.bincount(rng.integers(0, experts, tokens), minlength=experts)
                      for _ in range(layers)] for _ in range(steps)])


class Import(ProgramTest):
    def save(self, name, array):
        path = self.folder / name
        np.save(path, array)
        return path

    def imported(self, path, *options):
        """The arrays and meta of the trace that `path` becomes, and what --json says."""
        target = self.folder / "out.npz"
        said = self.json("import", path, "-o", target, *options)
        self.assertEqual(said["schema"], "megaflux.import/1")
        with np.load(target, allow_pickle=False) as trace:
            arrays = {name: trace[name] for name in trace.files}
        meta = json.loads(arrays.pop("meta").tobytes())
        return arrays, meta, said

    def test_counts_of_every_dtype(self):
        table = counts()
        for dtype in "u1 u2 u4 u8 i2 i4 i8".split():
            arrays, meta, said = self.imported(self.save("a.npy", table.astype(dtype)))
            self.assertTrue((arrays["loads"][:, :, 0] == table).all(), dtype)
            self.assertEqual((meta["num_experts"], meta["layers"]), (8, [0, 1]))
            self.assertEqual(said["rows"], table.sum())

    def test_sources(self):
        table = np.arange(24).reshape(1, 2, 3, 4)
        arrays, meta, said = self.imported(self.save("a.npy", table), "--kind", "counts-by-source")
        self.assertTrue((arrays["loads"] == table).all())
        self.assertEqual(meta["num_ranks"], 3)
        self.assertTrue(said["has_sources"])

    def test_ids(self):
        rng = np.random.default_rng(2)
        ids = rng.permuted(np.tile(np.arange(16), (50, 2, 1)), axis=2)[:, :, :4].astype(np.uint8)
        arrays, meta, said = self.imported(self.save("a.npy", ids), "--num-experts", 32,
                                           "--step-tokens", 20)
        self.assertTrue((arrays["topk_ids"] == ids).all())
        self.assertEqual(arrays["step_offsets"].tolist(), [0, 20, 40, 50])
        self.assertEqual((meta["topk"], meta["num_experts"], said["tokens"]), (4, 32, 50))

    def test_decode_ids_and_what_the_trace_says_of_itself(self):
        ids = np.arange(2 * 3 * 2 * 2).reshape(2, 3, 2, 2)
        arrays, meta, _ = self.imported(
            self.save("a.npy", ids), "--kind", "topk", "--layers", "3,7", "--model-name", "a µ-model",
            "--origin", "here", "--licence", "MIT", "--deflate")
        self.assertTrue((arrays["topk_ids"][:2] == ids[:, 0]).all())
        self.assertEqual([meta[key] for key in ("layers", "model", "origin", "licence", "time_ordered")],
                         [[3, 7], "a µ-model", "here", "MIT", True])

    def test_csv(self):
        arrays, meta, _ = self.imported(
            self.write("a.csv", "step,layer,expert,count\n0,3,1,5\n0,4,2,6\n9,3,0,7\n"))
        self.assertEqual(arrays["loads"].tolist(),
                         [[[[0, 5, 0]], [[0, 0, 6]]], [[[7, 0, 0]], [[0, 0, 0]]]])
        self.assertEqual(meta["layers"], [3, 4])

    def test_sglang_and_vllm(self):
        table = counts().tolist()
        path = self.write("a.json", json.dumps({"rank": 0, "logical_count": table}))
        self.assertEqual(self.imported(path)[0]["loads"][:, :, 0].tolist(), table)
        path = self.write("b.json", json.dumps({
            "expert_load_window": [[[3, 1, 2]]], "physical_to_logical_map": [[0, 1, 0]]}))
        for options in [(), ("--format", "vllm")]:
            self.assertEqual(self.imported(path, *options)[0]["loads"].tolist(), [[[[5, 1]]]])
        self.rejected("import", path, "-o", self.folder / "c.npz", "--format", "sglang",
                      words=["b.json", "no array", "logical_count"])

    def test_the_documented_way_out_of_a_pickle(self):
        # What docs/trace_format.md says to do with a loaded dump, without torch.
        dump = {"rank": 0, "logical_count": counts(1)}
        as_lists = lambda x: x.tolist() if hasattr(x, "tolist") else str(x)
        path = self.write("dump.json", json.dumps(dump, default=as_lists))
        self.assertTrue((self.imported(path)[0]["loads"][0, :, 0] == dump["logical_count"][0]).all())

    def test_report_for_people(self):
        target = self.folder / "out.npz"
        shown = self.ok("import", self.save("a.npy", counts()), "-o", target).stdout
        for words in ["array (npy)", "3 steps x 2 layers of 8 experts", "384"]:
            self.assertIn(words, shown)
        self.ok("plan", target, "--ranks", 4, "--layer", 1, "--step", 2)

    def test_bad_input(self):
        target = self.folder / "out.npz"
        good = self.save("good.npy", counts())

        def refused(path, *options, words, output=target):
            line = self.rejected("import", path, "-o", output, "--json", self.folder / "out.json", *options,
                                 words=words)
            self.assertRegex(line, "error: (FILE|-[-a-z]+): ")
            self.assertFalse(target.exists())
            self.assertFalse((self.folder / "out.json").exists())

        refused(self.folder / "none.npy", words=["none.npy", "cannot be read", "No such file"])
        refused(self.folder, words=["cannot be read", "directory"])
        refused("/dev/zero", "--format", "csv", words=["/dev/zero", "at most"])
        refused(self.save("f.npy", counts().astype("f4")), words=["f.npy", "<f4", "whole numbers"])
        refused(self.save("d.npy", counts().astype("f8")), words=["d.npy", "<f8"])
        refused(self.save("n.npy", -counts()), words=["n.npy", "--kind"])
        refused(self.save("big.npy", np.array([[2**40, 1]])), "--kind", "counts",
                words=["big.npy", "element 0", str(2**40), "2147483647"])
        refused(self.save("o.npy", np.asfortranarray(counts())), words=["o.npy", "Fortran"])
        np.save(self.folder / "p.npy", np.array([{"a": 1}]), allow_pickle=True)
        refused(self.folder / "p.npy", words=["p.npy", "'|O'"])
        refused(self.write("e.csv", ""), words=["e.csv", "no numbers"])
        refused(self.write("r.csv", "1,2\n3\n"), words=["r.csv", "line 2", "1 columns"])
        refused(self.write("j.json", '{"logical_count": [[1, 2], [3]]}'),
                words=["j.json", "logical_count", "a list of 1"])
        refused(self.write("k.json", '{"a": '), words=["k.json", "no JSON"])
        refused(self.write("t.pt", "PK\x03\x04 archive/data.pkl"), words=["t.pt", "PyTorch", "pickles"])
        refused(DATA_DIR / "olmoe_lens_counts.npz", words=["olmoe_lens_counts.npz", "megaflux already"])
        refused(good, "--num-experts", 9, words=["8 experts", "--num-experts 9"])
        refused(good, "--num-experts", 0, words=["--num-experts", "0", "[1, 4096]"])
        refused(good, "--topk", 65, words=["--topk", "65", "[1, 64]"])
        refused(good, "--step-tokens", 3, words=["good.npy", "--step-tokens 3", "counts"])
        named = self.write("named.json", json.dumps({"logical_count": counts().tolist()}))
        refused(named, "--kind", "topk", words=["named.json", "--kind topk", "counts"])
        refused(good, "--layers", "3", words=["2 layers", "--layers names 1"])
        refused(good, "--layers", "4-3", words=["--layers", "4-3", "backwards"])
        refused(good, "--layers", "3,3", words=["--layers", "layer 3", "twice"])
        refused(good, "--layers", "1-9999", words=["--layers", "1-9999", "1024"])
        refused(good, "--layers", "x", words=["--layers", "'x'"])
        refused(good, "--format", "onnx", words=["--format", "'onnx'", "ultraep"])
        refused(good, "--kind", "joy", words=["--kind", "'joy'", "topk"])
        refused(good, "--format", "csv", words=["good.npy"])
        refused(good, words=["-o: ", "ends in .npz"], output=self.folder / "out.txt")
        refused(good, words=["-o: ", "no"], output=self.folder / "no" / "out.npz")
        recording = self.save("run.npy", counts()).rename(self.folder / "run.npz")
        before = recording.read_bytes()
        for path in [recording, self.folder / ".." / self.folder.name / "run.npz"]:
            self.rejected("import", recording, "-o", path,
                          words=["-o: ", "run.npz", "FILE", "overwritten"])
        self.assertEqual(recording.read_bytes(), before)
        self.rejected("import", good, "-o", target, "--json", target, words=["--json: ", " is the file of -o too"])
        self.assertFalse(target.exists())
        self.rejected("import", good, words=["error: -o is required"])
        self.rejected("import", good, "-o", words=["error: -o: its value is missing"])
        self.rejected("import", good, "-o", "a.npz", "--output", "b.npz", words=["error: -o: given more than once"])
        self.rejected("import", good, "--output", "", words=["error: -o: '' names no file"])
        self.rejected("import", "-o", target, words=["FILE"])


class UltraEp(ProgramTest):
    """Chunks as UltraEP's recorder writes them: np.savez with a JSON text beside the arrays."""

    def record(self, name, pre, post, chunks=1, **changes):
        count, steps = len(pre), len(pre) // 2
        meta = {"schema": "ultra_ep_trace_v1", "trace_id": name, "ep_size": 2,
                "num_local_master_experts": 2, "num_local_redundant_experts": 1,
                "num_local_physical_experts": 3, "num_global_logical_experts": 4,
                "num_global_physical_experts": 6, **changes}
        layers = np.tile(np.array([1, 2], np.int32), steps)
        microbatches = np.repeat(np.arange(steps), 2)
        for chunk, rows in enumerate(np.array_split(np.arange(count), chunks)):
            np.savez(self.folder / f"{name}.chunk{chunk:06d}.npz",
                     metadata=np.asarray(json.dumps(meta)), layers=layers[rows],
                     virtual_layers=layers[rows], microbatches=microbatches[rows],
                     pre_logical_loads=pre[rows], post_physical_loads=post[rows])
        return self.write(f"{name}.manifest.json", json.dumps({**meta, "chunks": chunks}))

    def table(self, records=6):
        rng = np.random.default_rng(1)
        pre = rng.integers(0, 100, (records, 4)).astype(np.int32)
        post = np.insert(pre, [2, 4], 0, axis=1)
        return pre, post

    def test_import(self):
        pre, post = self.table()
        manifest = self.record("epg0", pre, post, chunks=4)
        for path in [manifest, self.folder / "epg0.chunk000002.npz"]:
            target = self.folder / "out.npz"
            said = self.json("import", path, "-o", target, "--topk", 2)
            self.assertEqual((said["files"], said["num_steps"], said["layers"]), (4, 3, [1, 2]))
            self.assertTrue(said["has_realised_rows"])
            with np.load(target) as trace:
                self.assertTrue((trace["loads"].reshape(6, 4) == pre).all())
                self.assertTrue((trace["realised_rows"].reshape(6, 2) ==
                                 post.reshape(6, 2, 3).sum(axis=2)).all())

    def test_bad_input(self):
        target = self.folder / "out.npz"
        pre, post = self.table()
        manifest = self.record("epg0", pre, post, chunks=2)
        (self.folder / "epg0.chunk000001.npz").unlink()
        self.rejected("import", manifest, "-o", target, words=["names 2 chunks", "1 are there"])
        manifest = self.record("epg1", pre, post, schema="other")
        self.rejected("import", manifest, "-o", target, words=["epg1", "'other'", "ultra_ep_trace_v1"])
        self.record("epg2", pre.astype(np.int64), post)
        self.rejected("import", self.folder / "epg2.chunk000000.npz", "-o", target,
                      words=["pre_logical_loads", "<i8", "<i4"])
        self.record("epg3", pre, post[:, :5])
        self.rejected("import", self.folder / "epg3.chunk000000.npz", "-o", target,
                      words=["post_physical_loads", "[6, 5]", "[6, 6]"])
        chunk = self.folder / "epg1.chunk000000.npz"
        chunk.write_bytes(chunk.read_bytes()[:-30])
        self.rejected("import", chunk, "-o", target, words=["epg1.chunk000000.npz"])
        self.assertFalse(target.exists())

    def export(self, trace, *options):
        said = self.json("export", trace, "-o", self.folder / "run", *options)
        self.assertEqual(said["schema"], "megaflux.export/1")
        return said

    def test_export_opens_as_their_viewer_reads_it(self):
        said = self.export(DATA_DIR / "olmoe_lens_counts.npz", "--ranks", 8, "--slots", 2,
                           "--planner", "megaflux", "--block-rows", 16)
        self.assertEqual((said["post"], said["replica_slots"]), ("megaflux", 2))
        manifest = json.loads((self.folder / "run.manifest.json").read_text())
        self.assertEqual(manifest["chunks"], len(list(self.folder.glob("run.chunk*.npz"))))
        with np.load(DATA_DIR / "olmoe_lens_counts.npz") as trace:
            loads = trace["loads"][:, :, 0].reshape(-1, 64)
        with np.load(self.folder / "run.chunk000000.npz", allow_pickle=False) as data:
            meta = json.loads(str(data["metadata"].item()))
            self.assertEqual(meta["trace_id"], "run")
            dtypes = {name: (data[name].dtype.str, data[name].ndim) for name in data.files}
            self.assertRegex(dtypes.pop("metadata")[0], "^<U")
            self.assertEqual(dtypes, {
                "layers": ("<i4", 1), "virtual_layers": ("<i4", 1), "microbatches": ("<i8", 1),
                "pre_logical_loads": ("<i4", 2), "post_physical_loads": ("<i4", 2)})
            pre, post = data["pre_logical_loads"], data["post_physical_loads"]
            ranks, own = meta["ep_size"], meta["num_local_master_experts"]
            places = meta["num_local_physical_experts"]
            self.assertEqual((meta["num_global_logical_experts"], places), (64, own + 2))
            self.assertTrue((pre == loads).all())
            self.assertTrue((pre.sum(axis=1) == post.sum(axis=1)).all())
            before = pre.reshape(-1, ranks, own).sum(axis=2).max(axis=1)
            after = post.reshape(-1, ranks, places).sum(axis=2).max(axis=1)
            self.assertTrue((after <= before).all())
            self.assertLess(after.sum(), 0.9 * before.sum())

    def test_round_trip(self):
        trace = DATA_DIR / "qwen3_30b_a3b_decode_counts.npz"
        self.assertEqual(self.export(trace)["post"], "fixed")
        back = self.folder / "back.npz"
        self.ok("import", self.folder / "run.manifest.json", "-o", back)
        with np.load(trace) as a, np.load(back) as b:
            self.assertTrue((a["loads"] == b["loads"]).all())

    def test_export_of_ids(self):
        self.export(DATA_DIR / "gptoss20b_decode_topk.npz", "--ranks", 4)
        with np.load(DATA_DIR / "gptoss20b_decode_topk.npz") as trace:
            step = trace["topk_ids"][:trace["step_offsets"][1]]
        with np.load(self.folder / "run.chunk000000.npz") as data:
            for layer in range(step.shape[1]):
                self.assertTrue((data["pre_logical_loads"][layer] ==
                                 np.bincount(step[:, layer].ravel(), minlength=32)).all())

    def test_bad_export(self):
        trace = DATA_DIR / "olmoe_lens_counts.npz"
        prefix = self.folder / "run"

        def refused(*options, words, source=trace, output=prefix):
            self.rejected("export", source, "-o", output, *options, words=words)
            self.assertEqual(list(self.folder.glob("run*")), [])

        refused("--ranks", 6, words=["--ranks", "6", "64 experts"])
        refused("--ranks", 0, words=["--ranks", "0", "[1, 1024]"])
        refused("--slots", 2, words=["--slots", "--planner"])
        refused("--slack", 0.1, words=["--slack", "--planner"])
        refused("--planner", "eplb", words=["--planner", "eplb", "owners"])
        refused("--planner", "oracle", words=["--planner", "'oracle'"])
        refused("--format", "tensorboard", words=["--format", "'tensorboard'", "ultraep"])
        refused(words=["none.npz", "cannot be read"], source=self.folder / "none.npz")
        refused(words=["-o: ", "no"], output=self.folder / "no" / "run")
        self.rejected("export", trace, words=["error: -o is required"])
