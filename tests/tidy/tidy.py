#!/usr/bin/env python3
"""Holds the house rules: tidy.py RULE... [--root FOLDER]. Exits with 1 if a file breaks one."""

import argparse
import pathlib
import sys

import backend_rules
import build_rules
import column_rules
import include_rules
import text_rules
from sources import Tree

RULES = {
    "layers": include_rules.layers,
    "order": include_rules.order,
    "circles": include_rules.circles,
    "vendor": include_rules.vendor,
    "own_header": include_rules.own_header,
    "once": include_rules.once,
    "expensive": include_rules.expensive,
    "backend_names": backend_rules.backend_names,
    "built": build_rules.built,
    "banned": text_rules.banned,
    "suppressions": text_rules.suppressions,
    "absolute_paths": text_rules.absolute_paths,
    "links": text_rules.links,
    "cited_rules": text_rules.cited_rules,
    "cited_tests": text_rules.cited_tests,
    "needs_root": text_rules.needs_root,
    "tables": text_rules.tables,
    "length": text_rules.length,
    "crowded": text_rules.crowded,
    "columns": column_rules.columns,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rules", nargs="*", metavar="RULE", help=", ".join(RULES) + "; all without any")
    parser.add_argument("--root", default=pathlib.Path(__file__).resolve().parents[2])
    arguments = parser.parse_args()
    unknown = set(arguments.rules) - set(RULES)
    if unknown:
        parser.error(f"unknown rule {', '.join(sorted(unknown))}; there are {', '.join(RULES)}")
    tree = Tree(arguments.root)
    findings = [finding for rule in arguments.rules or RULES for finding in RULES[rule](tree)]
    print("\n".join(findings) if findings else f"{len(tree.paths)} files keep the rules")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
