"""Ctrl-C at random moments of every command that changes something, on a real terminal."""

import random
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from sqlalchemy import func, select

from service.db import tables
from service.db.engine import Database
from tests.acceptance.tagging import whole
from tests.conftest import signed_in
from tests.homes import Home
from tests.hostile.dangling import dangling
from tests.people import AURORA, STAGING
from tests.service.access import KEYS
from tests.terminal import on_terminal

DOCUMENT = '{"schemaVersion":"1","rules":[{"access":"allow","operations":["compute:*"],"targets":["*"]}]}'
# Of each the table whose rows its entries in the audit log must account for.
COMMANDS: dict[str, tuple[str, ...]] = {
    "tenant.create": ("tenant", "create", "--name", "Broken Off {n}", "--organization", AURORA),
    "tenant.rename": ("tenant", "rename", STAGING, "--name", "Staging {n}"),
    "default_tags.update": ("tenant", "default-tags", "set", "--tag", "n=v{n}", "--merge"),
    "default_tags.apply": ("tenant", "default-tags", "apply", "--yes"),
    "api_key.create": ("account", "api-key", "create", "--name", "broken {n}", "--scopes", "compute:read"),
    "api_key.rotate": ("account", "api-key", "rotate", KEYS["terraform"]),
    "group.create": ("iam", "group", "create", "--name", "broken {n}"),
    "group.member.add": ("iam", "group", "member", "add", "{group}", "--type", "api_key", "--id", KEYS["cms"]),
    "policy.create": ("iam", "policy", "create", "--name", "broken {n}", "--document", DOCUMENT),
    "policy.attach": ("iam", "policy", "attach", "{policy}", "--type", "group", "--id", "{group}"),
    "quota_request.create": ("tenant", "quota", "request", "secret", "3{n}", "--reason", "broken", "--yes"),
    "config.set": ("config", "set", "region", "se-sto-{n}"),
    "tenant.use": ("tenant", "use", STAGING),
}
MADE = {"group.create": tables.groups, "policy.create": tables.policies, "api_key.create": tables.api_keys}
ROUNDS = 4
LOADED = "_uuid"
"""A library that the first module of a command loads and Python does not: it shows that the command has begun."""


@pytest.fixture(scope="module")
def home(demo_platform: Path) -> Iterator[Home]:
    with signed_in(demo_platform) as home:
        yield home


def counts(database: Database) -> Counter[str]:
    """Entries of changes that were made, and rows of what some of them make."""
    log = tables.audit_log
    with database.read() as connection:
        done = select(log.c.operation, func.count()).where(log.c.outcome == "done").group_by(log.c.operation)
        numbers = Counter({f"entries {name}": number for name, number in connection.execute(done)})
        for operation, table in MADE.items():
            numbers[f"rows {operation}"] = connection.scalar(select(func.count()).select_from(table)) or 0
    return numbers


@pytest.mark.slow
def test_every_changing_command_broken_off_at_random(home: Home) -> None:
    chance = random.Random(8)
    places = {
        "group": home.json("iam", "group", "create", "--name", "to be filled")["id"],
        "policy": home.json("iam", "policy", "create", "--name", "to be given", "--document", DOCUMENT)["id"],
    }
    database = Database(f"sqlite:///{home.platform_dir / 'platform.db'}")
    before, stopped = counts(database), 0
    for number in range(ROUNDS):
        for operation, words in COMMANDS.items():
            filled = [word if word == DOCUMENT else word.format(n=number, **places) for word in words]
            stopped += interrupt(home, operation, filled, chance.uniform(0, 0.5))
    made = counts(database)
    made.subtract(before)
    assert dangling(database) == []
    database.close()
    for operation in MADE:
        assert made[f"rows {operation}"] == made[f"entries {operation}"], operation
    assert stopped > ROUNDS
    assert home.frost("whoami").code == 0  # the configuration file is whole


def interrupt(home: Home, operation: str, words: list[str], moment: float) -> bool:
    """Run a command, press Ctrl-C so many seconds after it has begun; whether it was broken off."""
    program = on_terminal(home, *words, columns=100, rows=20)
    while program.alive and not has_begun(program.pid):
        program.pump(0.002)
    until = time.monotonic() + moment
    while program.alive and (left := until - time.monotonic()) > 0:
        program.pump(left)
    if program.alive:
        program.write(b"\x03")
    ended = program.wait_end()
    shown = program.text
    assert "Traceback" not in shown, (operation, moment, shown)
    assert ended in (0, 1, 5, 6, 130), (operation, moment, ended, shown)
    if ended == 130 and program.raw() != b"^C":  # the terminal's own echo, before anything was written
        assert whole(program, ended), (operation, moment, program.raw()[-300:])
    return ended == 130


def has_begun(pid: int) -> bool:
    """Whether the interpreter is past its own start and frost is loading its commands; or over."""
    process = Path("/proc") / str(pid)
    with suppress(FileNotFoundError, PermissionError):
        # Until it is executed it is a copy of this process, with all that is loaded here.
        executed = b"\0tui\0" in (process / "cmdline").read_bytes()
        return executed and f"/{LOADED}." in (process / "maps").read_text()
    return True
