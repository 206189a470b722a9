"""Every rule is fed files that break it, and neighbours that do not."""

import unittest

import links
import rules
from source_tree import Source

PLAN_H = "src/megaflux/plan/x.h"
LONG_BODY = "  int x = 0;\n" * 60


def include(path):
    return f'#include "{path}"\n'


# rule: (what breaks it, what stands beside it and is right), each [(path, text)...]
CASES = {
    rules.include_direction: (
        [
            ("src/megaflux/moe/x.h", include("megaflux/plan/planner.h")),
            (PLAN_H, include("megaflux/comm/wait.h")),
            (PLAN_H, include("megaflux/trace/record.h")),
            ("src/megaflux/comm/x.cpp", include("megaflux/plan/planner.h")),
            ("src/megaflux/ops/x.cpp", include("megaflux/head/head.h")),
            ("src/megaflux/ops/x.cpp", include("megaflux/plan/planner.h")),
            ("src/megaflux/layer/cpu/x.cpp", include("megaflux/plan/planner.h")),
            ("src/megaflux/layer/cpu/x.cpp", include("megaflux/head/head.h")),
            ("src/megaflux/session/x.cpp", include("megaflux/megaflux.h")),
            ("src/megaflux/session/x.cpp", include("tools/cli/options.h")),
            ("src/megaflux/attic/x.cpp", ""),
        ],
        [
            ("src/megaflux/megaflux.cpp", include("megaflux/plan/planner.h")),
            ("src/megaflux/head/x.cpp", include("megaflux/plan/planner.h") + include("megaflux/comm/a.h")),
            (PLAN_H, "// not " + include("megaflux/comm/wait.h") + include("megaflux/plan/cost_model.h")),
            ("tests/plan/x.cpp", include("megaflux/session/session.h")),
        ],
    ),
    rules.executors_stay_apart: (
        [("src/megaflux/layer/cpu/x.cpp", include("megaflux/layer/reference/reference.h"))],
        [("src/megaflux/layer/cpu/x.cpp", include("megaflux/layer/rows.h"))],
    ),
    rules.only_head_joins_plan_and_comm: (
        [
            (
                "src/megaflux/ops/a.cpp",
                include("megaflux/plan/planner.h") + include("megaflux/comm/wait.h"),
            )
        ],
        [("src/megaflux/head/a.cpp", include("megaflux/plan/p.h") + include("megaflux/comm/wait.h"))],
    ),
    rules.foreign_headers: (
        [
            (PLAN_H, "#include <cuda_runtime.h>\n"),
            (PLAN_H, "#include <cub/cub.cuh>\n"),
            ("src/megaflux/layer/mega/x_cuda.h", "#include <nccl.h>\n"),
            ("src/megaflux/moe/x.cpp", "#include <nlohmann/json.hpp>\n"),
            ("src/megaflux/moe/x.cpp", "#include <fmt/core.h>\n"),
            ("src/megaflux/layer/reference/x.cpp", "#include <oneapi/dnnl/dnnl.hpp>\n"),
            ("src/megaflux/layer/cpu/x.cpp", "#include <zip.h>\n"),
            ("tools/cli/x.cpp", "#include <zlib.h>\n"),
            ("tools/cli/x.cpp", "#include <torch/torch.h>\n"),
            ("src/megaflux/moe/x.cpp", "#include <gtest/gtest.h>\n"),
        ],
        [
            ("src/megaflux/plan/x_cuda.cu", "#include <cuda_runtime.h>\n"),
            ("src/megaflux/comm/nccl_module_cuda.h", "#include <nccl.h>\n"),
            ("src/megaflux/trace/x.cpp", "#include <nlohmann/json.hpp>\n#include <zip.h>\n"),
            ("src/megaflux/layer/cpu/gemm.cpp", "#include <oneapi/dnnl/dnnl.hpp>\n"),
        ],
    ),
    rules.cuda_headers_stay_in_cuda_files: (
        [(PLAN_H, include("megaflux/plan/search_device.cuh"))],
        [("src/megaflux/plan/x_cuda.h", include("megaflux/plan/search_device.cuh"))],
    ),
    rules.no_environment: (
        [("src/megaflux/base/x.cpp", 'auto p = std::getenv("X");')],
        [("src/megaflux/base/x.cpp", "// never getenv"), ("tools/cli/x.cpp", 'getenv("NO_COLOR")')],
    ),
    rules.path_names: (
        [
            ("src/megaflux/base/string_utils.h", ""),
            ("src/megaflux/common/x.h", ""),
            ("tests/plan/planner_v2.cpp", ""),
            ("src/megaflux/plan/fast_search.h", ""),
        ],
        [("docs/news.md", ""), ("src/megaflux/base/math.h", "")],
    ),
    rules.type_and_function_names: (
        [
            (PLAN_H, "class SlotManager {"),
            (PLAN_H, "enum class PlannerV2 {"),
            (PLAN_H, "namespace utils {"),
            (PLAN_H, "int fast_search(int x);"),
            (PLAN_H, "using LegacyPlan = Plan;"),
        ],
        [
            (PLAN_H, "auto* x = new Plan(y); std::common_reference(x); void* operator new(size_t);"),
            (PLAN_H, "int64_t least_common_finish(int x);"),
            (PLAN_H, '// class Manager\nauto s = "fast_search(";'),
        ],
    ),
    rules.one_word_per_idea: (
        [(PLAN_H, "int home_rank;"), (PLAN_H, "bool is_redundant;"), (PLAN_H, "int kMasterRank;")],
        [(PLAN_H, "int owner; // once called home rank"), (PLAN_H, "int homely, chrome;")],
    ),
    rules.file_length: (
        [("src/megaflux/plan/a.cpp", "x;\n" * 601), ("src/megaflux/plan/b.cpp", "x;\n" * 401)],
        [
            ("src/megaflux/plan/c.cpp", "x;\n" * 400),
            ("src/megaflux/plan/d.cpp", "x;\n" * 401),
            ("docs/decisions/0009-long.md", "src/megaflux/plan/d.cpp is one table."),
        ],
    ),
    rules.function_length: (
        [
            ("src/megaflux/plan/a.cpp", "namespace megaflux {\nvoid f(int a,\n       int b) {\n" + LONG_BODY + "}\n}\n"),
            ("src/megaflux/plan/b.h", "class A {\n  void f() {\n" + "  " * 2 + "x;\n" * 1 + "    y;\n" * 60 + "  }\n};\n"),
            ("tests/plan/c.cpp", "TEST(A, B) {\n" + LONG_BODY * 2 + "}\n"),
        ],
        [
            ("src/megaflux/plan/a.cpp", "void f() {\n" + "  int x = 0;\n" * 58 + "}\n"),
            ("src/megaflux/plan/b.h", "class A {\n" + "  void f(int x);\n" * 100 + "};\n"),
            ("src/megaflux/plan/c.cpp", "const int kTable[] = {\n" + "  1,\n" * 100 + "};\n"),
        ],
    ),
    rules.parameter_count: (
        [
            (PLAN_H, "void f(int a, int b, int c,\n       int d, int e, int f, int g);\n"),
            (PLAN_H, "class A {\n  static A make(int a, int b, int c, int d, int e, int f, int g);\n};\n"),
            (
                "src/megaflux/plan/x_device.cuh",
                "__device__ void f(int a, int b, int c, int d, int e, int f, int g) {}\n",
            ),
        ],
        [(PLAN_H, "std::map<int, int> f(int a, std::map<int, int> b, int c, int d, int e, int f);\n")],
    ),
    rules.folder_size: (
        [(f"src/other/{n}.cpp", "") for n in range(16)],
        [(f"src/megaflux/plan/{n}.cpp", "") for n in range(16)],
    ),
    rules.no_open_ends: (
        [("src/megaflux/plan/a.cpp", "// TO" + "DO: later")],
        [("src/megaflux/plan/a.cpp", "// to do is to be")],
    ),
    rules.page_text_is_text: (
        [
            ("tools/viewer/page/a.js", "node.innerHTML = name;"),
            ("tools/viewer/page/a.js", "d3.select(node).html(name)"),
            ("tools/viewer/page/a.js", "new Function(name)"),
            ("tools/viewer/page/a.js", "fetch(address)"),
            ("tools/viewer/page/a.html", "<iframe srcdoc='x'>"),
        ],
        [
            ("tools/viewer/page/a.js", "node.textContent = name; new HTMLElement(); evaluated(prefetched)"),
            ("tests/viewer/page/a.js", "fetch(address)"),
        ],
    ),
    rules.header_opening: (
        [(PLAN_H, "#pragma once\n"), (PLAN_H, "// Contract.\n#ifndef A\n")],
        [
            (PLAN_H, "// Contract.\n#pragma once\n"),
            (
                "src/megaflux/megaflux.h",
                "/* Contract. */\n#ifndef A_H\n#define A_H\n#ifdef __cplusplus\n#endif\n#endif\n",
            ),
        ],
    ),
}


class EveryRule(unittest.TestCase):
    RULES = rules.RULES
    CASES = CASES

    def test_has_a_case(self):
        self.assertEqual({rule.__name__ for rule in self.RULES}, {rule.__name__ for rule in self.CASES})

    def test_catches_what_breaks_it(self):
        for rule, (broken, _) in self.CASES.items():
            if rule is rules.folder_size:
                self.assertTrue(rule([Source(*file) for file in broken]))
                continue
            for file in broken:
                with self.subTest(rule=rule.__name__, file=file[0], text=file[1][:60]):
                    self.assertTrue(rule([Source(*file)]))

    def test_lets_its_neighbours_pass(self):
        for rule, (_, right) in self.CASES.items():
            with self.subTest(rule=rule.__name__):
                self.assertEqual([], rule([Source(*file) for file in right]))


class Findings(unittest.TestCase):
    def test_name_the_line(self):
        source = Source(PLAN_H, "// Contract.\n#pragma once\n" + include("megaflux/comm/wait.h"))
        self.assertTrue(rules.include_direction([source])[0].startswith(f"{PLAN_H}:3:"))

    def test_lines_survive_comments_and_literals(self):
        source = Source(PLAN_H, '/* a\n b */ auto s = R"(x\ny)"; int n = 1\'000;\nint home_rank;\n')
        self.assertTrue(rules.one_word_per_idea([source])[0].startswith(f"{PLAN_H}:4:"))


class Links(unittest.TestCase):
    FILES = {"README.md": "# Title\n[a](docs/a.md#two-words)\n", "docs/a.md": "## Two `words`\n"}

    def broken(self, text):
        return links.broken_links([Source(p, t) for p, t in {**self.FILES, "x.md": text}.items()], {"LICENSE"})

    def test_good_links_pass(self):
        good = "[a](docs/a.md) [b](README.md#title) [c](LICENSE) [d](docs) [e](https://x.y/z) [f](#here)\n# Here\n"
        self.assertEqual([], self.broken(good + "```\n[no](link)\n```\n`[no](link)`\n"))

    def test_broken_links_are_caught(self):
        for target in ("docs/b.md", "docs/a.md#three", "#nowhere", "../outside.md"):
            with self.subTest(target=target):
                self.assertEqual(1, len(self.broken(f"line\n[x]({target})\n")))


if __name__ == "__main__":
    unittest.main()
