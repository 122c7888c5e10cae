"""Lists that come in pages, from the command line."""

import shlex

import pytest

from tests.acceptance.iam import KEYS, READ_TENANTS, Desk
from tests.acceptance.people import DATA_LAKE

LISTS = ("group list", "group member list {}", "policy list", "policy attachments {}")


@pytest.fixture(scope="module")
def groups(desk: Desk) -> list[str]:
    """The ids of 25 groups in a tenant that had none, in the order they were made."""
    made = []
    for number in range(25):
        path = f"/api/v1/tenants/{DATA_LAKE}/iam/groups"
        reply = desk.home.request("POST", path, token=desk.home.token(), body={"name": f"g{number:02}"})
        assert reply.status == 201
        made.append(reply.json()["id"])
    return made


@pytest.mark.parametrize("words", LISTS)
def test_the_four_paged_lists_take_limit_cursor_and_all(desk: Desk, words: str) -> None:
    thing = desk.group() if "member" in words else desk.policy(READ_TENANTS) if "attach" in words else ""
    listing = words.format(thing).split()
    if "member" in words:
        for key in KEYS.values():
            desk.raw("POST", f"/iam/groups/{thing}/members", {"memberType": "api_key", "memberId": key})
    elif "attach" in words:
        for kind, identifier in (*(("api_key", one) for one in list(KEYS.values())[:2]), ("group", desk.group())):
            desk.attach(thing, kind, identifier)
    first = desk.done(*listing, "--limit", "1")
    assert len(first["items"]) == 1
    assert first["nextCursor"]
    second = desk.done(*listing, "--limit", "1", "--cursor", first["nextCursor"])
    assert second["items"] != first["items"]
    everything = desk.done(*listing, "--all", "--limit", "2")
    assert everything["items"][:2] == first["items"] + second["items"]
    assert everything["nextCursor"] == ""


@pytest.mark.parametrize("by_flag", [True, False])
def test_the_next_command_reads_the_next_page(desk: Desk, groups: list[str], by_flag: bool) -> None:
    words = ["iam", "groups", "list", "--limit", "10"]
    words, env = ([*words, "--tenant", DATA_LAKE], {}) if by_flag else (words, {"FROST_TENANT": DATA_LAKE})
    shown = desk.home.frost(*words, env=env)
    for expected in (groups[10:20], groups[20:]):
        assert shown.err.startswith("more: frost ")
        shown = desk.home.frost(*shlex.split(shown.err.removeprefix("more: "))[1:])
        assert [line.split()[1] for line in shown.out.splitlines()[1:]] == expected
    assert shown.err == ""
    assert desk.home.frost("-q", *words, env=env).err == ""
