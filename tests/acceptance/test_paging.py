"""Lists that come in pages, from the command line."""

import shlex

import pytest

from client.errors import FrostError
from client.transport.call import cursors
from tests.acceptance.iam import KEYS, READ_TENANTS, Desk
from tests.acceptance.people import DATA_LAKE, SANDBOX
from tests.client.wire import Service, answer
from tests.homes import Home

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


def page(desk: Desk, *words: str, tenant: str = DATA_LAKE) -> tuple[list[str], str]:
    found = desk.done("group", "list", *words, "--tenant", tenant)
    return [one["id"] for one in found["items"]], found["nextCursor"]


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


@pytest.mark.parametrize("flag", ["--cursor", "--limit", "--all"])
def test_a_list_without_pages_knows_no_such_flags(desk: Desk, flag: str) -> None:
    assert f"unknown flag {flag}" in desk.refused(2, "catalog", flag, "1")


def test_page_by_page_and_all_at_once_are_the_same_items_in_the_same_order(desk: Desk, groups: list[str]) -> None:
    first, cursor = page(desk, "--limit", "10")
    second, following = page(desk, "--limit", "10", "--cursor", cursor)
    third, last = page(desk, "--limit", "10", "--cursor", following)
    assert [len(first), len(second), len(third)] == [10, 10, 5]
    assert cursor
    assert following
    assert last == ""
    assert first + second + third == groups
    assert page(desk, "--all") == (groups, "")


def test_with_all_the_limit_is_the_size_of_a_page_and_the_cursor_where_it_begins(desk: Desk, groups: list[str]) -> None:
    assert page(desk, "--all", "--limit", "10") == (groups, "")
    asked = desk.home.frost("iam", "group", "list", "--all", "--limit", "10", "--tenant", DATA_LAKE, "-d").err
    assert asked.count(f"GET /api/v1/tenants/{DATA_LAKE}/iam/groups 200") == 3
    _, cursor = page(desk, "--limit", "10")
    assert page(desk, "--all", "--cursor", cursor) == (groups[10:], "")


@pytest.mark.parametrize("limit", ["0", "-1", "abc", "", "201", "1e2", "٣"])
def test_a_limit_that_is_none_is_refused_naming_the_most(desk: Desk, limit: str) -> None:
    said = desk.refused(2, "group", "list", f"--limit={limit}")
    assert "--limit" in said
    assert "200" in said


def test_a_page_has_50_items_unless_told_otherwise(own_desk: Desk) -> None:
    for number in range(52):
        own_desk.raw("POST", "/iam/groups", {"name": f"many {number}"})
    assert len(own_desk.items("group", "list")) == 50
    assert len(own_desk.items("group", "list", "--limit", "200")) > 52


def test_a_cursor_is_good_only_where_it_was_given(desk: Desk, groups: list[str]) -> None:
    _, cursor = page(desk, "--limit", "10")
    policy, group = desk.policy(READ_TENANTS), desk.group()
    for kind, identifier in (("group", group), ("api_key", KEYS["terraform"])):
        desk.attach(policy, kind, identifier)
    attachments = ("policy", "attachments", policy)
    of_all = desk.done(*attachments, "--limit", "1")["nextCursor"]
    for words in (
        ("group", "list", "--tenant", DATA_LAKE, "--cursor", cursor[:-2] + "AA"),
        ("group", "list", "--tenant", DATA_LAKE, "--cursor", "%00"),
        ("group", "list", "--cursor", cursor),
        ("policy", "list", "--tenant", DATA_LAKE, "--cursor", cursor),
        (*attachments, "--type", "group", "--id", group, "--cursor", of_all),
    ):
        assert "cursor is invalid here" in desk.refused(2, *words)
    assert "--cursor is empty" in desk.refused(2, "group", "list", "--cursor", "")


def test_what_is_deleted_between_two_pages_takes_no_other_item_with_it(own_desk: Desk) -> None:
    made = [own_desk.group() for _ in range(6)]
    before = [one["id"] for one in own_desk.items("group", "list", "--all")]
    first = own_desk.done("group", "list", "--limit", str(len(before) - 4))
    # The last of the page that was read, on which the cursor stands, and the next one.
    for gone in (made[1], made[2]):
        own_desk.done("group", "delete", gone, "--force")
    added = own_desk.group()
    rest = [one["id"] for one in own_desk.items("group", "list", "--cursor", first["nextCursor"], "--all")]
    assert [one for one in rest if one != added] == made[3:]


@pytest.mark.parametrize(("words", "plural"), [("group list", "groups"), ("policy list", "policies")])
def test_no_items_is_said_beside_the_output_and_is_an_empty_list_in_it(desk: Desk, words: str, plural: str) -> None:
    assert desk.done(*words.split(), "--tenant", SANDBOX) == {"items": [], "nextCursor": ""}
    shown = desk.iam(*words.split(), "--tenant", SANDBOX)
    assert (shown.code, shown.err) == (0, f"no {plural}\n")
    assert len(shown.out.splitlines()) == 1


def test_a_service_that_repeats_a_cursor_is_not_followed_for_ever(home: Home) -> None:
    with Service(answer(200, {"groups": [], "nextCursor": "again"})) as service:
        home.config.parent.mkdir(mode=0o700)
        home.config.write_text(f"api_endpoint: {service.endpoint}\napi_key: fmk_{'a' * 36}\n")
        home.config.chmod(0o600)
        result = home.frost("iam", "group", "list", "--all", "--tenant", DATA_LAKE)
        assert (result.code, result.out) == (1, "")
        assert "repeats a cursor" in result.err
        assert len(service.heard) == 2
    # A circle of several pages is noticed as well, also when it leads back to where the reading began.
    trail = cursors("a")
    assert [next(trail), trail.send("b"), trail.send("c")] == ["a", "b", "c"]
    with pytest.raises(FrostError):
        trail.send("a")


def test_the_next_command_stays_in_its_tenant_when_another_one_is_selected(desk: Desk, groups: list[str]) -> None:
    """A cursor is refused in another tenant than its own."""
    words = ["iam", "groups", "list", "--limit", "10"]
    shown = desk.home.frost(*words, env={"FROST_TENANT": DATA_LAKE})
    assert f"--tenant {DATA_LAKE}" in shown.err
    second = desk.home.frost(*shlex.split(shown.err.removeprefix("more: "))[1:])
    assert (second.code, [line.split()[1] for line in second.out.splitlines()[1:]]) == (0, groups[10:20])


def test_the_next_command_is_said_ready_to_be_run(desk: Desk, groups: list[str]) -> None:
    words = ["iam", "groups", "list", "--limit", "10", "--tenant", DATA_LAKE]
    shown = desk.home.frost(*words)
    assert shown.err.startswith("more: frost ")
    following = shlex.split(shown.err.removeprefix("more: "))
    second = desk.home.frost(*following[1:])
    assert [line.split()[1] for line in second.out.splitlines()[1:]] == groups[10:20]
    third = desk.home.frost(*shlex.split(second.err.removeprefix("more: "))[1:])
    assert [line.split()[1] for line in third.out.splitlines()[1:]] == groups[20:]
    assert third.err == ""
    assert desk.home.frost("-q", *words).err == ""
