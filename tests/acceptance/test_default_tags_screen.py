"""Default tags in a real terminal: edited, previewed, saved and applied over the large world, whatever is killed."""

import json
import re
import sqlite3
import sys
import time
from collections import Counter
from typing import Any

import pytest

from service.default_tags.outcome import examined_kinds, plan_add
from tests.acceptance.people import WEB_SHOP
from tests.homes import Home
from tests.terminal import Program

pytestmark = pytest.mark.slow

COLUMNS, ROWS = 120, 36
TAG = {"audit-scope": "full/2026"}


class Screens:
    """The program on a terminal of its own, driven as a person would."""

    def __init__(self, home: Home) -> None:
        command = [sys.executable, "-m", "tui"]
        environment = home.environment({"COLORTERM": "truecolor"})
        self.program = Program(command, COLUMNS, ROWS, env=environment, inherit=False)

    def press(self, *keys: str) -> None:
        self.program.press(*keys)

    def type(self, words: str) -> None:
        self.program.write(words.encode())
        self.program.until_quiet(0.2, 3)

    def expect(self, *words: str, seconds: float = 60) -> str:
        for word in words:
            self.program.wait_for(word, seconds)
        return self.program.text

    def answer(self, question: str, key: str) -> None:
        """A question, once it listens, and a deliberate answer."""
        self.expect(question)
        self.program.until_quiet(1.0, 4)
        self.press(key)

    def quit(self) -> None:
        """Leave; what goes on in the platform goes on."""
        self.press("q")
        assert self.program.wait_end() == 0


def looked_at(home: Home, tenant_id: str, tags: dict[str, str]) -> tuple[Counter[str], dict[str, dict[str, str]]]:
    """What an apply has to do by the rules, resource by resource, and the tags there are: a scan of the database."""
    with sqlite3.connect(f"file:{home.platform_dir / 'platform.db'}?mode=ro", uri=True, timeout=30) as database:
        rows = database.execute(
            "SELECT id, kind, state, tags, relations FROM resources WHERE tenant_id = ?", (tenant_id,)
        ).fetchall()
        (told,) = database.execute("SELECT value FROM platform_state WHERE name = 'failing_listings'").fetchone()
    failing = {one["kind"] for one in json.loads(told) if one["tenantId"] == tenant_id}
    kinds = {kind.name: kind for kind in examined_kinds() if kind.name not in failing}
    found = Counter(failed=len(failing))  # a type that cannot be listed is one failure
    present: dict[str, dict[str, str]] = {}
    for resource_id, kind, state, own, relations in rows:
        present[resource_id] = json.loads(own)
        if kind in kinds:
            found[plan_add(kinds[kind], state, present[resource_id], json.loads(relations or "{}"), tags).what] += 1
    return found, present


def counts_of(text: str) -> dict[str, int]:
    """The counts that stand above a finished run."""
    told = re.search(r"([\d,]+) updated · ([\d,]+) unchanged · ([\d,]+) skipped · ([\d,]+) failed", text)
    assert told is not None, text
    numbers = [int(number.replace(",", "")) for number in told.groups()]
    return dict(zip(("updated", "unchanged", "skipped", "failed"), numbers, strict=True))


def in_use(home: Home) -> dict[str, Any]:
    """The tenant in use."""
    found: dict[str, Any] = home.json("tenant", "current")
    return found


def story(home: Home) -> None:
    """A tag is added, tried, saved and applied; the platform is killed and the program closed meanwhile."""
    tenant_id = in_use(home)["id"]
    stored: dict[str, str] = home.json("tenant", "default-tags", "get")
    wanted = stored | TAG
    expected, before = looked_at(home, tenant_id, wanted)

    screens = Screens(home)
    screens.expect("Tenants", "connected")
    screens.type(":default-tags\r")
    screens.expect(f"{len(stored)}/10 tags")
    screens.press("n")
    screens.expect("New tag in", "0/64 bytes")
    screens.type("audit-scope=full/2026\r")
    screens.expect("+ audit-scope", "Not saved")
    screens.press("p")
    screens.expect("by the unsaved draft", f"{expected['updated']:,} would change")
    screens.press("escape", "w")
    screens.answer("+ audit-scope = full/2026", "y")
    screens.expect(f"{len(wanted)}/10 tags", "Saved the default tags")
    assert home.json("tenant", "default-tags", "get") == wanted
    screens.press("a")
    screens.expect(f"{expected['updated']:,} of")
    screens.answer("Apply default tags?", "y")
    screens.expect("◐ applying", "started by")

    home.kill_platform()
    screens.program.until_quiet(0.5, 3)
    screens.quit()
    screens = Screens(home)
    screens.expect("◐ applying")
    home.kill_platform()
    screens.type(":apply\r")
    text = screens.expect("✓ applied", seconds=180)
    assert counts_of(text) == {what: expected[what] for what in ("updated", "unchanged", "skipped", "failed")}
    screens.quit()

    left, after = looked_at(home, tenant_id, wanted)
    assert left["updated"] == 0
    changed = 0
    for resource_id, tags in before.items():
        assert {key: value for key, value in after[resource_id].items() if key in tags} == tags
        added = {key: value for key, value in after[resource_id].items() if key not in tags}
        assert all(wanted[key] == value for key, value in added.items())
        changed += bool(added)
    assert changed == expected["updated"]
    (run,) = home.json("tenant", "default-tags", "history")["runs"]
    assert run["summary"]["updated"] == expected["updated"]


@pytest.mark.slow
def test_an_apply_survives_the_platform_and_the_program(demo: Home) -> None:
    demo.variables["FROST_PLATFORM_APPLY_PACE"] = "0.25"
    assert in_use(demo)["id"] == WEB_SHOP
    story(demo)


@pytest.mark.slow
def test_an_apply_over_the_large_world_survives_the_platform_and_the_program(home: Home) -> None:
    home.variables |= {"FROST_PLATFORM_WORLD": "large", "FROST_PLATFORM_APPLY_PACE": "0.4"}
    begun = time.monotonic()
    while home.frost("whoami", timeout=120).code != 0:  # the world takes its time to be made
        assert time.monotonic() - begun < 180
    (large,) = [one for one in home.json("tenant", "list", "--all")["items"] if one["displayName"] == "Warehouse"]
    assert home.frost("tenant", "use", large["id"]).code == 0
    story(home)


def test_an_apply_that_is_over_leaves_an_idle_screen_that_writes_nothing(demo_slow: Home) -> None:
    assert demo_slow.frost("tenant", "default-tags", "apply", "--yes").code == 0
    screens = Screens(demo_slow)
    screens.expect("Tenants", "connected")
    screens.type(":apply\r")
    screens.expect("✓ applied")
    screens.program.until_quiet(2.5, 15)
    mark = len(screens.program.chunks)
    until = time.monotonic() + 4
    while time.monotonic() < until:
        screens.program.pump(0.5)
    assert sum(len(data) for _, data in screens.program.chunks[mark:]) == 0
    screens.quit()
