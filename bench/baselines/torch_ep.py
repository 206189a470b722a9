"""Expert-parallel MoE layer from stock PyTorch + NCCL: the comparison a user would reach for first.

Fixed expert placement, unfused: permute -> all_to_all -> sort -> grouped_mm -> SwiGLU -> grouped_mm -> unsort
-> all_to_all -> weighted sum; backward through autograd. One process per GPU.

    torchrun --nproc_per_node 2 torch_ep.py --hidden 4096 --inter 1536 --experts 128 --topk 8 --tokens 4096
    torchrun --nproc_per_node 2 torch_ep.py --hidden 4096 --inter 1536 --experts 128 --ids routing.npz

Written for this project; the layer and how it is timed are unchanged since the stock figures were first measured
(November 2026, PyTorch 2.11).

Prints, per routing, the median over --iters of the slowest rank's time for forward and for forward+backward (random
dY), the rank imbalance max/mean, and kappa = E * sum_e (c_e / sum c)^2. The zipf families here ask for kappa of the
probabilities (with K distinct draws the loads realise less: about 2.4 and 3.6 at E=128 K=8); for families whose
realised kappa is given, pass a file: topk_ids int16 [N, L, K] with rank_offsets int64 [S, P+1]; step 0, layer 0 is used.
Sums over k are bf16 (index_add) and dW is bf16, as stock code has them.
"""
import argparse
import json
import math
import os


def parse_arguments():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--hidden", type=int, default=2048)
    ap.add_argument("--inter", type=int, default=768)
    ap.add_argument("--experts", type=int, default=128)
    ap.add_argument("--topk", type=int, default=8)
    ap.add_argument("--tokens", type=int, nargs="+", default=[4096, 16384])
    ap.add_argument("--iters", type=int, default=20)
    ap.add_argument("--json", help="append one JSON line a routing, with every iteration's times")
    ap.add_argument("--ids", help=".npz with topk_ids and rank_offsets; replaces --tokens and the drawn families")
    args = ap.parse_args()
    if "RANK" not in os.environ:
        ap.error("RANK: not set, as torchrun sets it for the process of each GPU")
    return args


# Ahead of PyTorch: --help, and what is wrong with the options, take none.
ARGUMENTS = parse_arguments() if __name__ == "__main__" else None

import torch
import torch.distributed as dist

grouped_mm = getattr(torch, "_grouped_mm", None) or torch.nn.functional.grouped_mm


def zipf_probs(num_experts, kappa, seed):
    """Expert probabilities p_e ~ rank^-a, randomly permuted, with a solved so that E * sum p^2 = kappa."""
    lo, hi = 0.0, 6.0
    ranks = torch.arange(1, num_experts + 1, dtype=torch.float64)
    for _ in range(80):
        a = (lo + hi) / 2
        p = ranks.pow(-a)
        p /= p.sum()
        lo, hi = (a, hi) if num_experts * p.pow(2).sum() < kappa else (lo, a)
    perm = torch.randperm(num_experts, generator=torch.Generator().manual_seed(seed))
    return p[perm]


def ids_from_file(path, rank, device):
    import numpy as np

    data = np.load(path)
    begin, end = data["rank_offsets"][0][rank : rank + 2]
    return torch.from_numpy(data["topk_ids"][begin:end, 0].astype("int64")).to(device)


def draw_topk(tokens, topk, probs, generator, device):
    """Top-k ids without repeats: Gumbel top-k over log p (loads of hot experts saturate at one per token)."""
    u = torch.rand(tokens, probs.numel(), generator=generator, device=device, dtype=torch.float32)
    g = -torch.log((-torch.log(u.clamp_min(1e-20))).clamp_min(1e-20))
    return (g + probs.to(device, torch.float32).log()).topk(topk, dim=1).indices


class AllToAll(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, out_splits, in_splits):
        ctx.splits = (in_splits, out_splits)
        y = x.new_empty(sum(out_splits), x.shape[1])
        dist.all_to_all_single(y, x.contiguous(), out_splits, in_splits)
        return y

    @staticmethod
    def backward(ctx, gy):
        out_splits, in_splits = ctx.splits
        gx = gy.new_empty(sum(out_splits), gy.shape[1])
        dist.all_to_all_single(gx, gy.contiguous(), out_splits, in_splits)
        return gx, None, None


def moe(x, ids, weights, w13, w2, num_experts, world):
    topk = ids.shape[1]
    local = num_experts // world
    flat = ids.reshape(-1)
    order = torch.argsort(flat, stable=True)
    sent = torch.bincount(flat, minlength=num_experts)
    got = torch.empty_like(sent)
    dist.all_to_all_single(got, sent)  # got[r * local + j] = rows rank r sends for my expert j
    in_splits = sent.view(world, local).sum(1).tolist()
    out_splits = got.view(world, local).sum(1).tolist()
    rows = AllToAll.apply(x[order // topk], out_splits, in_splits)
    owner = torch.arange(local, device=x.device).repeat(world).repeat_interleave(got)
    by_expert = torch.argsort(owner, stable=True)
    offs = torch.bincount(owner, minlength=local).cumsum(0).to(torch.int32)
    z = grouped_mm(rows[by_expert], w13.transpose(1, 2), offs=offs)
    gate, up = z.chunk(2, dim=1)
    out = grouped_mm(torch.nn.functional.silu(gate) * up, w2.transpose(1, 2), offs=offs)
    back = torch.empty_like(out)
    back = back.index_copy(0, by_expert, out)
    returned = AllToAll.apply(back, in_splits, out_splits)
    y = torch.zeros_like(x)
    scaled = returned * weights.reshape(-1)[order].unsqueeze(1).to(returned.dtype)
    return y.index_add(0, order // topk, scaled)


def timed(fn, iters):
    starts, ends = [], []
    for i in range(iters + 3):
        dist.barrier()
        torch.cuda.synchronize()
        a, b = torch.cuda.Event(True), torch.cuda.Event(True)
        a.record()
        fn()
        b.record()
        torch.cuda.synchronize()
        t = torch.tensor([a.elapsed_time(b)], device="cuda")
        dist.all_reduce(t, dist.ReduceOp.MAX)
        if i >= 3:
            starts.append(t.item())
    return starts


def median(values):
    return sorted(values)[len(values) // 2]


def main(args):
    rank = int(os.environ["RANK"])
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
    world = dist.get_world_size()
    gen = torch.Generator(device="cuda").manual_seed(1 + rank)
    E, H, I, K = args.experts, args.hidden, args.inter, args.topk
    local = E // world
    w13 = (torch.randn(local, 2 * I, H, device="cuda", generator=gen) / math.sqrt(H)).bfloat16().requires_grad_()
    w2 = (torch.randn(local, H, I, device="cuda", generator=gen) / math.sqrt(I)).bfloat16().requires_grad_()
    given = ids_from_file(args.ids, rank, "cuda") if args.ids else None
    for T in [given.shape[0]] if args.ids else args.tokens:
        x = torch.randn(T, H, device="cuda", generator=gen).bfloat16().requires_grad_()
        dy = torch.randn(T, H, device="cuda", generator=gen).bfloat16()
        for name in ("file",) if args.ids else ("balanced", "zipf-k3", "zipf-k6"):
            if args.ids:
                ids = given
            else:
                probs = torch.full((E,), 1 / E) if name == "balanced" else zipf_probs(E, float(name[-1]), seed=7)
                ids = draw_topk(T, K, probs, gen, "cuda")
            wts = torch.rand(T, K, device="cuda", generator=gen).softmax(1)
            counts = torch.bincount(ids.reshape(-1), minlength=E)
            dist.all_reduce(counts)
            load = counts.view(world, local).sum(1).double()
            kappa = (E * (counts.double() / counts.sum()).pow(2).sum()).item()
            with torch.no_grad():
                fwd = timed(lambda: moe(x, ids, wts, w13, w2, E, world), args.iters)

            def step():
                w13.grad = w2.grad = x.grad = None
                moe(x, ids, wts, w13, w2, E, world).backward(dy)

            both = timed(step, args.iters)
            if rank == 0 and args.json:
                line = dict(H=H, I=I, E=E, K=K, P=world, T=T, route=name, fwd_ms=fwd, fwd_bwd_ms=both)
                with open(args.json, "a") as out:
                    out.write(json.dumps(line) + "\n")
            fwd, both = median(fwd), median(both)
            flops = 6 * T * K * H * I * world
            if rank == 0:
                print(f"H{H} I{I} E{E} K{K} P{world} T{T} {name}: kappa {kappa:.2f} imbalance {load.max() / load.mean():.3f} "
                      f"fwd {fwd:.3f} ms ({flops / fwd / 1e9 / world:.0f} TFLOP/s/GPU) fwd+bwd {both:.3f} ms", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(ARGUMENTS)
