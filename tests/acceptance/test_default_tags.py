"""Default tags, from the command to the database and back."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml

from tests.acceptance.people import ADMIN, BOREALIS, MEMBER, OTHER_OWNER, OUTSIDER, OWNER
from tests.acceptance.tagging import Tags
from tests.conftest import opened
from tests.homes import Home

STORED = {"cost-center": "eu.team:42", "env": "prod", "owner": "owner@aurora.example", "team": "storefront"}


@pytest.fixture(scope="module")
def tags(demo_platform: Path) -> Iterator[Tags]:
    """The owner of Aurora Labs; each test begins by writing the set it needs."""
    home = opened(demo_platform, FROST_PLATFORM_PROVISIONING_PACE="600")
    home.sign_in()
    yield Tags(home)
    home.remove()


def test_a_set_is_printed_a_tag_a_line_sorted_or_as_one_flat_map(tags: Tags) -> None:
    tags.set(*(f"{key}={value}" for key, value in STORED.items()))
    plain = tags.run("default-tags", "get")
    assert plain.out.splitlines() == [f"{key}={value}" for key, value in sorted(STORED.items())]
    assert tags.done("default-tag", "get") == STORED
    assert list(tags.done("default-tags", "get")) == sorted(STORED)
    assert yaml.safe_load(tags.run("default-tags", "get", "-o", "yaml").out) == STORED
    tags.set()
    assert tags.run("default-tags", "get").out == ""
    assert tags.run("default-tags", "get", "-o", "json").out == "{}\n"


def test_the_whole_set_is_replaced_however_its_tags_are_given(tags: Tags) -> None:
    for words in (["--tag", "env=prod", "--tag", "team=a"], ["--tag", "env=prod,team=a"], ["--tag=team=a,env=prod"]):
        tags.set("before=1")
        tags.done("default-tags", "set", *words)
        assert tags.stored() == {"env": "prod", "team": "a"}
    tags.done("default-tags", "set", "--tag", "a=")
    assert tags.stored() == {"a": ""}


def test_merging_keeps_the_rest_and_says_what_changes(tags: Tags) -> None:
    tags.set("a=0", "b=2")
    result = tags.run("default-tags", "set", "--tag", "a=1,c=3", "--merge")
    assert result.out.splitlines() == ["~ a=1 (was 0)", "+ c=3"]
    assert tags.stored() == {"a": "1", "b": "2", "c": "3"}
    document = tags.done("default-tags", "set", "--tag", "b=2")
    assert document == {"tags": {"b": "2"}, "added": {}, "changed": {}, "removed": {"a": "1", "c": "3"}}
    assert "nothing changed" in tags.run("default-tags", "set", "--tag", "b=2").err


def test_a_dry_run_says_it_and_writes_nothing(tags: Tags) -> None:
    tags.set("a=0")
    assert tags.run("default-tags", "set", "--tag", "b=1", "--dry-run").out.splitlines() == ["- a=0", "+ b=1"]
    document = tags.done("default-tags", "set", "--tag", "b=1", "--merge", "--dry-run")
    assert document["dryRun"] is True
    assert document["tags"] == {"a": "0", "b": "1"}
    assert tags.stored() == {"a": "0"}


def test_what_is_allowed_is_stored_as_it_is(tags: Tags) -> None:
    good = {
        "eq": "x=y+z",
        "k" * 64: "v" * 255,
        "cost-center": "eu.team:42",
        "Team_Name.v2": "Platform Ops",
        "a:b": "a/b/c",
        "A": "user@example.com",
        "frostmoln": "",
        "osx": "1",
        "request-idx": "2",
        "my-acl": "3",
    }
    tags.set(*(f"{key}={value}" for key, value in good.items()))
    assert tags.stored() == good
    assert "at most 10" in tags.refused(2, "default-tags", "set", "--tag", "one=more", "--merge")
    assert tags.stored() == good


def test_what_is_refused_is_refused_by_the_service_as_well_and_in_the_same_words(tags: Tags) -> None:
    tags.set("kept=1")
    for key, value in (
        ("team/owner", "x"), ("_x", "x"), ("miljö", "x"), ("k" * 65, "x"), ("OS_Type", "x"), ("Customer-Id", "x"),
        ("k", "#hash"), ("k", "v" * 256), ("k", "\u202e"),
    ):  # fmt: skip
        ours = tags.refused(2, "default-tags", "set", "--tag", f"good=1,{key}={value}")
        theirs = tags.raw("PUT", "/default-tags", {"tags": {"good": "1", key: value}})
        assert theirs.status == 400
        assert theirs.json()["error"]["message"][:60] in ours
    assert tags.stored() == {"kept": "1"}


def test_a_write_without_the_tags_cannot_clear_the_set(tags: Tags) -> None:
    tags.set("kept=1")
    for body in ({}, {"tag": {}}, {"tags": None}, {"tags": {"a": None}}):
        assert tags.raw("PUT", "/default-tags", body).status == 400
    assert tags.stored() == {"kept": "1"}


def test_clearing_asks_and_leaves_resources_as_they_are(tags: Tags) -> None:
    tags.set("a=1", "b=2")
    before = tags.resources()
    assert "--yes" in tags.refused(2, "default-tags", "clear")
    ended, shown = tags.answering("n", "[y/N]", "default-tags", "clear")
    assert ended == 1
    assert "2 default tags" in shown
    assert "Web Shop" in shown
    assert tags.stored() == {"a": "1", "b": "2"}
    assert tags.answering("y", "[y/N]", "default-tags", "clear")[0] == 0
    assert tags.stored() == {}
    tags.set("a=1")
    assert tags.run("default-tags", "clear", "--yes").out == "- a=1\n"
    assert tags.run("default-tags", "clear", "--yes").code == 0
    assert tags.resources() == before


def test_a_new_resource_gets_them_and_its_own_tags_win(tags: Tags) -> None:
    tags.set("env=prod", "team=a")
    region = next(iter(tags.resources("bucket").values()))["region"]
    body = {"name": "with defaults", "region": region, "tags": {"team": "own"}}
    made = tags.raw("POST", "/resources/bucket", body)
    assert made.status in (201, 202), made
    assert made.json()["tags"] == {"env": "prod", "team": "own"}


def test_merges_at_the_same_time_all_survive(tags: Tags) -> None:
    tags.set("base=1")
    with ThreadPoolExecutor(6) as pool:
        ended = list(pool.map(lambda n: tags.run("default-tags", "set", "--tag", f"k{n}={n}", "--merge"), range(6)))
    assert {result.code for result in ended} == {0}, ended
    assert tags.stored() == {"base": "1", **{f"k{n}": str(n) for n in range(6)}}


def test_keys_need_the_scope_of_what_they_do(tags: Tags) -> None:
    tags.set("a=1")
    reader, writer, other = (tags.key_file(name) for name in ("tenant-reader", "tenant-writer", "viewer-dashboard"))
    get, put = ("tenant", "default-tags", "get"), ("tenant", "default-tags", "set", "--tag", "b=2")
    assert tags.home.frost(*get, "--config", reader).out == "a=1\n"
    assert "organizations:write" in tags.home.frost(*put, "--config", reader).err
    assert tags.home.frost(*put, "--config", writer).code == 0
    assert tags.home.frost(*get, "--config", writer).code == 4
    assert tags.home.frost(*get, "--config", other).code == 4
    assert tags.stored() == {"b": "2"}


def test_the_organization_may_be_named_beside_it(tags: Tags) -> None:
    organization = tags.done("current")["organizationId"]
    assert tags.run("default-tags", "get", "--organization", organization).code == 0
    assert tags.run("default-tags", "get", "--organization", BOREALIS).code == 5


def test_what_was_written_is_listed_and_put_back_unless_another_has_written_since(tags: Tags) -> None:
    tags.set("a=1")
    tags.set("a=2", "b=3")
    versions = tags.done("default-tags", "history", "--limit", "2")
    assert [one["tags"] for one in versions["items"]] == [{"a": "2", "b": "3"}, {"a": "1"}]
    assert versions["nextCursor"]
    assert versions["items"][0]["changedBy"]["email"] == OWNER
    assert tags.run("default-tags", "undo", "--preview").out.splitlines() == ["~ a=1 (was 2)", "- b=3"]
    assert tags.run("default-tags", "undo").out.splitlines() == ["~ a=1 (was 2)", "- b=3"]
    assert tags.stored() == {"a": "1"}
    tags.home.sign_in(ADMIN)
    try:
        assert OWNER in tags.refused(6, "default-tags", "undo")
        number = versions["items"][0]["version"]
        assert tags.run("default-tags", "undo", "--version", str(number)).code == 0
    finally:
        tags.home.sign_in(OWNER)
    assert tags.stored() == {"a": "2", "b": "3"}


@pytest.mark.parametrize(
    ("person", "reads", "writes"), [(MEMBER, 0, 4), (ADMIN, 0, 0), (OTHER_OWNER, 4, 4), (OUTSIDER, 4, 4)]
)
def test_members_read_and_admins_write(demo: Home, person: str, reads: int, writes: int) -> None:
    demo.sign_in(person)
    mine = Tags(demo)
    assert mine.run("default-tags", "get").code == reads
    assert mine.run("default-tags", "set", "--tag", "a=1").code == writes
    assert mine.run("default-tags", "clear", "--yes").code == writes
    applied = mine.run("default-tags", "apply", "--yes")
    assert applied.code == (0 if person == ADMIN else writes)
    if person == MEMBER:
        assert "must be an owner or admin" in applied.err
        assert "Ask an owner or admin" in applied.err
