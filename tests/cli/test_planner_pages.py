"""The worked examples of docs/planners are what the program says.

A fenced block of kind `example` holds lines KEY VALUE: `loads` (a CSV, lines separated by /), files (`history`, `owners`,
`base`, `speed`), `options` of `megaflux plan`, and after them members of its JSON that must have this value. `replica expert E
on rank R, N rows` is one of the plan's; with any of them all are listed, unless `replicas` is there too. A blank line begins a
further plan of the loads before it.
"""

import re


from program import SOURCE_DIR, ProgramTest

PAGES = SOURCE_DIR / "docs" / "planners"
PLANNERS = ["megaflux", "paper", "quota", "fixed", "ultraep", "eplb", "lplb", "llep", "echo",
            "moonep", "broadcast"]
BLOCK = re.compile(r"^```example\n(.*?)^```", re.MULTILINE | re.DOTALL)
REPLICA = re.compile(r"expert (\d+) on rank (\d+), (\d+) rows$")
FILES = {"history": None, "owners": "--owners", "base": "--base-blocks", "speed": "--speed"}
# What a page says besides its examples.
HEADINGS = ["## Where it comes from", "## How to run it", "## Weaknesses"]


class Example:
    def __init__(self, loads, files):
        self.loads, self.files = loads, files
        self.options, self.figures, self.replicas = None, {}, []


def examples_of(text):
    """The plans of every block, in order."""
    for block in BLOCK.findall(text):
        loads = None
        for part in block.strip().split("\n\n"):
            example = Example(loads, {})
            for line in part.splitlines():
                key, value = line.split(None, 1)
                if key == "loads":
                    loads = example.loads = value.replace(" / ", "\n")
                elif key in FILES:
                    example.files[key] = value
                elif key == "options":
                    example.options = value.split()
                elif key == "replica":
                    example.replicas.append(tuple(map(int, REPLICA.match(value).groups())))
                else:
                    example.figures[key] = value
            yield example


class PlannerPages(ProgramTest):
    def check(self, example):
        loads = self.write("loads.csv", example.loads + "\n")
        options = list(example.options)
        for name, text in example.files.items():
            path = self.write(name + ".csv", text + "\n")
            options += [FILES[name], path] if FILES[name] else ["--rival", f"{name}={path}"]
        plan = self.json("plan", loads, *options)
        for key, text in example.figures.items():
            value = plan[key]
            if isinstance(value, list):
                self.assertEqual(text, ",".join(map(str, value)), key)
            elif isinstance(value, float):
                places = len(text.partition(".")[2])
                self.assertEqual(text, f"{value:.{places}f}", key)
            else:
                self.assertEqual(text, str(value), key)
        found = [(i["expert"], i["rank"], i["rows"]) for i in plan["instances"] if i["slot"] >= 0]
        if example.replicas and "replicas" not in example.figures:
            self.assertEqual(sorted(example.replicas), sorted(found))
        for replica in example.replicas:
            self.assertIn(replica, found)

    def test_every_planner_has_a_page(self):
        self.assertEqual(sorted(page.stem for page in PAGES.glob("*.md")), sorted(PLANNERS))
        entry = (SOURCE_DIR / "docs" / "planners.md").read_text()
        for planner in PLANNERS:
            with self.subTest(planner=planner):
                self.assertTrue(f"(planners/{planner}.md)" in entry, "no link from docs/planners.md")
                text = (PAGES / f"{planner}.md").read_text()
                for heading in HEADINGS:
                    self.assertTrue(heading in text, heading)

    def test_the_examples_are_what_the_program_says(self):
        num_checked = 0
        for path in [SOURCE_DIR / "docs" / "planners.md", *sorted(PAGES.glob("*.md"))]:
            examples = list(examples_of(path.read_text()))
            if path.parent == PAGES:
                self.assertTrue(examples, f"{path.name} has no example")
            for example in examples:
                with self.subTest(page=path.name, options=" ".join(example.options)):
                    self.assertTrue(example.figures or example.replicas)
                    self.check(example)
                    num_checked += 1
        self.assertGreater(num_checked, 20)

    def test_a_wrong_figure_is_noticed(self):
        example = next(examples_of("```example\nloads 4,0\noptions --ranks 2 --block-rows 1\n"
                                   "max 3\n```\n"))
        with self.assertRaises(AssertionError):
            self.check(example)

    def test_the_commands_of_the_pages_run(self):
        for path in sorted(PAGES.glob("*.md")):
            for line in re.findall(r"^    megaflux (.+)$", path.read_text(), re.MULTILINE):
                with self.subTest(page=path.name, command=line):
                    history = self.write("earlier.csv", ",".join(["1"] * 64) + "\n")
                    words = line.replace("earlier.csv", str(history)).split()
                    self.ok(*words, cwd=SOURCE_DIR)
