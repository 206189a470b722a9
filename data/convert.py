#!/usr/bin/env python3
"""Makes the traces of this folder from the recorded arrays that README.md names.

    python3 convert.py RAW_FOLDER [OUT_FOLDER]

RAW_FOLDER holds NAME.npy arrays: counts [batch, layer, expert], ids [token, layer, slot] or
[sequence, step, layer, slot]. OUT_FOLDER is this folder by default. Standard library only. The same input gives
the same bytes with the same zlib.
"""

import json
import struct
import sys
import zipfile
from array import array
from ast import literal_eval
from pathlib import Path

assert sys.byteorder == "little"

READ_CODES = {"|u1": "B", "<u2": "H", "<u4": "I", "<i4": "i"}
WRITE_DESCR = {"B": "|u1", "h": "<i2", "i": "<i4", "q": "<i8"}


def read_npy(path):
    """(shape, flat array) of a C-ordered .npy file of unsigned integers."""
    raw = path.read_bytes()
    if raw[:8] != b"\x93NUMPY\x01\x00":
        raise SystemExit(f"{path}: no .npy file of format 1.0")
    (header_bytes,) = struct.unpack_from("<H", raw, 8)
    header = literal_eval(raw[10 : 10 + header_bytes].decode("ascii"))
    if header["fortran_order"] or header["descr"] not in READ_CODES:
        raise SystemExit(f"{path}: {header} is not one of {list(READ_CODES)} in C order")
    values = array(READ_CODES[header["descr"]])
    values.frombytes(raw[10 + header_bytes :])
    return header["shape"], values


def npy_bytes(code, shape, values):
    """The .npy file of `values` in format 1.0; the payload starts at a multiple of 64."""
    extents = "".join(f"{n}, " for n in shape) if len(shape) == 1 else ", ".join(map(str, shape))
    header = f"{{'descr': '{WRITE_DESCR[code]}', 'fortran_order': False, 'shape': ({extents.strip()}), }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    prefix = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header))
    return prefix + header.encode("ascii") + array(code, values).tobytes()


def write_trace(path, meta, arrays, stored=False):
    """`arrays`: {name: (type code, shape, flat values)}; entries are dated 1980-01-01."""
    text = json.dumps({"schema": "megaflux.trace/1", **meta}, separators=(",", ":")).encode()
    arrays = {"meta": ("B", (len(text),), text), **arrays}
    with zipfile.ZipFile(path, "w") as archive:
        for name, (code, shape, values) in arrays.items():
            entry = zipfile.ZipInfo(f"{name}.npy", (1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_STORED if stored else zipfile.ZIP_DEFLATED
            archive.writestr(entry, npy_bytes(code, shape, values), compresslevel=9)
    print(f"{path.name}: {path.stat().st_size} bytes")


def counts_trace(shape, values, batches):
    """Counts as loads [S, L, 1, E] of the chosen batches, one step each."""
    _, layers, experts = shape
    cell = layers * experts
    chosen = array("i")
    for batch in batches:
        chosen.extend(values[batch * cell : (batch + 1) * cell].tolist())
    return {"loads": ("i", (len(batches), layers, 1, experts), chosen)}


def ids_trace(tokens, layers, topk, values, step_offsets):
    """Ids [N, L, K] of one rank."""
    ranks = [edge for step in zip(step_offsets, step_offsets[1:]) for edge in step]
    return {
        "topk_ids": ("h", (tokens, layers, topk), values),
        "step_offsets": ("q", (len(step_offsets),), step_offsets),
        "rank_offsets": ("q", (len(step_offsets) - 1, 2), ranks),
    }


def decode_steps(shape, values, num_sequences, steps):
    """[sequence, step, layer, slot] -> (tokens, values, offsets): decode step i holds one token of each of the
    first num_sequences sequences."""
    sequences, all_steps, layers, topk = shape
    assert num_sequences <= sequences and max(steps) < all_steps
    cell = layers * topk
    chosen = array("h")
    for step in steps:
        for sequence in range(num_sequences):
            first = (sequence * all_steps + step) * cell
            chosen.extend(values[first : first + cell].tolist())
    offsets = [num_sequences * i for i in range(len(steps) + 1)]
    return offsets[-1], chosen, offsets


ESFT = {
    "origin": "github.com/deepseek-ai/ESFT 579a7711e4b3 results/expert_scores/{0}/expert_weights_*.txt",
    "licence": "MIT",
    "model": "ESFT-vanilla-lite (DeepSeek-V2-Lite size), task {0}",
}
GPT_OSS = {
    "origin": "github.com/AmanPriyanshu/GPT-OSS-MoE-ExpertFingerprinting 72b368f60045 "
    "data/*/*/*_examples.json",
    "licence": "Apache-2.0",
}
OLMO = {"origin": "github.com/allenai/OLMoE 357454f4f647 scripts/routing_output/", "licence": "Apache-2.0"}


def meta_of(experts, topk, layers, model, origin, licence, time_ordered=False):
    return {
        "num_experts": experts,
        "topk": topk,
        "num_ranks": 1,
        "layers": list(layers),
        "model": model,
        "origin": origin,
        "licence": licence,
        "time_ordered": time_ordered,
    }


def convert_esft(raw, out):
    for task in ("law", "intent", "summary"):
        (tokens, layers, topk), ids = read_npy(raw / f"dsv2lite_esft_{task}_topk.npy")
        words = {key: text.format(task) for key, text in ESFT.items()}
        meta = meta_of(64, topk, range(1, 1 + layers), **words)
        arrays = ids_trace(tokens, layers, topk, ids, [0, tokens])
        # The default trace is read by builds without a zip library.
        write_trace(out / f"esft_{task}.npz", meta, arrays, stored=task == "law")


def convert_gpt_oss(raw, out):
    shape, counts = read_npy(raw / "gptoss20b_decode_counts_a.npy")
    model = "gpt-oss-20b, greedy decode of up to 511 tokens, one prompt a step"
    write_trace(
        out / "gptoss20b_decode_counts.npz",
        meta_of(32, 4, range(shape[1]), model, **GPT_OSS),
        counts_trace(shape, counts, range(0, shape[0], 5)),
    )
    shape, ids = read_npy(raw / "gptoss20b_decode_topk_a.npy")
    tokens, chosen, offsets = decode_steps(shape, ids, 64, range(1, 97))
    model = "gpt-oss-20b, decode steps 1 to 96 of 64 sequences side by side"
    write_trace(
        out / "gptoss20b_decode_topk.npz",
        meta_of(32, 4, range(shape[2]), model, time_ordered=True, **GPT_OSS),
        ids_trace(tokens, shape[2], shape[3], chosen, offsets),
    )


def convert_counts(raw, out):
    """The recordings that are counts only; each batch becomes a step."""
    table = [
        ("glm52_prefill_counts_a", "glm52_prefill_counts", 8, range(3, 78),
         ("GLM-5.2 (IQ2_M), prefill, one shard of one text domain a step",
          "github.com/Dorijan10/glm-expert-pruning 6cb44696e32b saliency/sal_*.json", "MIT")),
        ("olmoe_lens_counts", "olmoe_lens_counts", 8, range(16),
         ("OLMoE-1B-7B, 5 prompts of one domain a step",
          "github.com/Resource-Efficient-AI-Lab/MoELens bc7352afe117 "
          "public/data/OLMoE/domain_specialization_umap.json", "MIT")),
        ("olmoe_domain_counts_a", "olmoe_domain_counts", 8, (0, 7, 15),
         ("OLMoE-1B-7B-0924 and its SFT and DPO variants, one domain a step",
          OLMO["origin"] + "olmoe*/expert_counts/*.pkl", OLMO["licence"])),
        ("mixtral8x7b_domain_counts_a", "mixtral8x7b_domain_counts", 2, (0, 7, 15),
         ("Mixtral-8x7B-v0.1, one domain a step",
          OLMO["origin"] + "mistral/expert_counts/*.pkl", OLMO["licence"])),
        ("qwen3_30b_a3b_decode_counts", "qwen3_30b_a3b_decode_counts", 8, range(48),
         ("Qwen3-30B-A3B (IQ3_XXS), 75,773 decode tokens as one step",
          "github.com/doramirdor/mbolt e7e9dbf770b6 "
          "results/colibri-119/coactivation_qwen3-30b-a3b.json", "MIT")),
    ]
    for source, name, topk, layers, (model, origin, licence) in table:
        shape, counts = read_npy(raw / f"{source}.npy")
        assert len(layers) == shape[1]
        meta = meta_of(shape[2], topk, layers, model, origin, licence)
        write_trace(out / f"{name}.npz", meta, counts_trace(shape, counts, range(shape[0])))


def convert_v4_flash(raw, out):
    (tokens, layers, topk), ids = read_npy(raw / "dsv4flash_decode_topk_a.npy")
    # Three greedy decodes of 790, 299 and 235 tokens, one a step.
    meta = meta_of(
        256, topk, range(3, 3 + layers),
        "DeepSeek-V4-Flash (2-bit), greedy decode, one sequence a step",
        "github.com/imanu86/reap-loop 7c90f35d2196 runs/ds4/", "MIT",
    )
    offsets = [0, 790, 790 + 299, tokens]
    write_trace(out / "dsv4flash_decode_topk.npz", meta, ids_trace(tokens, layers, topk, ids, offsets))


def main():
    if len(sys.argv) not in (2, 3):
        raise SystemExit(__doc__)
    raw = Path(sys.argv[1])
    out = Path(sys.argv[2]) if len(sys.argv) == 3 else Path(__file__).resolve().parent
    for convert in (convert_esft, convert_gpt_oss, convert_counts, convert_v4_flash):
        convert(raw, out)


if __name__ == "__main__":
    main()
