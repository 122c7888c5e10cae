"""The rules in Python and what both databases make of them are the same, whatever the tags. checklist L01 to L10

Python decides; the databases merge and remove. Each example is a tenant of its own.
"""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from service.db.engine import Database
from service.resources.tagging import adding, removing, with_defaults
from service.world.kinds import kinds
from tests.service.tagged import Tagged

KIND = kinds()["dns_zone"]
# What a resource may carry: any printable text, among it what means something to JSON, to paths and to SQL.
TEXTS = st.text(
    st.one_of(st.sampled_from("\"\\'$.[]{}%_:;-/å漢\U0001f600"), st.characters(exclude_categories=["C", "Zl", "Zp"])),
    max_size=12,
)
KEYS = st.from_regex(r"[a-zA-Z0-9]([a-zA-Z0-9._:-]{0,8}[a-zA-Z0-9])?", fullmatch=True)
SETS = st.dictionaries(KEYS, st.sampled_from(["", "prod", "a/b c", "x=y+z"]), min_size=1, max_size=10)
ON_DATABASES = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@st.composite
def inventories(draw: st.DrawFn) -> tuple[dict[str, str], list[dict[str, Any]]]:
    """Default tags, and resources that have some of them, some near them, and anything else."""
    defaults = dict(sorted(draw(SETS).items()))
    some = st.sampled_from(sorted(defaults))
    near = st.one_of(some, some.map(str.swapcase), some.map(lambda key: f"{key}."), TEXTS.filter(bool))
    tags = st.dictionaries(near, TEXTS, max_size=KIND.tag_limit)
    states = st.sampled_from(KIND.states)
    relations = st.sampled_from([{}, {}, {}, {"managed": True}, {"owner": {"kind": "database", "id": "d"}}])
    rows = st.fixed_dictionaries({"tags": tags, "state": states, "relations": relations})
    return defaults, draw(st.lists(rows, min_size=1, max_size=12))


@pytest.mark.slow
@ON_DATABASES
@given(inventory=inventories(), size=st.sampled_from([1, 5, 2_000]))
def test_the_database_merges_as_the_rules_say_and_an_undo_restores(
    database: Database, inventory: tuple[dict[str, str], list[dict[str, Any]]], size: int
) -> None:
    defaults, rows = inventory
    tagged = Tagged(database, size)
    ids = [tagged.resource("dns_zone", **row) for row in rows]
    run_id = tagged.planned(defaults)
    result = tagged.carried(run_id)["result"]
    remembered = tagged.remembered(run_id)
    for resource_id, row in zip(ids, rows, strict=True):
        outcome = adding(KIND, row["state"], row["tags"], row["relations"], defaults)
        wanted = {**defaults, **row["tags"]} if outcome.what == "updated" else row["tags"]
        assert tagged.tags(resource_id) == wanted
        assert tuple(remembered.get(resource_id, ())) == outcome.keys
    assert result["summary"]["updated"] == len(remembered)
    assert result["summary"]["examined"] == len(rows)
    tagged.carried(tagged.planned(defaults, run_id))
    assert [tagged.tags(resource_id) for resource_id in ids] == [row["tags"] for row in rows]


@given(inventory=inventories())
def test_a_resource_gets_all_it_lacks_or_nothing_and_never_more_than_it_may_carry(
    inventory: tuple[dict[str, str], list[dict[str, Any]]],
) -> None:
    defaults, rows = inventory
    for row in rows:
        outcome = adding(KIND, row["state"], row["tags"], row["relations"], defaults)
        lacking = set(defaults) - set(row["tags"])
        assert set(outcome.keys) in (set(), lacking)
        assert (outcome.what == "updated") == bool(outcome.keys)
        assert len(row["tags"]) + len(outcome.keys) <= KIND.tag_limit
        assert bool(outcome.reason) == (outcome.what in ("skipped", "failed"))
        merged = {**defaults, **row["tags"]}
        if outcome.what == "updated":
            back = removing(KIND, row["state"], merged, row["relations"], outcome.keys, defaults)
            assert set(back.keys) == lacking


@given(own=st.dictionaries(TEXTS.filter(bool), TEXTS, max_size=KIND.tag_limit), defaults=SETS)
def test_a_new_resource_keeps_its_own_tags_and_gets_all_defaults_or_none(
    own: dict[str, str], defaults: dict[str, str]
) -> None:
    made = with_defaults(KIND, own, defaults)
    assert made in (own, {**defaults, **own})
    assert len(made) <= KIND.tag_limit
    assert (made == own) == (len({**defaults, **own}) > KIND.tag_limit or set(defaults) <= set(own))
