"""The tables of bench/eight_gpus.py, out of its lines: beside the paper's figures, and beside those of virtual ranks."""
import json
import math
import pathlib
import re
import statistics

from eight_gpus_cells import PAPER_SHAPE, RANKS, slots_of

PAPER_PEAKS = {"real-median": 2.14, "real-high": 1.99, "real-extreme": 1.93, "zipf-k3": 1.53, "zipf-k6": 1.86}
PAPER_GEOMEAN = 1.45
NEEDED = ("figure", "value", "unit", "case", "samples", "commit", "command")  # of a line
# How real and virtual ranks are held against each other.
RATIOS = ("skew_speedup", "bound", "pipelined_over_staged", "ideal_fraction", "balanced_fraction", "head_us")
DIFFERENCES = ("hidden_fraction",)


def read_lines(path):
    """The lines of a file of results; none if there is no file. What an interruption cut off is left out."""
    lines = []
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            for text in file:
                try:
                    lines.append(json.loads(text))
                except ValueError:
                    continue
    except FileNotFoundError:
        pass
    return lines


def why_no_results(path):
    """Why a file holds something else than results, or an empty text. It may be cut off, empty or not there."""
    for line in read_lines(path) if path and not pathlib.Path(path).is_dir() else ():
        missing = [key for key in NEEDED if not isinstance(line, dict) or key not in line]
        if missing:
            return f"{path}: a line has no {missing[0]}, so it is none of bench/results: {json.dumps(line)[:60]}"
    return ""


def keys_of(case):
    return dict(pair.split("=", 1) for pair in case.split(",") if "=" in pair)


def by_devices(lines):
    """{devices: lines}. A line that does not say belongs to the cell whose own line closes it, or was run on one."""
    found, closed_with = {}, 1
    for line in reversed(lines):
        case = keys_of(line["case"])
        told = re.search(r"--devices (\d+)", line["command"])
        if "devices" in case:
            devices = closed_with = int(case["devices"])
        elif told:
            devices = int(told[1])
        else:
            devices = int(case["P"]) if case.get("ranks") == "real" else closed_with
        found.setdefault(devices, []).insert(0, line)
    return found


def geomean(values):
    return math.exp(statistics.fmean(math.log(value) for value in values)) if values else math.nan


def figures_of(lines):
    """{case: {figure: line}}, the last line counting; with `bound`, fixed / second ideal, each over planned beside it."""
    found = {}
    for line in lines:
        found.setdefault(line["case"], {})[line["figure"]] = line
    for figures in found.values():
        if "skew_speedup" in figures and "ideal_fraction" in figures:
            fixed, second = (figures[name]["samples"] for name in ("skew_speedup", "ideal_fraction"))
            bound = statistics.median(f / beside_f / (s / beside_s) for (f, beside_f), (s, beside_s) in zip(fixed, second))
            figures["bound"] = {"figure": "bound", "value": bound}
    return found


def value(figures, name):
    return figures[name]["value"] if name in figures else math.nan


def number(x, digits=2):
    return "-" if math.isnan(x) else f"{x:.{digits}f}"


def shown_value(figures, name, digits=2):
    return number(value(figures, name), digits)


class Cases:
    """The forward cases of some lines, by layer, experts and family, and by tokens."""

    def __init__(self, found):
        self.rows, self.tokens = {}, []
        for case, figures in found.items():
            keys = keys_of(case)
            is_compared = "skew_speedup" in figures or "ideal_fraction" in figures
            if keys.get("op") != "forward" or keys.get("P") != str(RANKS) or not is_compared:
                continue
            row = (keys["H"], keys["I"], keys["E"], keys["s"], keys["route"])
            self.rows.setdefault(row, {})[int(keys["T"])] = figures
            self.tokens = sorted({*self.tokens, int(keys["T"])})

    def of_paper(self):
        """{family: [figures]} of the paper's shape, slots and families."""
        families = {route: [] for route in PAPER_PEAKS}
        for (hidden, inter, experts, slots, route), by_tokens in self.rows.items():
            is_paper = (int(hidden), int(inter), int(slots)) == (*PAPER_SHAPE, slots_of(int(experts)))
            if is_paper and route in families:
                families[route] += by_tokens.values()
        return families

    def table(self, title, first, second, digits=2):
        """A line a layer, a column a T: `first` and `second`."""
        print(f"\n{title}")
        print(f"{'H I E s family':<32}" + "".join(f"{f'T {tokens}':>13}" for tokens in self.tokens))
        for row in sorted(self.rows, key=lambda row: ([-int(size) for size in row[:4]], row[4])):
            cells = [self.rows[row].get(tokens, {}) for tokens in self.tokens]
            pairs = [[shown_value(cell, name, digits) for name in (first, second) if cell] for cell in cells]
            print(f"{' '.join(row):<32}" + "".join(f"{' '.join(pair):>13}" for pair in pairs))

    def values(self, name):
        """A figure of all cases that have it."""
        return [value(cell, name) for by_tokens in self.rows.values() for cell in by_tokens.values() if name in cell]


def show_paper(cases):
    print(f"\nBeside the paper, H {PAPER_SHAPE[0]}, I {PAPER_SHAPE[1]} (its kernels MXFP4 and MXFP8 on B200, these bf16 on "
          "the GPUs named in the lines)")
    print(f"{'family':<14}{'cases':>6}{'geomean':>9}{'of bound':>9}{'peak':>7}{'its bound':>10}{'paper peak':>11}")
    everything = []
    for route, cells in cases.of_paper().items():
        cells = [cell for cell in cells if "skew_speedup" in cell]
        if not cells:
            print(f"{route:<14}{0:>6}{'-':>9}{'-':>9}{'-':>7}{'-':>10}{PAPER_PEAKS[route]:>11.2f}")
            continue
        everything += cells
        peak = max(cells, key=lambda cell: value(cell, "skew_speedup"))
        print(f"{route:<14}{len(cells):>6}{mean_of(cells, 'skew_speedup'):>9.3f}{number(mean_of(cells, 'bound'), 3):>9}"
              f"{value(peak, 'skew_speedup'):>7.2f}{shown_value(peak, 'bound'):>10}{PAPER_PEAKS[route]:>11.2f}")
    print(f"geometric mean of {len(everything)} cases {number(mean_of(everything, 'skew_speedup'), 3)}, "
          f"of their bounds {number(mean_of(everything, 'bound'), 3)}; the paper's is {PAPER_GEOMEAN}")


def mean_of(cells, name):
    return geomean([value(cell, name) for cell in cells if name in cell])


def show_spread(cases):
    if itself := cases.values("self_ratio"):
        print(f"planned against itself: {min(itself):.4f} ... {max(itself):.4f}")
    fractions = cases.values("hidden_fraction")
    if fractions:
        print(f"hidden fraction: median {statistics.median(fractions):.3f} of {len(fractions)} cases, "
              f"{min(fractions):.3f} ... {max(fractions):.3f}")
    staged = cases.values("pipelined_over_staged")
    if staged:
        print(f"pipelined over staged: geometric mean {geomean(staged):.3f} of {len(staged)} cases")


def show_one_by_one(title, found, names):
    """Figures that are few: a line each."""
    lines = [(case, figures[name]) for case, figures in found.items() for name in names if name in figures]
    if not lines:
        return
    print(f"\n{title}")
    for case, line in lines:
        print(f"{line['figure']:<16}{line['value']:>10.3f} {line['unit']:<3} {case}")


def show_tests(found):
    """Counts of the tests, and what of them ran in processes."""
    counts = {case: figures["tests_passed"]["samples"] for case, figures in found.items() if "tests_passed" in figures}
    print("\nTests: passed, failed, skipped")
    for case, (passed, failed, skipped) in counts.items():
        print(f"{passed:>6}{failed:>6}{skipped:>6}  {case}")
    if not counts:
        print("none ran")
    print("8 ranks in 8 processes: no test does that yet; those of ranks in processes start 2. "
          "8 ranks in one process: program=run above.")


def show_memory(found):
    missing = [case for case, figures in found.items()
               if figures.get("cell_seconds", {}).get("outcome") == "not run: memory"]
    if missing:
        print("\nnot run: memory")
        for case in missing:
            print(f"  {case}")


def without_place(case):
    """A case as it reads whatever its ranks shared."""
    return re.sub(r",ranks=(real|virtual)", "", case)


def show_virtual(found, path):
    """Figures of real ranks beside those of virtual ones over the same case."""
    virtual = figures_of(line for line in read_lines(path) if keys_of(line["case"]).get("ranks") == "virtual")
    virtual = {without_place(case): figures for case, figures in virtual.items()}
    print(f"\nReal ranks beside the virtual ones of {path}")
    print(f"{'figure':<23}{'cases':>6}{'real / virtual':>16}{'least ... most':>18}")
    for name in RATIOS + DIFFERENCES:
        pairs = [(figures[name]["value"], virtual[without_place(case)][name]["value"]) for case, figures in found.items()
                 if keys_of(case).get("ranks") == "real" and name in figures
                 and name in virtual.get(without_place(case), {})]
        if not pairs:
            print(f"{name:<23}{0:>6}{'-':>16}{'-':>18}")
            continue
        is_ratio = name in RATIOS
        apart = [real / other if is_ratio else real - other for real, other in pairs]
        middle = geomean(apart) if is_ratio else statistics.fmean(apart)
        print(f"{name:<23}{len(pairs):>6}{middle:>16.3f}{f'{min(apart):.3f} ... {max(apart):.3f}':>18}"
              + ("" if is_ratio else "  real - virtual"))


def show_devices(lines, devices):
    commits = sorted({line["commit"] for line in lines})
    print(f"== {devices} devices, commit {', '.join(commits) or '-'}; {len(lines)} lines")
    found = figures_of(lines)
    cases = Cases(found)
    if cases.rows:
        cases.table("Speed-up of planned over fixed, and its bound (fixed / second ideal)", "skew_speedup", "bound")
    show_paper(cases)
    if cases.rows:
        cases.table("Share of balanced routing (ideal / planned), and of equal ranks (second ideal / planned)",
                    "balanced_fraction", "ideal_fraction", 3)
        cases.table("Pipelined over staged, and hidden fraction of the transfer of weights", "pipelined_over_staged",
                    "hidden_fraction", 3)
        show_spread(cases)
    show_one_by_one("Head and planner, 8 ranks", {case: figures for case, figures in found.items()
                                                  if keys_of(case).get("P") == str(RANKS)},
                    ("head_us", "plan_kernel_us", "plan_host_us"))
    show_one_by_one("Stock PyTorch and NCCL / ours", found, ("stock_speedup",))
    show_tests(found)
    show_memory(found)
    return found


def show(path, virtual):
    """All tables of the file `path`, by number of devices; beside the virtual ranks of the file `virtual`, if named."""
    groups = by_devices(read_lines(path))
    if not groups:
        print(f"{path}: no results")
    for devices in sorted(groups, reverse=True):
        found = show_devices(groups[devices], devices)
        if virtual:
            show_virtual(found, virtual)
        print()
