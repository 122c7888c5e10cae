"""`python -m tests.benchmarks [AREA …]` prints a table of ratios, each taken in one run on this machine."""

import argparse
import importlib
import os
import subprocess

from tests.benchmarks.settings import POSTGRESQL, SQLITE, settings

AREAS = (
    "platform_start",
    "commands",
    "policy",
    "account",
    "default_tags",
    "request_path",
    "revocations",
    "moto_requests",
    "flood",
    "growth",
    "idle",
    "screens",
    "screen_work",
    "editor",
    "peer_screens",
    "many_screens",
    "memory",
)
DATABASES = {"sqlite": (SQLITE,), "postgresql": (POSTGRESQL,), "both": (SQLITE, POSTGRESQL)}


def caption() -> str:
    """Name the commit that is measured, for the figures in docs/benchmarks.md."""
    command = ["git", "describe", "--always", "--abbrev=10", "--exclude=*", "--dirty=, with changes"]
    commit = subprocess.run(command, capture_output=True, text=True).stdout.strip()
    return f"Measured at commit {commit or 'unknown'}."


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description="Measure; docs/benchmarks.md")
    parser.add_argument(
        "areas", nargs="*", metavar="AREA", help=f"{', '.join(AREAS)}; profile; default: all but profile"
    )
    parser.add_argument(
        "--seconds", type=float, default=settings.seconds, help="of one measurement of the request path"
    )
    parser.add_argument("--rounds", type=int, default=settings.rounds, help="measurements of each side of a ratio")
    parser.add_argument("--database", choices=DATABASES, default="both", help="of the request path; default both")
    parser.add_argument("--smallest", action="store_true", help="only check that the areas run (screens, memory)")
    parser.add_argument("--markdown", action="store_true", help="print rows of the table in docs/benchmarks.md")
    flags = parser.parse_args()
    settings.is_smallest = flags.smallest
    settings.seconds, settings.rounds, settings.databases = flags.seconds, flags.rounds, DATABASES[flags.database]
    # Programs that recompile themselves at each start would be measured as slower than a user has them.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    if flags.markdown:
        print(caption(), end="\n\n")
    missed = 0
    for area in flags.areas or AREAS:
        for line in importlib.import_module(f"tests.benchmarks.{area}").run():
            print(line.row() if flags.markdown else line, flush=True)
            missed += not line.holds
    print(f"{missed} goals missed" if missed else "every goal reached")
    return 0 if flags.smallest else min(missed, 1)


raise SystemExit(main())
