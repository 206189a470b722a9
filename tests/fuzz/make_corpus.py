"""Writes the seeds of the corpus: for every reader valid inputs and one of each kind of damage.

Usage: python3 make_corpus.py PROGRAM, with NumPy, and with the program megaflux for the bytes of plans. Files that
fuzzing found lie beside them and are not touched; the same NumPy writes the same bytes again.
"""

import io
import json
import struct
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np

CORPUS = Path(__file__).resolve().parent / "corpus"


def save(target, name, data):
    path = CORPUS / target / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else data.encode())


def npy(array, **changes):
    """The bytes of a .npy file; `changes` replace texts of its header, shorter by shorter, padded with blanks."""
    stream = io.BytesIO()
    np.save(stream, array)
    raw = stream.getvalue()
    for old, new in changes.items():
        old = old.encode()
        assert old in raw
        raw = raw.replace(old, new.encode().ljust(len(old)), 1)
    return raw


def npz(arrays, method=zipfile.ZIP_STORED):
    """Arrays, or the bytes of entries as they are."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        for name, array in arrays.items():
            data = array if isinstance(array, bytes) else npy(array)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), data, method)
    return stream.getvalue()


def text(value):
    return np.frombuffer(json.dumps(value).encode(), np.uint8)


META = {"schema": "megaflux.trace/1", "num_experts": 3, "topk": 2, "num_ranks": 2, "layers": [3, 7]}
LOADS = np.array([[[[1, 1, 0], [1, 2, 3]], [[1, 0, 1], [2, 2, 2]]]], np.int32)
IDS = np.array([[[0, 1], [2, 0]], [[0, 2], [2, 1]], [[1, 2], [-1, 0]]], np.int16)


def npy_seeds():
    rows = np.arange(6, dtype=np.int32).reshape(2, 3)
    for dtype in "u1 u2 u4 u8 i1 i2 i4 i8 f4".split():
        save("npy", f"valid_{dtype}", npy(rows.astype(dtype)))
    save("npy", "valid_text", npy(np.asarray("schema µ")))
    save("npy", "valid_scalar", npy(np.int64(7)))
    save("npy", "valid_empty", npy(np.zeros((0, 5), np.int64)))
    save("npy", "bad_header", b"\x93NUMPY\x01\x00\x10\x00{'descr': broken")
    save("npy", "wrong_dtype", npy(rows.astype("f8")))
    save("npy", "object_dtype", npy(rows, **{"'<i4'": "'|O'"}))
    save("npy", "fortran_order", npy(np.asfortranarray(rows)))
    save("npy", "huge_shape", npy(np.zeros((1000, 1, 1), np.uint8), **{"(1000, 1, 1)": "(2**40,1**1)"}))
    save("npy", "huge_extent", npy(np.zeros((100, 100), np.uint8)[:0], **{"(0, 100)": "(9e9, 9)"}))
    save("npy", "overflowing_shape",
         b"\x93NUMPY\x01\x00\x46\x00" + b"{'descr':'<i4','fortran_order':False,'shape':(1099511627776,1099511627776)}"[:70])
    header = b"{'descr':'|u1','fortran_order':False,'shape':(9999999,9999999,9999999,0)}"
    save("npy", "valid_empty_of_large", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header)
    save("npy", "huge_header", b"\x93NUMPY\x02\x00\xff\xff\xff\x7f{}")
    save("npy", "truncated", npy(rows)[:-5])


def zip_seeds():
    arrays = {"a": np.arange(5), "b": np.ones(9, np.uint8)}
    stored, deflated = npz(arrays), npz(arrays, zipfile.ZIP_DEFLATED)
    save("zip", "valid_stored", stored)
    save("zip", "valid_deflated", deflated)
    save("zip", "valid_bomb", npz({"zeros": np.zeros(1 << 20, np.uint8)}, zipfile.ZIP_DEFLATED))
    save("zip", "valid_empty", npz({}))
    save("zip", "bad_zip", b"PK\x03\x04 is no zip file")
    save("zip", "truncated", stored[:-9])
    save("zip", "wrong_checksum", stored.replace(b"\x01" * 9, b"\x01" * 8 + b"\x02"))
    directory = stored.index(b"PK\x01\x02")
    for name, at, value in [("huge_size", 24, 0x7fffffff), ("packed_beyond", 20, 0xfffffff), ("local_beyond", 42, 0xfffffff),
                            ("zip64", 24, 0xffffffff)]:
        save("zip", name, stored[:directory + at] + struct.pack("<I", value) + stored[directory + at + 4:])
    save("zip", "encrypted", stored[:directory + 8] + b"\x01" + stored[directory + 9:])
    save("zip", "damaged_deflate", deflated[:60] + b"\xff\xff" + deflated[62:])


def trace_seeds():
    meta = text(META)
    full = {"meta": meta, "topk_ids": IDS, "step_offsets": np.array([0, 2, 3]),
            "rank_offsets": np.array([[0, 1, 2], [2, 2, 3]]), "topk_weights": np.ones(IDS.shape, np.float32),
            "realised_rows": np.ones((2, 2, 2), np.int32), "flags": np.zeros((2, 2), np.uint8),
            "instances": np.array([[0, 1, 2, 1, -1, 5]], np.int32), "phase_us": np.zeros((2, 2, 2, 8), np.float32)}
    loads = {"meta": meta, "loads": LOADS}
    save("trace", "valid_ids", npz(full))
    save("trace", "valid_ids_deflated", npz(full, zipfile.ZIP_DEFLATED))
    save("trace", "valid_loads", npz(loads))
    save("trace", "valid_route", npz({"meta": text({**META, "layers": [0]}), "topk_ids": IDS[:, :1],
                                      "rank_offsets": np.array([[0, 1, 3]]), "topk_weights": np.ones((3, 1, 2), np.float32)}))
    save("trace", "valid_loads_no_topk", npz({"meta": text({**META, "topk": 0}), "loads": LOADS}))
    save("trace", "bad_zip", npz(loads)[:40])
    save("trace", "bad_npy_header", npz({"meta": meta, "loads": b"\x93NUMPY\x01\x00\x02\x00{}"}))
    save("trace", "wrong_dtype", npz({"meta": meta, "loads": LOADS.astype(np.int64)}))
    save("trace", "huge_shape", npz({"meta": meta, "loads": npy(LOADS, **{"(1, 2, 2, 3)": "(99999, 9,9)"})}))
    save("trace", "negative_counts", npz({"meta": meta, "loads": -LOADS}))
    save("trace", "id_outside", npz({"meta": meta, "topk_ids": IDS + 9}))
    save("trace", "falling_offsets", npz({**full, "step_offsets": np.array([0, 5, 3])}))
    save("trace", "disagreeing", npz({**full, "loads": np.ones((2, 2, 2, 3), np.int32)}))
    save("trace", "many_ranks", npz({"meta": text({**META, "num_ranks": 1024}), "topk_ids": IDS,
                                     "step_offsets": np.repeat([0, 3], 500)}, zipfile.ZIP_DEFLATED))
    save("trace", "rows_beyond_31_bits", npz({"meta": meta, "loads": np.full_like(LOADS, 2**31 - 1)}))
    save("trace", "truncated", npz(full)[:-100])


def meta_seeds():
    for name, value in [("valid", META), ("valid_full", {**META, "model": "a <script> µ", "origin": "o", "licence": "l",
                                                         "time_ordered": True, "first_step": 9}),
                        ("no_object", [META]), ("wrong_schema", {**META, "schema": "megaflux.trace/9"}),
                        ("huge_number", {**META, "num_experts": 2**64 - 1}), ("negative", {**META, "topk": -1}),
                        ("wrong_type", {**META, "layers": "3"}), ("layer_twice", {**META, "layers": [3, 3]}),
                        ("many_layers", {**META, "layers": list(range(1100))}), ("missing", {})]:
        save("trace_meta", name, json.dumps(value))
    save("trace_meta", "bad_json", '{"schema": ')
    save("trace_meta", "deep", '{"x":' + "[" * 5000 + "]" * 5000 + "}")


def csv_seeds():
    for target, tail in [("load_csv", ""), ("import_csv", "\n\0")]:
        for name, value in [("valid_totals", "5,0,1"), ("valid_sources", "5,0,1\n4,2,0\n"),
                            ("valid_leniency", "\ufeff# head\r\n 5 , 0,1,\r\n\n"), ("empty", ""), ("negative", "5,-1"),
                            ("no_number", "5,x"), ("empty_field", "5,,1"), ("beyond_31_bits", "2147483648,1"),
                            ("sum_beyond", "2147483647,2147483647"), ("ragged", "1,2\n3"), ("many_columns", "1," * 4100),
                            ("zip", "PK\x03\x04"), ("comma", ",")]:
            save(target, name, value + tail)
    header = "step,layer,expert,count\n"
    for name, value in [("valid_long", header + "0,3,1,5\n9,4,2,6\n"),
                        ("valid_long_sources", "step,layer,expert,source,count\n0,3,1,0,5\n0,3,1,1,5\n"),
                        ("twice", header + "0,3,1,5\n0,3,1,5\n"), ("unknown_column", "step,colour\n1,2"),
                        ("missing_column", "step,layer,expert\n1,2,3"), ("huge_expert", header + "0,0,4096,1"),
                        ("huge_table", "step,layer,expert,source,count\n" + "".join(
                            f"{i},{i},4095,1023,1\n" for i in range(60)))]:
        save("import_csv", name, value + "\n\0")


def plan_seeds(program):
    with tempfile.TemporaryDirectory() as folder:
        for name, ranks, slots, loads in [("valid", 2, 1, "500,300,20,10"), ("valid_fixed", 2, 0, "5,5"),
                                          ("valid_wide", 4, 2, "900,700,120,100,90,80,60,50"), ("valid_empty", 1, 1, "0")]:
            csv, out = Path(folder, "loads.csv"), Path(folder, "plan")
            csv.write_text(loads + "\n")
            subprocess.run([program, "plan", csv, "--ranks", str(ranks), "--slots", str(slots), "--block-rows", "16",
                            "--plan-out", out], check=True, capture_output=True)
            save("plan", name, out.read_bytes())
    good = (CORPUS / "plan" / "valid").read_bytes()
    for name, at, value in [("wrong_magic", 0, 1), ("wrong_version", 4, 9), ("huge_experts", 8, 2**31 - 1),
                            ("huge_ranks", 12, 1024), ("negative_slots", 16, 2**32 - 1), ("wrong_hash", 48, 7),
                            ("owner_outside", 64, 9), ("index_falls", 84, 4000)]:
        save("plan", name, good[:at] + struct.pack("<I", value) + good[at + 4:])
    save("plan", "truncated", good[:-3])


def option_seeds():
    owners = {"schema": "megaflux.owners/1", "num_experts": 4, "num_ranks": 2,
              "layers": [{"layer_index": i, "layer": i + 3, "owner_of": [0, 1, 1, 0]} for i in range(2)]}
    deep = json.dumps({**owners, "layers": [{"layer_index": 0, "owner_of": [0, 1, 1, "X"]}]})
    for name, value in [("owners", "o" + json.dumps(owners)), ("owners_twice", "o" + json.dumps({**owners, "layers": owners["layers"] * 2})),
                        ("owners_missing", "o" + json.dumps({**owners, "layers": []})),
                        ("owners_outside", "o" + json.dumps(owners).replace("[0, 1, 1, 0]", "[0, 1, 2, 0]")),
                        ("owners_deep", "o" + deep.replace('"X"', "[" * 20000 + "]" * 20000)),("integer", "i 12"), ("integer_huge", "i" + "9" * 40), ("integer_word", "ieight"),
                        ("decimal", "x0.5"), ("decimal_nan", "xnan"), ("decimal_huge", "x1e999"),
                        ("table", "t0,1 2\t3 # four\n-1"), ("table_outside", "t32"), ("table_word", "t1 x"),
                        ("domains", "d0-7,8-15"), ("domains_gap", "d0-1,3"), ("domains_twice", "d0-15,3"),
                        ("inactive", "a3,5-6"), ("inactive_all", "a0-15"), ("inactive_backwards", "a6-5"),
                        ("layers", "l3-77,0"), ("layers_twice", "l3,3"), ("layers_many", "l0-1048576"), ("dash", "l-"),
                        ("machine", 'm{"name": "x", "gflops": 500000, "round_ns": 2}'), ("machine_field", 'm{"colour": 1}'),
                        ("machine_negative", 'm{"gflops": -1}'), ("machine_huge", 'm{"gflops": 18446744073709551615}'),
                        ("machine_type", 'm{"gflops": "much"}'), ("machine_bad", "m{"),
                        ("machine_no_utf8", b'm\xff{"name": 3}'),
                        ("machine_deep", 'm{"gflops":' + "[" * 20000 + "]" * 20000 + "}")]:
        save("options", name, value)


def import_seeds():
    counts = np.array([[[4, 0, 2], [3, 3, 0]], [[1, 1, 1], [0, 3, 0]]])
    ids = np.array([[[0, 1], [2, 3]], [[4, 5], [7, 6]]])
    for name, array, settings in [("valid_counts", counts.astype(np.uint16), 0), ("valid_ids", ids.astype(np.uint8), 0),
                                  ("valid_sources", counts[None].astype(np.int64), 2), ("valid_decode", ids[None], 3),
                                  ("valid_layers", counts.astype(np.uint32), 32), ("valid_steps", ids, 3 + 16),
                                  ("either", ids[:, :1], 0), ("neither", -counts, 0), ("negative_counts", -counts, 1),
                                  ("beyond_32_bits", counts + 2**40, 1), ("huge_ids", ids + 5000, 3),
                                  ("wrong_dtype", counts.astype(np.float32), 1), ("one_axis", counts[0, 0], 1),
                                  ("nothing", counts[:0], 1), ("scalar", np.int32(5), 0), ("no_axis_of_slots", ids[:, :, :0], 3)]:
        save("import_npy", name, npy(array) + bytes([settings]))
    save("import_npy", "truncated", npy(counts)[:-3] + b"\0")
    for name, value in [("valid_sglang", {"rank": 0, "logical_count": counts.tolist()}),
                        ("valid_vllm", {"expert_load_window": [[[3, 1, 2]]], "physical_to_logical_map": [[0, 1, 0]]}),
                        ("valid_records", {"records": [
                            {"forward_pass_id": 7, "rank": 0, "global_physical_count": [[3, 1, 2]]},
                            {"forward_pass_id": 7, "rank": 1, "global_physical_count": [[0, 1, 0]]}],
                            "last_physical_to_logical_map": [[0, 1, 0]]}),
                        ("valid_record_ids", {"records": [{"rank": 0, "topk_ids_of_layer": [[[0, 2], [1, -1]]]}],
                                              "last_physical_to_logical_map": [0, 1, 2]}),
                        ("valid_routed", {"routed_experts": ids.tolist()}), ("valid_list", counts.tolist()),
                        ("no_array", {}), ("ragged", {"logical_count": [[1, 2], [3]]}),
                        ("no_map", {"expert_load_pass": [[1, 2]]}), ("deep", {"logical_count": [[[[[[[[[1]]]]]]]]]}),
                        ("fraction", {"logical_count": [[1.5]]}), ("negative", {"logical_count": [[-1]]}),
                        ("beyond_32_bits", {"logical_count": [[2**31]]}),
                        ("map_outside", {"expert_load_pass": [[1]], "physical_to_logical_map": [[4095]]}),
                        ("empty_lists", {"logical_count": [[], []]}), ("two_arrays", {"topk_ids": [[1]], "logical_count": [[1]]})]:
        save("import_json", name, json.dumps(value).encode() + b"\0")
    save("import_json", "bad_json", b'{"logical_count": [[1,\0')
    save("import_json", "very_deep", b'{"x":' + b"[" * 5000 + b"]" * 5000 + b"}\0")
    ultraep_seeds(counts)


def ultraep_seeds(counts):
    meta = {"schema": "ultra_ep_trace_v1", "ep_size": 2, "num_local_master_experts": 2, "num_local_physical_experts": 3,
            "num_global_logical_experts": 4}
    pre = np.array([[9, 2, 3, 2], [4, 4, 4, 4]], np.int32)
    post = np.array([[5, 2, 0, 3, 2, 4], [4, 4, 0, 4, 4, 0]], np.int32)

    def chunk(changes=(), **arrays):
        return {"metadata": np.asarray(json.dumps({**meta, **dict(changes)})), "layers": np.array([3, 5], np.int32),
                "virtual_layers": np.array([3, 5], np.int32), "microbatches": np.array([0, 0]), "pre_logical_loads": pre,
                "post_physical_loads": post, **arrays}

    for name, arrays in [("valid_chunk", chunk()), ("other_schema", chunk({"schema": "x"})),
                         ("huge_ranks", chunk({"ep_size": 2**40})), ("uneven", chunk({"num_global_logical_experts": 5})),
                         ("negative_rows", chunk(pre_logical_loads=-pre)), ("wrong_dtype", chunk(layers=np.array([3.0, 5.0]))),
                         ("other_shape", chunk(post_physical_loads=post[:, :5])), ("layer_twice", chunk(layers=np.array([3, 3], np.int32))),
                         ("incomplete", chunk(microbatches=np.array([0, 1]))),
                         ("bad_letters", chunk(metadata=npy(np.asarray("abc")).replace(b"a\0\0\0", b"\xff\xff\xff\xff"))),
                         ("valid_named", {"logical_count": counts}), ("trace", {"meta": text(META), "loads": LOADS}),
                         ("fractions", {"logical_count": counts + 0.5}), ("nothing", {})]:
        save("import_npz", name, npz(arrays) + b"\0")
    save("import_npz", "valid_deflated", npz(chunk(), zipfile.ZIP_DEFLATED) + b"\0")
    save("import_npz", "truncated", npz(chunk())[:-50] + b"\0")
    save("import_npz", "bad_zip", b"PK\x03\x04 archive/data.pkl\0")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    npy_seeds()
    zip_seeds()
    trace_seeds()
    meta_seeds()
    csv_seeds()
    plan_seeds(sys.argv[1])
    option_seeds()
    import_seeds()
    files = [path for path in CORPUS.rglob("*") if path.is_file()]
    print(f"{len(files)} files, {sum(path.stat().st_size for path in files)} bytes")


if __name__ == "__main__":
    main()
