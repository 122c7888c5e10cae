"""First frame and key to frame through a pty, against well-known programs of the same framework from the registry."""

import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.benchmarks.commands import frost_command, started
from tests.benchmarks.peers import commands_of
from tests.benchmarks.ratios import Line, paired
from tests.benchmarks.screens import frame, key_times


class Peer(NamedTuple):
    """A package, how it is started, what its first frame shows, and two keys that change something there and back."""

    package: str
    words: tuple[str, ...]
    shows: str
    keys: tuple[str, str]


LOG = "LOG"  # stands for the path of a log of a thousand lines
PROGRAMS = (
    Peer("toolong", ("tl", LOG), "entry 1000", ("up", "down")),
    Peer("harlequin", ("harlequin", ":memory:"), "Run Query", ("a", "backspace")),
)


def run() -> Iterator[Line]:
    with started() as home:
        for program in PROGRAMS:
            yield from beside(program, home.environment({"COLORTERM": "truecolor"}))


def beside(program: Peer, env: dict[str, str]) -> Iterator[Line]:
    commands = commands_of(program.package)
    if commands is None:
        return
    ours = [frost_command()]
    with tempfile.TemporaryDirectory(prefix="frost-") as folder:
        log = Path(folder) / "a.log"
        log.write_text("\n".join(f"entry {number}" for number in range(1, 1_001)))
        words = [str(log) if word == LOG else word for word in program.words[1:]]
        theirs, their_env = [str(commands / program.words[0]), *words], {**env, "HOME": folder}
        _, base, first = paired(
            lambda: frame(ours, "Data Lake", env), lambda: frame(theirs, program.shows, their_env), runs=5
        )
        yield Line("screens: first live rows", first, 1, f"{program.package}'s first frame ({base:.0f} ms)")
        mine = statistics.median(key_times(ours, "Data Lake", ("down", "up"), env))
        other = statistics.median(key_times(theirs, program.shows, program.keys, their_env))
    yield Line(f"key to visible change ({mine:.1f} ms)", mine / other, 1.2, f"{program.package} ({other:.1f} ms)")
