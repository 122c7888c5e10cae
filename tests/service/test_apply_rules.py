"""The rules in Python and both databases agree for all tags.

Python decides; the databases merge and remove. Each example is a tenant of its own.
"""

from collections.abc import Callable
from string import ascii_letters, digits
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from service.catalogue.resource_types import kinds
from service.db.engine import Database
from service.default_tags.tag_rules import plan_add, plan_remove, with_defaults
from tests.service.tagged import Tagged

KIND = kinds()["dns_zone"]
# Valid tags: printable text of many scripts, with the special characters of JSON, paths and SQL.
# Categories of characters are not used: hypothesis then reads all of Unicode while it draws the first example, which
# takes longer than it allows for ten of them.
ALPHABET = "\"\\'$.[]{}%_:;-/å漢\U0001f600" + "".join(
    filter(str.isprintable, map(chr, (*range(0x20, 0x600), *range(0x3040, 0x30FF))))
)
TEXTS = st.text(ALPHABET, max_size=12)
NAMES = st.text(ALPHABET, min_size=1, max_size=12)
KEYS = st.text(f"{ascii_letters}{digits}._:-", min_size=1, max_size=10).map(lambda key: key.strip("._:-") or "k")
SETS = st.dictionaries(KEYS, st.sampled_from(["", "prod", "a/b c", "x=y+z"]), min_size=1, max_size=10)
ON_DATABASES = settings(
    max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


NEAR: dict[str, Callable[[str], str]] = {"same": str, "other case": str.swapcase, "longer": lambda key: f"{key}."}
# A tag near a default one (which, and how near), or any other; resolved in Python, so that every strategy is made once:
# making new ones for each example took most of the time.
TAGS = st.dictionaries(st.one_of(st.tuples(st.integers(0, 9), st.sampled_from(sorted(NEAR))), NAMES), TEXTS, max_size=5)
ROWS = st.fixed_dictionaries(
    {
        "tags": TAGS,
        "others": st.integers(0, KIND.tag_limit),
        "state": st.sampled_from(KIND.states),
        "relations": st.sampled_from([{}, {}, {}, {"managed": True}, {"owner": {"kind": "database", "id": "d"}}]),
    }
)


def fill(tags: dict[str, str], number: int) -> dict[str, str]:
    """Add so many other tags, up to the limit of a resource; to draw each of them would take long."""
    return {**{f"other {n}": "" for n in range(min(number, KIND.tag_limit - len(tags)))}, **tags}


def inventory_of(defaults: dict[str, str], rows: list[dict[str, Any]]) -> tuple[dict[str, str], list[dict[str, Any]]]:
    """Return default tags, and resources that have some of them, some near them, and others."""
    keys = sorted(defaults)

    def resolve(key: str | tuple[int, str]) -> str:
        return key if isinstance(key, str) else NEAR[key[1]](keys[key[0] % len(keys)])

    resources = [
        {name: row[name] for name in ("state", "relations")}
        | {"tags": fill({resolve(key): value for key, value in row["tags"].items()}, row["others"])}
        for row in rows
    ]
    return {key: defaults[key] for key in keys}, resources


INVENTORIES = st.builds(inventory_of, SETS, st.lists(ROWS, min_size=1, max_size=5))


@pytest.mark.slow
@ON_DATABASES
@given(inventory=INVENTORIES, size=st.sampled_from([1, 5, 2_000]))
def test_the_database_follows_the_rules_and_an_undo_restores(
    database: Database, inventory: tuple[dict[str, str], list[dict[str, Any]]], size: int
) -> None:
    defaults, rows = inventory
    tagged = Tagged(database, size)
    ids = [tagged.resource("dns_zone", **row) for row in rows]
    run_id = tagged.planned(defaults)
    result = tagged.carried(run_id)["result"]
    remembered = tagged.remembered(run_id)
    for resource_id, row in zip(ids, rows, strict=True):
        outcome = plan_add(KIND, row["state"], row["tags"], row["relations"], defaults)
        expected = {**defaults, **row["tags"]} if outcome.what == "updated" else row["tags"]
        assert tagged.tags(resource_id) == expected
        assert tuple(remembered.get(resource_id, ())) == outcome.keys
    assert result["summary"]["updated"] == len(remembered)
    assert result["summary"]["examined"] == len(rows)
    tagged.carried(tagged.planned(defaults, run_id))
    assert [tagged.tags(resource_id) for resource_id in ids] == [row["tags"] for row in rows]


@given(inventory=INVENTORIES)
def test_a_resource_gets_all_missing_tags_or_none_within_its_limit(
    inventory: tuple[dict[str, str], list[dict[str, Any]]],
) -> None:
    defaults, rows = inventory
    for row in rows:
        outcome = plan_add(KIND, row["state"], row["tags"], row["relations"], defaults)
        lacking = set(defaults) - set(row["tags"])
        assert set(outcome.keys) in (set(), lacking)
        assert (outcome.what == "updated") == bool(outcome.keys)
        assert len(row["tags"]) + len(outcome.keys) <= KIND.tag_limit
        assert bool(outcome.reason) == (outcome.what in ("skipped", "failed"))
        merged = {**defaults, **row["tags"]}
        if outcome.what == "updated":
            back = plan_remove(KIND, row["state"], merged, row["relations"], outcome.keys, defaults)
            assert set(back.keys) == lacking


@given(own=st.builds(fill, st.dictionaries(NAMES, TEXTS, max_size=8), st.integers(0, KIND.tag_limit)), defaults=SETS)
def test_a_new_resource_gets_all_defaults_or_none(own: dict[str, str], defaults: dict[str, str]) -> None:
    tags = with_defaults(KIND, own, defaults)
    assert tags in (own, {**defaults, **own})
    assert len(tags) <= KIND.tag_limit
    assert (tags == own) == (len({**defaults, **own}) > KIND.tag_limit or set(defaults) <= set(own))
