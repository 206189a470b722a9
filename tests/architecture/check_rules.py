"""Holds the source tree against every rule. Usage: check_rules.py ROOT; exit status 1 on a finding."""

import sys

from cuda_rules import CUDA_RULES
from rules import RULES
from source_tree import read_tree


def main(root):
    sources = read_tree(root)
    rules = RULES + CUDA_RULES
    findings = [f"{finding}  [{rule.__name__}]" for rule in rules for finding in rule(sources)]
    print(*findings, sep="\n")
    print(f"{len(rules)} rules, {len(sources)} files, {len(findings)} findings")
    return 1 if findings or not sources else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
