"""The rules of CUDA code, one function each, as in rules.py; test_cuda_rules.py feeds each a file that breaks it.

They read text: what a compiler makes of it is checked when it compiles (cmake/ptxas_report.py).
"""

import re

from rules import LIBRARY
from source_tree import line_of

SIGNALS = f"{LIBRARY}/comm/signal_device.cuh"
# Where kernels may stand, and where code for both sides may stand as well.
KERNEL_FOLDERS = (
    f"{LIBRARY}/plan", f"{LIBRARY}/comm", f"{LIBRARY}/head", f"{LIBRARY}/ops", f"{LIBRARY}/session",
    f"{LIBRARY}/layer/staged", f"{LIBRARY}/layer/mega", "tests", "bench", "tools/cli",
)
DEVICE_FOLDERS = KERNEL_FOLDERS + (f"{LIBRARY}/base", f"{LIBRARY}/moe")
# What executors on devices share stands right in it.
SHARED_BY_EXECUTORS = f"{LIBRARY}/layer"


def _found(source, pattern, wrong, is_wrong=lambda match: True):
    """Findings for every match in the source without its comments; inline PTX is a literal and stays."""
    return [
        f"{source.path}:{line_of(source.uncommented, match.start())}: {match.group(0).strip()}: {wrong}"
        for match in pattern.finditer(source.uncommented)
        if is_wrong(match)
    ]


_NON_COHERENT = re.compile(r"\b__ldg\b|\bld\.global(?:\.[\w:]+)*\.nc\b|\b__restrict(?:__)?\b|\bLDG\.E\.CONSTANT\b")


def no_non_coherent_loads(sources):
    """Nothing reads through the non-coherent path, which may miss what the same launch wrote. A const __restrict__
    pointer lets the compiler take that path, so the word is not used at all."""
    return [
        finding
        for source in sources
        if source.is_cuda and source.is_below(LIBRARY)
        for finding in _found(source, _NON_COHERENT, "may load through the non-coherent path")
    ]


_SCOPE = re.compile(
    r"\bthread_scope_\w+|\bscope_(?:cta|cluster|gpu|sys)\b|\b__threadfence(?:_block|_system)?\b"
    r"|\batomic\w+_(?:block|system)\b|\bmembar\.\w+"
    r"|\b(?:ld|st|atom|red|fence)(?:\.[\w:]+)*\.(?:cta|cluster|gpu|sys)\b"
)
# These synchronise a CTA or a cluster with itself through shared memory; they are no signal between ranks.
_OF_SHARED_MEMORY = re.compile(r"mbarrier|fence\.proxy")


def scopes_stand_with_the_signals(sources):
    """Memory scopes are spelled in comm's signal header, once each; everything else says kPeerScope or kRankScope."""
    found = []
    for source in sources:
        if not source.is_cuda or not source.is_below(LIBRARY) or source.path == SIGNALS:
            continue
        lines = source.uncommented.split("\n")
        found += _found(
            source, _SCOPE, f"memory scopes are spelled in {SIGNALS} alone",
            lambda match, s=source, text=lines: not _OF_SHARED_MEMORY.search(
                text[line_of(s.uncommented, match.start()) - 1]),
        )
    return found


_WEAK = re.compile(r"\bthread_scope_(?:block|thread)\b|\bscope_(?:cta|cluster)\b|\.(?:cta|cluster)\b|\bmembar\.cta\b")
_SCOPES = {"kPeerScope": "thread_scope_system", "kRankScope": "thread_scope_device"}


def scopes_are_not_weakened(sources):
    """A peer's word has system scope and a rank's own device scope, for ranks of one device too."""
    found = []
    for source in sources:
        if source.path != SIGNALS:
            continue
        found += _found(source, _WEAK, "no word that another CTA waits for has a scope this narrow")
        for name, scope in _SCOPES.items():
            if not re.search(rf"\b{name}\s*=\s*cuda::{scope}\s*;", source.uncommented):
                found.append(f"{source.path}:1: {name} is not cuda::{scope}")
    return found


_MULTICAST = re.compile(r"\bmultimem\b|\bcuMulticast\w+|\b\w*[mM]ultimem\s*=\s*(?!false)[\w:]+")


def no_multicast(sources):
    """NVLink multicast is not used: a fault in it takes the GPUs of a whole host out of service."""
    return [
        finding
        for source in sources
        if source.is_cpp
        for finding in _found(source, _MULTICAST, "NVLink multicast is not used")
    ]


def cuda_files_have_their_places(sources):
    """Kernels in the rooms that have a device side, code for both sides there, in base and moe and right in layer; names end in
    _cuda.cu, _device.cuh or _kernel.cuh in the library."""
    found = []
    for source in sources:
        if not source.is_cuda:
            continue
        folders = KERNEL_FOLDERS if source.suffix == ".cu" else DEVICE_FOLDERS
        is_shared = source.suffix != ".cu" and source.path.rpartition("/")[0] == SHARED_BY_EXECUTORS
        if not is_shared and not source.is_below(*folders):
            found.append(f"{source.path}:1: no CUDA in this folder; it stands in {', '.join(folders)}")
        if source.is_below(LIBRARY) and not source.path.endswith(
                ("_cuda.cu", "_device.cuh", "_kernel.cuh", "_cuda.h")):
            found.append(f"{source.path}:1: ends in none of _cuda.cu, _device.cuh, _kernel.cuh, _cuda.h")
    return found


_KERNEL = re.compile(r"__global__\s+(?:void\s+|__launch_bounds__\s*\([^()]*(?:\([^()]*\)[^()]*)*\)\s*)+(\w+)\s*\(")


def kernel_names(sources):
    """Kernels end in _kernel."""
    return [
        f"{source.path}:{line_of(source.code, match.start(1))}: {match.group(1)} is a kernel; its name ends in _kernel"
        for source in sources
        if source.is_cuda
        for match in _KERNEL.finditer(source.code)
        if not match.group(1).endswith("_kernel")
    ]


CUDA_RULES = [
    no_non_coherent_loads,
    scopes_stand_with_the_signals,
    scopes_are_not_weakened,
    no_multicast,
    cuda_files_have_their_places,
    kernel_names,
]
