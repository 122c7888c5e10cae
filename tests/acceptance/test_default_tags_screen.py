"""Default tags edited, saved and applied in a real terminal, with kills on the way."""

import json
import re
import sqlite3
from collections import Counter

import pytest

from service.default_tags.tag_rules import examined_kinds, plan_add
from tests.acceptance.people import WEB_SHOP
from tests.homes import Home
from tests.terminal import Program, screens

pytestmark = pytest.mark.slow

TAG = {"audit-scope": "full/2026"}


def examined(home: Home, tenant_id: str, tags: dict[str, str]) -> tuple[Counter[str], dict[str, dict[str, str]]]:
    """What an apply has to do by the rules, resource by resource, and the tags there are: a scan of the database."""
    with sqlite3.connect(f"file:{home.platform_dir / 'platform.db'}?mode=ro", uri=True, timeout=30) as database:
        rows = database.execute(
            "SELECT id, kind, state, tags, relations FROM resources WHERE tenant_id = ?", (tenant_id,)
        ).fetchall()
        (failing_listings,) = database.execute(
            "SELECT value FROM platform_state WHERE name = 'failing_listings'"
        ).fetchone()
    failing = {one["kind"] for one in json.loads(failing_listings) if one["tenantId"] == tenant_id}
    kinds = {kind.name: kind for kind in examined_kinds() if kind.name not in failing}
    counts = Counter(failed=len(failing))  # a type that cannot be listed is one failure
    present: dict[str, dict[str, str]] = {}
    for resource_id, kind, state, own, relations in rows:
        present[resource_id] = json.loads(own)
        if kind in kinds:
            counts[plan_add(kinds[kind], state, present[resource_id], json.loads(relations or "{}"), tags).what] += 1
    return counts, present


def counts_of(text: str) -> dict[str, int]:
    """The counts that stand above a finished run."""
    match = re.search(r"([\d,]+) updated · ([\d,]+) unchanged · ([\d,]+) skipped · ([\d,]+) failed", text)
    assert match is not None, text
    numbers = [int(number.replace(",", "")) for number in match.groups()]
    return dict(zip(("updated", "unchanged", "skipped", "failed"), numbers, strict=True))


def expect(program: Program, *words: str, seconds: float = 60) -> str:
    for word in words:
        program.wait_for(word, seconds)
    return program.text


def enter(program: Program, text: str) -> None:
    program.write(text.encode())
    program.until_quiet(0.2, 3)


def test_an_apply_survives_the_platform_and_the_program(demo: Home) -> None:
    """Add a tag, preview, save and apply it; kill the platform twice and close the program meanwhile."""
    demo.variables["FROST_PLATFORM_APPLY_PACE"] = "0.25"
    stored: dict[str, str] = demo.json("tenant", "default-tags", "get")
    wanted = stored | TAG
    expected, before = examined(demo, WEB_SHOP, wanted)
    with screens(demo) as program:
        expect(program, "Tenants", "connected")
        enter(program, ":default-tags\r")
        expect(program, f"{len(stored)}/10 tags")
        program.press("n")
        expect(program, "New tag in", "0/64 bytes")
        enter(program, "audit-scope=full/2026\r")
        expect(program, "+ audit-scope", "Not saved")
        program.press("p")
        expect(program, "for the unsaved draft", f"{expected['updated']:,} would change")
        program.press("escape", "w")
        program.agree("+ audit-scope = full/2026")
        expect(program, f"{len(wanted)}/10 tags", "Saved the default tags")
        assert demo.json("tenant", "default-tags", "get") == wanted
        program.press("a")
        expect(program, f"{expected['updated']:,} of")
        program.agree("Apply default tags?")
        expect(program, "◐ applying", "started by")
        demo.kill_platform()
        program.until_quiet(0.5, 3)
        program.press("q")
        assert program.wait_end() == 0
    with screens(demo) as program:
        expect(program, "◐ applying")
        demo.kill_platform()
        enter(program, ":apply\r")
        text = expect(program, "✓ applied", seconds=180)
        assert counts_of(text) == {what: expected[what] for what in ("updated", "unchanged", "skipped", "failed")}
    left, after = examined(demo, WEB_SHOP, wanted)
    assert left["updated"] == 0
    changed = 0
    for resource_id, tags in before.items():
        assert {key: value for key, value in after[resource_id].items() if key in tags} == tags
        added = {key: value for key, value in after[resource_id].items() if key not in tags}
        assert all(wanted[key] == value for key, value in added.items())
        changed += bool(added)
    assert changed == expected["updated"]
    (run,) = demo.json("tenant", "default-tags", "history")["runs"]
    assert run["summary"]["updated"] == expected["updated"]
