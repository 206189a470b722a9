"""What bench/eight_gpus.py runs: every cell with its command, the seconds it may take, and its place in the order."""
import dataclasses
import pathlib
import sys

from cell_runner import COUNTS

ROOT = pathlib.Path(__file__).resolve().parents[1]
RANKS = TOPK = 8
PARTS = ("layer", "forward", "head", "plan", "stock", "processes", "suite")
PAPER_ROUTES = ("real-median", "real-high", "real-extreme", "zipf-k3", "zipf-k6")
OTHER_ROUTES = ("hot-1.5", "balanced", "near", "one-hot")
PAPER_SHAPE = (7168, 2048)
SMALLER_SHAPES = ((4096, 1536), (2048, 768))
TOKENS = tuple(1024 << n for n in range(7))

# Seconds: a process and its routing, a device more, rows drawn and compared, and the rate of a layer.
START, A_DEVICE, A_ROW, FLOPS = 3.0, 0.5, 5e-7, 450e12
HOST_BYTES = 4e9  # a second, when y of every placement is compared
SIDES = 6         # placements of `bench forward`
WARM_UP = 2.5     # seconds of planned before its first sample
LEAD = 0.25       # of planned ahead of a pair
A_PAIR = 0.9      # of planned and another placement in turns, or four launches
STOCK_PAIRS = 5   # batches of each side


@dataclasses.dataclass(frozen=True)
class Cell:
    """One command. It gives figures, in Setting.out, or counts if its part is `layer`, `processes` or `suite`."""
    part: str
    case: str
    command: tuple
    seconds: float
    obstacle: str = ""  # why it cannot run here


@dataclasses.dataclass(frozen=True)
class Setting:
    """What commands are made of."""
    folder: pathlib.Path  # of the programs
    devices: int
    replays: int
    python: str           # that has PyTorch
    traces: str           # folder of the recorded counts, stored
    commit: str
    out: str              # file of one cell's figures

    @property
    def program(self):
        return self.folder / "megaflux"

    @property
    def kind(self):
        return "real" if self.devices == RANKS else "virtual"

    def start(self):
        return START + A_DEVICE * self.devices

    def recorded(self):
        return ["--commit", self.commit, "--out", self.out]


def slots_of(experts):
    """s = E / 4P, as in the paper."""
    return experts // (4 * RANKS)


def cell(part, case, command, seconds, obstacle=""):
    return Cell(part, case, tuple(str(word) for word in command), seconds, obstacle)


def layer_options(shape, experts, tokens):
    return ["--hidden", shape[0], "--inter", shape[1], "--experts", experts, "--topk", TOPK, "--tokens", tokens,
            "--slots", slots_of(experts)]


def routing(setting, experts, route):
    trace = ["--trace", f"{setting.traces}/{COUNTS[experts]}"] if route.startswith("real") else []
    return ["--route", route, *trace]


def forward_case(setting, shape, experts, tokens, route):
    return (f"op=forward,H={shape[0]},I={shape[1]},E={experts},K={TOPK},P={RANKS},T={tokens},s={slots_of(experts)},"
            f"route={route},planner=megaflux,objective=forward,exec=mega,ranks={setting.kind}")


def forward_seconds(setting, shape, tokens):
    """Behind a warm-up; `bench forward` times each placement in pairs with planned, whose launch stands for all."""
    rows = RANKS * tokens * TOPK
    launch = 6 * rows * shape[0] * shape[1] / (FLOPS * setting.devices)
    sampling = SIDES * setting.replays * (max(LEAD, 2 * launch) + max(A_PAIR, 4 * launch))
    compared = SIDES * 2 * RANKS * tokens * shape[0] / HOST_BYTES
    return setting.start() + A_ROW * rows + compared + max(WARM_UP, 2 * launch) + sampling


def forward(setting, shape, experts, tokens, route):
    command = [setting.program, "bench", "forward", "--ranks", RANKS, "--devices", setting.devices,
               *layer_options(shape, experts, tokens), *routing(setting, experts, route), "--replays", setting.replays,
               *setting.recorded()]
    return cell("forward", forward_case(setting, shape, experts, tokens, route), command,
                forward_seconds(setting, shape, tokens))


def forwards(setting, shapes, experts, tokens, routes):
    """All combinations, tokens outermost. zipf-k6 takes 12 experts an expert of a token."""
    return [forward(setting, shape, e, t, route) for t in tokens for e in experts for shape in shapes for route in routes
            if route != "zipf-k6" or e >= 12 * TOPK]


def stock(setting, shape, tokens):
    """The layer of PyTorch and NCCL, a rank a GPU, over zipf-k3."""
    experts = 128
    command = [setting.python, ROOT / "bench/baselines/torch_forward.py", setting.program, "--ranks", RANKS,
               *layer_options(shape, experts, tokens), "--route", "zipf-k3", "--planner", "megaflux", "--pairs",
               STOCK_PAIRS, "--launches", 5, *setting.recorded()]
    obstacle = "" if setting.devices == RANKS else f"stock takes a GPU a rank, {RANKS} in all"
    return cell("stock", forward_case(setting, shape, experts, tokens, "zipf-k3").replace("exec=mega", "exec=stock"),
                command, 45, obstacle)


def head(setting, experts, tokens):
    case = (f"op=head,E={experts},K={TOPK},P={RANKS},T={tokens},s={slots_of(experts)},route=zipf-k3,planner=megaflux,"
            f"objective=forward,ranks={setting.kind}")
    command = [setting.program, "bench", "head", "--ranks", RANKS, "--devices", setting.devices, "--experts", experts,
               "--topk", TOPK, "--tokens", tokens, "--slots", slots_of(experts), *setting.recorded()]
    return cell("head", case, command, setting.start() + 1)


def plans(setting):
    """The planner alone: on the host, and as a kernel of one device."""
    host = [setting.program, "bench", "plan", setting.traces, "--ranks", RANKS, "--rows-per-rank", 65536, "--cases", 50,
            "--commit", setting.commit, "--json", setting.out]
    kernel = setting.folder / "plan_speed"
    missing = [path.name for path in (kernel, setting.folder / "planner_cases.bin") if not path.exists()]
    return [cell("plan", f"op=plan,P={RANKS},exec=cpu", host, 10),
            cell("plan", f"op=plan,P={RANKS}", [kernel, *setting.recorded()], 40,
                 f"{' and '.join(missing)} missing beside megaflux" if missing else "")]


def layers(setting):
    """A small layer with every check of `megaflux run`: are P ranks of one process right on these devices?"""
    return [cell("layer", f"op=tests,program=run,P={RANKS},route={route},processes=1,ranks={setting.kind}",
                 [setting.program, "run", "--backend", "cuda", "--forward-only", "--ranks", RANKS, "--devices",
                  setting.devices, "--hidden", 256, "--inter", 192, "--experts", 128, "--topk", TOPK, "--tokens", 512,
                  "--slots", slots_of(128), "--route", route, "--json", "-"], setting.start() + 2)
            for route in ("zipf-k3", "one-hot")]


def processes(setting):
    """What the suite has of ranks in processes of their own: two of them."""
    obstacle = "" if setting.devices > 1 else "ranks in processes take a GPU each, 2 in all"
    return [cell("processes", f"op=tests,program={name},P=2,processes=2,ranks=real",
                 [setting.folder / name, "--size=quick", f"--gtest_filter={tests}"], 30, obstacle)
            for name, tests in (("gpu_test_comm", "*NcclGroup*"), ("gpu_test_layer_mega", "MegaForwardProcesses.*"))]


def suite(setting):
    """Size quick of the GPU suite, a cell a program. Not through ./test: `timeout`, which it uses, leaves the group."""
    found = [cell("suite", f"op=tests,program={program.name},size=quick", [program, "--size=quick"], 50)
             for program in sorted(setting.folder.glob("gpu_test_*")) if not program.suffix]
    found.append(cell("suite", "op=tests,program=megaflux,size=quick",
                      ["env", f"MF_PROGRAM={setting.program}", sys.executable, "-B", ROOT / "tests/cli/gpu_program.py"], 90))
    return found


def all_cells(setting):
    """Most telling first: the paper's cases in the middle of its range, then its other sizes, then what is ours."""
    paper, experts = (PAPER_SHAPE,), tuple(COUNTS)
    order = [
        *layers(setting),
        *forwards(setting, paper, (128,), (16384,), (*PAPER_ROUTES, "hot-1.5")),
        *[head(setting, *size) for size in ((128, 4096), (128, 16384), (256, 16384), (64, 16384))],
        *forwards(setting, paper, (128,), (4096,), PAPER_ROUTES),
        stock(setting, PAPER_SHAPE, 16384),
        *processes(setting),
        *forwards(setting, paper, (256, 64), (16384, 4096), PAPER_ROUTES),
        *forwards(setting, SMALLER_SHAPES, (128,), (16384,), ("zipf-k3", "real-extreme")),
        *forwards(setting, paper, (128,), (65536, 1024, 32768, 2048, 8192), PAPER_ROUTES),
        *plans(setting),
        stock(setting, PAPER_SHAPE, 4096),
        *[stock(setting, shape, 16384) for shape in SMALLER_SHAPES],
        *suite(setting),
        *forwards(setting, SMALLER_SHAPES, (128,), (16384, 4096), PAPER_ROUTES),
        *forwards(setting, paper, (128,), (16384, 4096), OTHER_ROUTES),
        *forwards(setting, paper, experts, TOKENS, PAPER_ROUTES + OTHER_ROUTES),
        *forwards(setting, SMALLER_SHAPES, (128,), TOKENS, PAPER_ROUTES + OTHER_ROUTES),
    ]
    return list(dict.fromkeys(order))
