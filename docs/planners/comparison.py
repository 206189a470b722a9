#!/usr/bin/env python3
"""Rewrites the comparison table of docs/planners.md: every planner over the traces in data/.

Usage, from anywhere: docs/planners/comparison.py build/cpu/bin/megaflux [--cases N] [--print]

Runs `megaflux bench plan` for each planner and setting, one after the other, and puts the table between the two marks, with the
machine, the commit and the command. Takes two minutes or less on one quiet core; --print leaves the page alone.
"""

import argparse
import datetime
import json
import math
import os
import pathlib
import subprocess

SOURCE_DIR = pathlib.Path(__file__).resolve().parents[2]
PAGE = SOURCE_DIR / "docs" / "planners.md"
BEGIN, END = "<!-- comparison: begin -->\n", "<!-- comparison: end -->\n"
PLANNERS = ["megaflux", "megaflux --slack 0.01", "paper", "quota", "ultraep", "eplb", "lplb", "llep", "echo", "moonep",
            "broadcast", "fixed"]
SETTINGS = [(8, 1), (8, 2), (16, 2), (64, 2)]
REPEATS = 3


def percentile(samples, percent):
    """Nearest rank, as `bench plan` counts."""
    ordered = sorted(samples)
    return ordered[max(1, math.ceil(percent / 100 * len(ordered))) - 1]


def measure(program, planner, ranks, slots, cases):
    """The samples of every figure over all traces, and the processor's name."""
    command = [program, "bench", "plan", str(SOURCE_DIR / "data"), "--ranks", str(ranks), "--slots", str(slots), "--cases",
               str(cases), "--repeats", str(REPEATS), "--planner", *planner.split(), "--json", "-"]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    samples, cpu = {}, ""
    for record in map(json.loads, lines):
        samples.setdefault(record["figure"], []).extend(record["samples"])
        cpu = record["cpu"]
    return samples, cpu


def row(planner, samples):
    imbalance = samples["plan_median_imbalance"]
    copies, slots = samples["plan_mean_copies"], samples["plan_max_slots"]
    times = samples["plan_host_us"]
    return (f"| `{planner}` | {percentile(imbalance, 50):.3f} | {percentile(imbalance, 99):.3f} | {max(imbalance):.3f} "
            f"| {sum(copies) / len(copies):.1f} | {max(slots):.0f} | {percentile(times, 50):.0f} "
            f"| {percentile(times, 99):.0f} |")


def commit():
    return subprocess.run(["git", "-C", SOURCE_DIR, "rev-parse", "--short=12", "HEAD"], check=True, capture_output=True,
                          text=True).stdout.strip()


def table(program, cases):
    lines, cpu, num_cases = [], "", 0
    for ranks, slots in SETTINGS:
        lines += ["", f"**P {ranks}, s {slots}**", "",
                  "| planner | median | p99 | max | mean copies | slots a rank | median us | p99 us |",
                  "|---|---|---|---|---|---|---|---|"]
        for planner in PLANNERS:
            samples, cpu = measure(program, planner, ranks, slots, cases)
            num_cases = len(samples["plan_host_us"])
            lines.append(row(planner, samples))
    load, cores = os.getloadavg()[0], os.cpu_count()
    busy = f" The machine was busy (load {load:.0f} on {cores} cores): times are too long." if load > 1.5 else ""
    date = datetime.datetime.now(datetime.timezone.utc).date()
    head = [f"Rows of the slowest rank over the mean (median, p99, max over {num_cases} recorded steps of a layer, 65,536 rows a",
            "rank), replicas that must move, most replicas that a rank needs, and the planner's time on one core. `eplb` and `lplb`",
            "see the step's own loads, which no user of them has, and move owners beside the copies that are counted here; sources",
            "are spread evenly, which is what `broadcast` goes by. `llep` keeps chunks of 1024 rows and does nothing up to 1.3.",
            "Planners in blocks count 128 rows as one, so the last rows of an expert are as good as a block to them.", "",
            f"{cpu}, commit {commit()}, {date}: `docs/planners/comparison.py build/cpu/bin/megaflux --cases {cases}`.{busy}"]
    return "\n".join(head + lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", help="the program megaflux, built for speed")
    parser.add_argument("--cases", type=int, default=40, help="steps and layers drawn from each trace (default 40)")
    parser.add_argument("--print", action="store_true", help="print the table and leave the page as it is")
    options = parser.parse_args()
    text = table(options.program, options.cases)
    if options.print:
        print(text, end="")
        return
    page = PAGE.read_text()
    begin, end = page.index(BEGIN) + len(BEGIN), page.index(END)
    PAGE.write_text(page[:begin] + text + page[end:])


if __name__ == "__main__":
    main()
