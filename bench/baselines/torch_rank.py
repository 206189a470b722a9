"""One rank of stock PyTorch, in a process of its own: what torch_forward.py asks beside the forward kernel."""
import datetime
import os
import traceback

import torch
import torch.distributed as dist

import torch_ep


def num_gpus():
    return torch.cuda.device_count()


class TorchRank:
    """One rank of torch, in a process of its own: T K rows in expert order for the GEMMs, T tokens for the layer."""

    def __init__(self, args, rank, routes):
        def draw(*shape, scale=1.0):
            return ((torch.rand(*shape, device="cuda") * 2 - 1) * scale).bfloat16()

        local = args.experts // args.ranks
        self.rank, self.ranks, self.experts = rank, args.ranks, args.experts
        self.w13 = draw(local, 2 * args.inter, args.hidden, scale=0.05)
        self.w2 = draw(local, args.hidden, args.inter, scale=0.05)
        self.tokens = draw(args.tokens, args.hidden)
        self.ids = torch_ep.ids_from_file(routes, rank, "cuda")
        self.weights = torch.rand(args.tokens, args.topk, device="cuda")
        if "gemms" in args.what:
            self.x = self.tokens[torch.argsort(self.ids.view(-1), stable=True) // args.topk]
            self.a = draw(args.tokens * args.topk, args.inter)
            self.offs = torch.bincount(self.ids.view(-1), minlength=args.experts).cumsum(0).to(torch.int32)

    def gemms(self):
        torch_ep.grouped_mm(self.x, self.w13.transpose(1, 2), offs=self.offs)
        torch_ep.grouped_mm(self.a, self.w2.transpose(1, 2), offs=self.offs)

    def layer(self):
        torch_ep.moe(self.tokens, self.ids, self.weights, self.w13, self.w2, self.experts, self.ranks)

    @torch.no_grad()
    def ms(self, what, launches, lead):
        run = getattr(self, what)
        begin, end = torch.cuda.Event(True), torch.cuda.Event(True)
        for _ in range(lead):
            run()
        dist.barrier(device_ids=[self.rank])
        begin.record()
        for _ in range(launches):
            run()
        end.record()
        torch.cuda.synchronize()
        return begin.elapsed_time(end) / launches


def serve_rank(rank, args, folder, questions):
    """Body of a rank's process: answers (what, launches, lead) with milliseconds until it is told None."""
    try:
        # Multicast is left out, as on the other side.
        os.environ["NCCL_NVLS_ENABLE"] = "0"
        torch.cuda.set_device(rank)
        dist.init_process_group("nccl", init_method=f"file://{folder}/meet", rank=rank, world_size=args.ranks,
                                device_id=torch.device("cuda", rank), timeout=datetime.timedelta(seconds=args.deadline))
        side = TorchRank(args, rank, f"{folder}/routes.npz")
        questions.send(f"GPU-{torch.cuda.get_device_properties(rank).uuid}")
        while (question := questions.recv()) is not None:
            questions.send(side.ms(*question))
        dist.destroy_process_group()
    except Exception:  # whatever it is, the one who asks has to learn of it
        questions.send(RuntimeError(f"torch, rank {rank}: {traceback.format_exc()}"))
