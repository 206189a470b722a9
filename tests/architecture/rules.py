"""The rules of the tree, one function each: sources -> ["path:line: what is wrong"].

ARCHITECTURE.md says why each rule exists; test_rules.py feeds every one of them a file that breaks it.
"""

import re
from collections import Counter
from pathlib import PurePosixPath

from source_tree import CODE_SUFFIXES, line_of

LIBRARY = "src/megaflux"

# A room sees itself and rooms of a lower level. Files right in src/megaflux are the C ABI, above all rooms.
ROOM_LEVEL = {
    "base": 0,
    "moe": 1,
    "plan": 2,
    "comm": 2,
    "trace": 2,
    "head": 3,
    "ops": 3,
    "layer": 4,
    "session": 5,
    "": 6,
}
# Levels would allow these; the flow does not. Executors take a Plan or a WorkList as data.
NEVER_SEES = {"layer": {"plan", "head", "trace"}, "ops": {"plan"}}

# Where foreign headers may be included: (what the include line names, folders, wording).
FOREIGN_HEADERS = [
    (r"nlohmann/", (f"{LIBRARY}/trace", "tools", "tests", "bench"), "nlohmann-json"),
    (r"CLI/|fmt/", ("tools", "tests", "bench"), "CLI11 and fmt"),
    (r"(oneapi/)?dnnl", (f"{LIBRARY}/layer/cpu", "bench"), "oneDNN"),
    (r"nccl", (f"{LIBRARY}/comm",), "NCCL"),
    (r"zip\.h", (f"{LIBRARY}/trace", "tests"), "libzip"),
    (r"zlib\.h", ("tools/viewer", "tests"), "zlib"),
    (r"(torch|ATen|c10|pybind11)/|Python\.h", ("python",), "torch and Python"),
    (r"(gtest|gmock|rapidcheck|benchmark)[/.]", ("tests", "bench"), "test and benchmark frameworks"),
]
CUDA_HEADER = re.compile(r"cuda|cub/|thrust/|cooperative_groups|nv/|mma\.h|nvml")

BANNED_NAMES = {
    "util", "utils", "utility", "common", "misc", "helper", "helpers", "manager", "managers",
    "legacy", "fast", "new", "v2",
}
# Words for ideas that the glossary already names: what to say instead.
SYNONYMS = {
    "master": "owner",
    "slave": "replica",
    "home": "owner",
    "inherent": "owner",
    "redundant": "replica",
    "shadow": "replica",
    "mirror": "replica",
}

FILE_LINES_SOFT = 400
FILE_LINES_HARD = 600
FUNCTION_LINES = 60
TEST_LINES = 120  # case tables, and tests that tell one story
FOLDER_FILES = 15
PARAMETERS = 6


def room_of(path):
    """'plan' for src/megaflux/plan/x.h, '' for src/megaflux/megaflux.h, None outside the library."""
    parts = PurePosixPath(path).parts
    if len(parts) < 3 or "/".join(parts[:2]) != LIBRARY:
        return None
    return parts[2] if len(parts) > 3 else ""


def words_of(name):
    """['num', 'rows'] for num_rows, NumRows, kNumRows and NUM_ROWS."""
    spaced = re.sub(r"([a-z0-9])([A-Z])|([A-Z])(?=[A-Z][a-z])", r"\1\3_\2", name)
    return [word.lower() for word in re.split(r"[^A-Za-z0-9]+", spaced) if word]


def include_direction(sources):
    """Rooms include themselves and lower levels; the library includes nothing from outside src/."""
    found = []
    for source in sources:
        room = room_of(source.path)
        if room is None:
            continue
        if room not in ROOM_LEVEL:
            found.append(f"{source.path}:1: room '{room}' has no level in tests/architecture/rules.py")
            continue
        for line, target in source.includes:
            if re.match(r"(tools|tests|bench|python)/|\.\./", target):
                found.append(f"{source.path}:{line}: the library includes {target}")
            seen = room_of("src/" + target)
            if seen is None or seen == room:
                continue
            if seen in NEVER_SEES.get(room, ()):
                found.append(f"{source.path}:{line}: {room}/ never includes {seen}/")
            elif ROOM_LEVEL.get(seen, 99) >= ROOM_LEVEL[room]:
                found.append(
                    f"{source.path}:{line}: {room or 'C ABI'} (level {ROOM_LEVEL[room]}) includes "
                    f"{seen or 'C ABI'} (level {ROOM_LEVEL.get(seen, '?')})"
                )
    return found


def executors_stay_apart(sources):
    """layer/reference, layer/cpu and later executors share files right in layer/, never each other's."""
    found = []
    for source in sources:
        parts = PurePosixPath(source.path).parts
        if room_of(source.path) != "layer" or len(parts) < 5:
            continue
        for line, target in source.includes:
            other = re.match(r"megaflux/layer/([^/]+)/", target)
            if other and other.group(1) != parts[3]:
                found.append(f"{source.path}:{line}: layer/{parts[3]} includes layer/{other.group(1)}")
    return found


def only_head_joins_plan_and_comm(sources):
    """Below the session, head/ alone includes both plan/ and comm/."""
    rooms = {}
    for source in sources:
        room = room_of(source.path)
        if room not in (None, "", "head", "session"):
            for line, target in source.includes:
                if room_of("src/" + target) in ("plan", "comm"):
                    rooms.setdefault(room, {})[room_of("src/" + target)] = f"{source.path}:{line}"
    return [
        f"{places['comm']}: {room}/ includes comm/ and, at {places['plan']}, plan/"
        for room, places in rooms.items()
        if len({"plan", "comm"} & set(places)) == 2 and room not in ("plan", "comm")
    ]


def foreign_headers(sources):
    """Each dependency shows in the folders that are there for it."""
    found = []
    for source in sources:
        if not source.is_cpp:
            continue
        for line, target in source.includes:
            if CUDA_HEADER.match(target) and not source.is_cuda:
                found.append(f"{source.path}:{line}: {target} outside .cu, .cuh and *_cuda.h")
            for pattern, folders, wording in FOREIGN_HEADERS:
                if re.match(pattern, target) and not source.is_below(*folders):
                    found.append(f"{source.path}:{line}: {wording} ({target}) only in {', '.join(folders)}")
    return found


def cuda_headers_stay_in_cuda_files(sources):
    """A header for g++ alone includes no .cuh and no *_cuda.h."""
    return [
        f"{source.path}:{line}: {target} outside .cu, .cuh and *_cuda.h"
        for source in sources
        if source.is_cpp and not source.is_cuda and source.suffix == ".h"
        for line, target in source.includes
        if target.endswith((".cuh", "_cuda.h"))
    ]


def no_environment(sources):
    """The library reads no environment variables."""
    return [
        f"{source.path}:{line_of(source.code, match.start())}: the library reads the environment"
        for source in sources
        if source.is_cpp and source.is_below(LIBRARY)
        for match in re.finditer(r"\b(secure_getenv|getenv|environ)\b", source.code)
    ]


def path_names(sources):
    """No file or folder is called after a grab bag or after its age."""
    found = []
    for source in sources:
        for word in words_of(source.path):
            if word in BANNED_NAMES:
                found.append(f"{source.path}:1: '{word}' in the path; name what it does")
    return found


_DECLARED = re.compile(
    r"\b(?:class|struct|union|concept|namespace|enum(?:\s+class)?|using)\s+(?:\w+\s+)?(\w+)"
)
_CALLED = re.compile(r"(?<!std::)(?<!operator )\b([A-Za-z_]\w*)\s*\(")


def type_and_function_names(sources):
    """No type or function of ours either; inside a name (least_common_finish) the words mean what they say."""
    found = []
    for source in sources:
        if not source.is_cpp:
            continue
        for pattern in (_DECLARED, _CALLED):
            for match in pattern.finditer(source.code):
                words = words_of(match.group(1))
                for word in {words[0], words[-1]} & BANNED_NAMES if words else ():
                    if match.group(1) == "new":  # the operator
                        continue
                    line = line_of(source.code, match.start(1))
                    found.append(f"{source.path}:{line}: '{word}' in {match.group(1)}; name what it does")
    return found


def one_word_per_idea(sources):
    """Identifiers use the words of docs/glossary.md and no synonyms."""
    found = []
    for source in sources:
        if not source.is_cpp:
            continue
        for match in re.finditer(r"\b[A-Za-z_]\w*\b", source.code):
            for word in set(words_of(match.group(0))) & SYNONYMS.keys():
                line = line_of(source.code, match.start())
                found.append(f"{source.path}:{line}: {match.group(0)}; '{word}' is called {SYNONYMS[word]}")
    return found


def file_length(sources):
    """600 lines at most; above 400 a record in docs/decisions names the file and says why."""
    decisions = "\n".join(s.text for s in sources if s.is_below("docs/decisions"))
    found = []
    for source in sources:
        if source.suffix not in CODE_SUFFIXES:
            continue
        if source.lines > FILE_LINES_HARD:
            found.append(f"{source.path}:{source.lines}: longer than {FILE_LINES_HARD} lines")
        elif source.lines > FILE_LINES_SOFT and source.path not in decisions:
            found.append(
                f"{source.path}:{source.lines}: longer than {FILE_LINES_SOFT} lines, "
                "and docs/decisions does not name it"
            )
    return found


_NO_FUNCTION = re.compile(r"namespace|class|struct|union|enum|extern|template|using|#")


def function_length(sources):
    """60 lines at most, 120 in tests. clang-format puts a body's closing brace below its signature's first letter, so a
    signature and its brace are found by their indentation: 0 at namespace level, 2 inside a class."""
    found = []
    for source in sources:
        if not source.is_cpp:
            continue
        limit = TEST_LINES if source.is_below("tests") else FUNCTION_LINES
        signature = {}  # indentation -> line of the last signature there
        for number, line in enumerate(source.code.split("\n"), 1):
            stripped = line.strip()
            indent = len(line) - len(line.lstrip())
            if not stripped or indent not in (0, 2) or (indent == 2 and 0 in signature):
                continue
            first = signature.pop(indent, None)
            if stripped.startswith("}"):
                length = number - first + 1 if first else 0
                if length > limit:
                    found.append(
                        f"{source.path}:{first}: function of {length} lines; the limit is {limit}"
                    )
            elif "(" in stripped and stripped[-1] not in ";}" and not _NO_FUNCTION.match(stripped):
                signature[indent] = number
    return found


_HEADER_FUNCTION = re.compile(r"^(?: {2})?[\w\[:][^;{}()=#]*?\b(\w+)\(", re.MULTILINE)


def parameter_count(sources):
    """Six parameters at most; more make a struct."""
    found = []
    for source in sources:
        if source.suffix not in (".h", ".cuh") or not source.is_below(LIBRARY, "tools"):
            continue
        for match in _HEADER_FUNCTION.finditer(source.code):
            depth, commas = 1, 0
            for letter in source.code[match.end():]:
                depth += letter in "([{<"
                depth -= letter in ")]}>"
                commas += letter == "," and depth == 1
                if depth == 0:
                    break
            if commas + 1 > PARAMETERS and not match.group(1).startswith("MF_"):
                line = line_of(source.code, match.start(1))
                found.append(f"{source.path}:{line}: {match.group(1)} takes {commas + 1} parameters")
    return found


def folder_size(sources):
    """15 files a folder; a room and its folders may hold more, and so may folders of data."""
    count = Counter(
        str(PurePosixPath(s.path).parent)
        for s in sources
        if s.suffix in CODE_SUFFIXES and s.is_below("src", "tools", "python", "bench")
    )
    return [
        f"{folder}:1: {files} files; the limit is {FOLDER_FILES}"
        for folder, files in sorted(count.items())
        if files > FOLDER_FILES
        and room_of(folder + "/x") not in ROOM_LEVEL
        and not re.match(r"tools/\w+(/|$)", folder)
    ]


def no_open_ends(sources):
    """Nothing is left for later in the code."""
    marks = re.compile(r"\b(TO" r"DO|FIX" r"ME|X" r"XX|HA" r"CK)\b")
    return [
        f"{source.path}:{line_of(source.text, match.start())}: {match.group(0)}"
        for source in sources
        if source.suffix in CODE_SUFFIXES
        for match in marks.finditer(source.text)
    ]


_C_GUARD = re.compile(r"^#ifndef (\w+_H)\n#define \1$", re.MULTILINE)


def header_opening(sources):
    """A header opens with its contract, a comment, and guards itself with #pragma once; one that C includes
    may do so with macros."""
    found = []
    for source in sources:
        if source.suffix not in (".h", ".cuh"):
            continue
        if not re.match(r"\s*(//|/\*)", source.text):
            found.append(f"{source.path}:1: a header opens with a comment, its contract")
        is_guarded = "__cplusplus" in source.text and _C_GUARD.search(source.text)
        if not is_guarded and len(re.findall(r"^#pragma once$", source.text, re.MULTILINE)) != 1:
            found.append(f"{source.path}:1: #pragma once is missing or there twice")
    return found


_TEXT_THAT_RUNS = re.compile(
    r"\b(innerHTML|outerHTML|insertAdjacentHTML|srcdoc|eval|document\.write|createContextualFragment|DOMParser)\b"
    r"|\bnew Function\b|\.html\("
)
_OUTSIDE = re.compile(r"\b(fetch|XMLHttpRequest|WebSocket|EventSource|sendBeacon|importScripts)\b|\bimport\(")


def page_text_is_text(sources):
    """The report's page makes text nodes of what a trace says, and asks for nothing beyond its file."""
    found = []
    for source in sources:
        if source.suffix not in (".js", ".html") or not source.is_below("tools/viewer"):
            continue
        for pattern, wrong in ((_TEXT_THAT_RUNS, "text may run as markup"), (_OUTSIDE, "asks for more than the file")):
            for match in pattern.finditer(source.text):
                line = line_of(source.text, match.start())
                found.append(f"{source.path}:{line}: {match.group(0)}: {wrong}")
    return found


RULES = [
    include_direction,
    executors_stay_apart,
    only_head_joins_plan_and_comm,
    foreign_headers,
    cuda_headers_stay_in_cuda_files,
    no_environment,
    path_names,
    type_and_function_names,
    one_word_per_idea,
    file_length,
    function_length,
    parameter_count,
    folder_size,
    no_open_ends,
    header_opening,
    page_text_is_text,
]
