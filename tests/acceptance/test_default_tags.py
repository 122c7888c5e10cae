"""Default tags, from the command to the database and back."""

import yaml

from tests.acceptance.people import ADMIN, MEMBER, OWNER
from tests.acceptance.tagging import Tags
from tests.homes import Home

STORED = {"cost-center": "eu.team:42", "env": "prod", "owner": "owner@aurora.example", "team": "storefront"}


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


def test_a_merge_keeps_the_rest_and_lists_the_changes_and_a_dry_run_writes_nothing(tags: Tags) -> None:
    tags.set("a=0", "b=2")
    result = tags.run("default-tags", "set", "--tag", "a=1,c=3", "--merge")
    assert result.out.splitlines() == ["~ a=1 (was 0)", "+ c=3"]
    assert tags.stored() == {"a": "1", "b": "2", "c": "3"}
    document = tags.done("default-tags", "set", "--tag", "b=2")
    assert document == {"tags": {"b": "2"}, "added": {}, "changed": {}, "removed": {"a": "1", "c": "3"}}
    assert "nothing changed" in tags.run("default-tags", "set", "--tag", "b=2").err
    assert tags.run("default-tags", "set", "--tag", "a=1", "--dry-run").out.splitlines() == ["+ a=1", "- b=2"]
    document = tags.done("default-tags", "set", "--tag", "a=1", "--merge", "--dry-run")
    assert (document["dryRun"], document["tags"]) == (True, {"a": "1", "b": "2"})
    assert tags.stored() == {"b": "2"}


def test_client_and_service_refuse_tags_in_the_same_words(tags: Tags) -> None:
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


def test_clearing_asks_and_leaves_resources_as_they_are(tags: Tags) -> None:
    tags.set("a=1", "b=2")
    before = tags.resources()
    assert "--yes" in tags.refused(2, "default-tags", "clear")
    ended, shown = tags.answered("n", "[y/N]", "default-tags", "clear")
    assert ended == 1
    assert "2 default tags" in shown
    assert "Web Shop" in shown
    assert tags.stored() == {"a": "1", "b": "2"}
    assert tags.answered("y", "[y/N]", "default-tags", "clear")[0] == 0
    assert tags.stored() == {}
    tags.set("a=1")
    assert tags.run("default-tags", "clear", "--yes").out == "- a=1\n"
    assert tags.run("default-tags", "clear", "--yes").code == 0
    assert tags.resources() == before


def test_a_former_set_is_listed_and_restored(tags: Tags) -> None:
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


def test_a_member_reads_default_tags_and_may_not_change_them(demo: Home) -> None:
    demo.sign_in(MEMBER)
    mine = Tags(demo)
    assert mine.run("default-tags", "get").code == 0
    for words in (("set", "--tag", "a=1"), ("clear", "--yes")):
        mine.refused(4, "default-tags", *words)
    refused = mine.refused(4, "default-tags", "apply", "--yes")
    assert "must be an owner or admin" in refused
    assert "Ask an owner or admin" in refused
