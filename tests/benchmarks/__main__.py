"""`python -m tests.benchmarks [AREA …]` prints a table of ratios, each taken in one run on this machine."""

import importlib
import os
import sys

AREAS = (
    "platform_start",
    "commands",
    "policy",
    "account",
    "default_tags",
    "throughput",
    "flood",
    "growth",
    "screens",
    "editor",
    "peer_screens",
    "many_screens",
    "memory",
)


def main() -> int:
    # Programs that recompile themselves at each start would be measured as slower than a user has them.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    missed = 0
    for area in sys.argv[1:] or AREAS:
        for line in importlib.import_module(f"tests.benchmarks.{area}").run():
            print(line, flush=True)
            missed += not line.holds
    print(f"{missed} promises missed" if missed else "every promise holds")
    return min(missed, 1)


raise SystemExit(main())
