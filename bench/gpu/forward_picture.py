"""Draws CTAs of a timeline that forward_trace has written, as an SVG.

    forward_picture.py TRACE.json OUT.svg --ctas 0 1 40 --end 400

A row a role of a CTA, microseconds from left to right. Neighbouring spans of one kind become one, so that the picture stays
small. Standard library only.
"""
import argparse
import json
import pathlib
import sys
from collections import defaultdict

COLOURS = {
    "bring": ("rows", "#4c9f70"), "w1": ("W1 of replicas", "#c9822b"), "w2": ("W2 of replicas", "#e0b04a"),
    "sum": ("sums and their waits", "#8a6fb0"), "await": ("waits for inputs", "#d8d8d8"), "load": ("loads", "#a9c4e4"),
    "multiply fc1": ("FC1", "#2f6db5"), "multiply fc2": ("FC2", "#1b9aaa"), "finish": ("SwiGLU, rounding", "#e4572e"),
    "store": ("stores", "#b9b9d6"),
}
LANES = ("comm", "producer", "math 0", "math 1", "storer")
ROW, GAP, LEFT, WIDTH, TOP = 13, 12, 110, 900, 40
STEPS, MOST_STEPS = (10, 20, 50, 100, 200, 500, 1000, 2000, 5000), 12  # of the axis, in microseconds


def kind_of(name):
    words = name.split()
    return " ".join(words[:2]) if words[0] == "multiply" else words[0]


def merged(spans):
    """[kind, begin, end] of one lane, neighbours of a kind together; a producer's waits lie inside nothing else."""
    runs = []
    for begin, end, kind in sorted(spans):
        if runs and runs[-1][0] == kind and begin - runs[-1][2] < 0.7:
            runs[-1][2] = max(end, runs[-1][2])
        else:
            runs.append([kind, begin, end])
    return runs


def spans_of(events, ctas):
    """Spans of a lane of a CTA, {(cta, lane): [(begin, end, kind)]}."""
    lanes, names = defaultdict(list), {}
    for event in events:
        if event["ph"] == "M" and event["name"] == "thread_name":
            names[event["pid"], event["tid"]] = event["args"]["name"]
    for event in events:
        if event["ph"] == "X" and event["pid"] in ctas:
            lane = names[event["pid"], event["tid"]]
            lanes[event["pid"], lane].append((event["ts"], event["ts"] + event["dur"], kind_of(event["name"])))
    return lanes


def read(path, ctas):
    try:
        with open(path, encoding="utf-8") as file:
            lanes = spans_of(json.load(file)["traceEvents"], ctas)
    except OSError as error:
        sys.exit(f"forward_picture.py: {path}: {error.strerror}")
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        sys.exit(f"forward_picture.py: {path}: no timeline of forward_trace: {error!r}")
    missing = ctas - {cta for cta, _ in lanes}
    if missing:
        sys.exit(f"forward_picture.py: --ctas: {path} has no spans of {', '.join(map(str, sorted(missing)))}")
    return lanes


def draw(lanes, ctas, end):
    scale = WIDTH / end
    out, used, y = [], set(), TOP
    for cta in ctas:
        out.append(f'<text x="4" y="{y + ROW - 3}" font-weight="bold">CTA {cta}</text>')
        for lane in LANES:
            out.append(f'<text x="{LEFT - 6}" y="{y + ROW - 3}" text-anchor="end">{lane}</text>')
            for kind, begin, stop in merged(lanes[cta, lane]):
                if begin >= end or kind not in COLOURS:
                    continue
                used.add(kind)
                width = max((min(stop, end) - begin) * scale, 0.4)
                out.append(f'<rect x="{LEFT + begin * scale:.1f}" y="{y}" width="{width:.1f}" height="{ROW - 2}" '
                           f'fill="{COLOURS[kind][1]}"/>')
            y += ROW
        y += GAP
    return out, used, y


def axis(end, height):
    step = next(s for s in STEPS if end / s <= MOST_STEPS)
    for us in range(0, int(end) + 1, step):
        x = LEFT + us * WIDTH / end
        yield f'<line x1="{x:.1f}" y1="{TOP - 6}" x2="{x:.1f}" y2="{height - 14}" stroke="#eee"/>'
        yield f'<text x="{x:.1f}" y="{height - 3}" text-anchor="middle">{us} us</text>'


def legend(used):
    x = LEFT
    for kind, (name, colour) in COLOURS.items():
        if kind in used:
            yield f'<rect x="{x}" y="12" width="10" height="10" fill="{colour}"/><text x="{x + 14}" y="21">{name}</text>'
            x += 26 + 6.4 * len(name)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trace")
    parser.add_argument("out")
    parser.add_argument("--ctas", type=int, nargs="+", default=[0])
    parser.add_argument("--end", type=float, required=True, help="microseconds shown")
    args = parser.parse_args()
    if not 0 < args.end <= STEPS[-1] * MOST_STEPS:
        parser.error(f"--end: {args.end:g} is outside (0, {STEPS[-1] * MOST_STEPS}]")
    spans, used, height = draw(read(args.trace, set(args.ctas)), args.ctas, args.end)
    height += 16
    head = (f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 20}" height="{height}" '
            f'font-family="sans-serif" font-size="11"><rect width="100%" height="100%" fill="white"/>')
    body = "\n".join([*axis(args.end, height), *spans, *legend(used)])
    try:
        pathlib.Path(args.out).write_text(f"{head}{body}</svg>\n", encoding="utf-8")
    except OSError as error:
        sys.exit(f"forward_picture.py: {args.out}: {error.strerror}")


if __name__ == "__main__":
    main()
