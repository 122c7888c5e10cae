"""Pages, writes that report whether they changed anything, and documents sent as text."""

import json
import shlex
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from client.api import analysis, groups
from client.api.policies import create, require_json, update
from client.errors import Exit, FrostError
from client.transport.async_client import AsyncClient
from client.transport.blocking_client import BlockingClient
from client.transport.call import Request, no_content, page_query
from client.transport.exchange import Timing
from client.transport.pages import PageLimits, PageTrail
from tests.client.scripted import TENANT, Ended, Scripted
from tests.client.wire import Context, Service, answer

GROUP = {"id": "g", "name": "ops", "createdAt": "2026-01-02T03:04:05Z", "updatedAt": "2026-01-02T03:04:05Z"}


async def pages_of(service: Service) -> list[list[str]]:
    async with AsyncClient(Context(service.endpoint)) as client:
        return [[group.name for group in page] async for page in client.pages(groups.page("t"))]


async def test_the_screens_read_page_after_page_until_there_is_no_cursor() -> None:
    more = answer(200, {"groups": [GROUP, GROUP], "nextCursor": "c/1"})
    last = answer(200, {"groups": [{**GROUP, "name": "last"}], "nextCursor": ""})
    with Service(more, last) as service:
        assert await pages_of(service) == [["ops", "ops"], ["last"]]
        route = "/api/v1/tenants/t/iam/groups?limit=200"
        assert [heard.target for heard in service.heard] == [route, f"{route}&cursor=c%2F1"]
    with Service(answer(200, {"groups": [{"id": "g"}], "nextCursor": ""})) as service:
        with pytest.raises(FrostError) as caught:
            await pages_of(service)
        assert caught.value.code == "BAD_ANSWER"


def named(name: str, cursor: str) -> bytes:
    """A page with a group."""
    return answer(200, {"groups": [{**GROUP, "id": name, "name": name}], "nextCursor": cursor})


ENDLESS: dict[str, tuple[list[bytes], str]] = {
    "repeats a cursor": ([named("a", "again"), named("b", "again")], "CURSOR_REPEATED"),
    "leads back to an earlier page": ([named("a", "1"), named("b", "2"), named("a", "3")], "ITEM_REPEATED"),
    "repeats an item on its last page": ([named("a", "1"), named("a", "")], "ITEM_REPEATED"),
    "has an empty page": ([named("a", "1"), answer(200, {"groups": [], "nextCursor": "2"})], "EMPTY_PAGE"),
    "has one page too many": ([named(name, f"{name}-next") for name in "abcd"], "LIST_INCOMPLETE"),
}


def test_a_list_of_one_page_has_no_item_to_compare(monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[str] = []

    def dumps(item: dict[str, str], **_: bool) -> str:
        hashed.append(item["id"])
        return ""

    monkeypatch.setattr("client.transport.pages.json.dumps", dumps)
    PageTrail("").advance({"groups": [GROUP, GROUP], "nextCursor": ""}, "groups")
    assert hashed == []
    trail = PageTrail("")
    trail.advance({"groups": [GROUP, {**GROUP, "id": "second"}], "nextCursor": "more"}, "groups")
    assert hashed == ["g"]


@pytest.mark.parametrize("fault", ENDLESS)
async def test_a_list_ends_that(fault: str) -> None:
    answers, code = ENDLESS[fault]
    timing = Timing(pages=PageLimits(2, 4))
    with Service(*answers) as service, pytest.raises(FrostError) as caught:
        list(BlockingClient(Context(service.endpoint), timing=timing).pages(groups.page("t")))
    assert (caught.value.code, caught.value.exit_code) == (code, Exit.REFUSED)
    with Service(*answers) as service, pytest.raises(FrostError) as caught:
        async with AsyncClient(Context(service.endpoint), timing=timing) as client:
            _ = [page async for page in client.pages(groups.page("t"))]
    assert caught.value.code == code
    assert len(service.heard) == len(answers)


def test_a_command_warns_of_a_long_list_and_ends_an_endless_one(platform: Scripted) -> None:
    platform.page_limits = PageLimits(3, 5)
    platform.on("GET /iam/groups", *(named(str(number), f"c{number}") for number in range(9)))
    ended = platform.run("iam", "group", "list", "--all", "-q")
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.splitlines() == [
        "frost: warning: 3 pages read, and the list has more",
        "frost: the list is incomplete: it has more than 5 pages. Read the list page by page with --limit and --cursor",
    ]
    assert platform.sent() == ["GET /iam/groups"] * 5
    # A list of exactly that many pages is complete.
    platform.on("GET /iam/groups", *(named(str(number), f"c{number}" if number < 4 else "") for number in range(5)))
    assert len(platform.document("iam", "group", "list", "--all")["items"]) == 5


@pytest.mark.parametrize(("fault", "pages"), [(fault, len(answers)) for fault, (answers, _) in ENDLESS.items()])
def test_every_command_that_reads_all_pages_ends_a_list_that(platform: Scripted, fault: str, pages: int) -> None:
    platform.page_limits = PageLimits(9, 4)
    answers, code = ENDLESS[fault]
    platform.on("GET /iam/groups", *answers)
    for words in (("list", "--all"), ("get", "nobody")):
        platform.on("GET /iam/groups", *answers)
        assert platform.run("iam", "group", *words, "-o", "json").error()["code"] == code
        assert platform.sent() == ["GET /iam/groups"] * pages


def test_a_single_page_may_be_empty_and_have_a_cursor(platform: Scripted) -> None:
    platform.on("GET /iam/groups", {"groups": [], "nextCursor": "more"})
    assert platform.document("iam", "group", "list") == {"items": [], "nextCursor": "more"}


def test_a_page_query_has_only_the_given_members() -> None:
    assert page_query(None, "") == ()
    assert page_query(5, "c", ("memberType", "api_key")) == (("memberType", "api_key"), ("limit", "5"), ("cursor", "c"))


@pytest.mark.parametrize(("header", "changed"), [("true", True), ("false", False), ("", True)])
async def test_the_answer_states_whether_a_write_changed_anything(header: str, changed: bool) -> None:
    headers = {"X_Frost_Changed": header} if header else {}
    call = no_content(Request("POST", "/v1/x", body={}))
    with Service(answer(204, **headers)) as service:
        assert BlockingClient(Context(service.endpoint)).change(call) == (None, changed)
        async with AsyncClient(Context(service.endpoint)) as client:
            assert (await client.change(groups.add_member("t", "g", "api_key", "k"))).changed is changed


TEXT = '{\n  "schemaVersion": "1",\n\t"rules": [ ], "é": "\\u00e9" }\n'


def test_a_document_is_sent_byte_for_byte_as_it_was_typed() -> None:
    body = create("t", 'a "name"', "d", TEXT).request.body
    assert TEXT.encode() in body
    assert json.loads(body) == {"name": 'a "name"', "description": "d", "document": json.loads(TEXT)}
    assert json.loads(update("t", "p", description="").request.body) == {"description": ""}
    assert update("t", "p", document_text=TEXT, version=4).request.headers["If-Match"] == '"4"'


@pytest.mark.parametrize("text", ['{}, "name": "other"', "{} }", "{", "", "{}\x00", "[" * 5000, '{"a": \udc80}'])
def test_a_text_that_would_reach_beyond_its_place_is_never_sent(text: str) -> None:
    for make in (partial(create, "t", "n", "", text), partial(update, "t", "p", document_text=text)):
        with pytest.raises(FrostError) as caught:
            make()
        assert (caught.value.code, caught.value.exit_code) == ("INVALID_POLICY_DOCUMENT", Exit.USAGE)
        (problem,) = (caught.value.details or {})["problems"]
        assert problem["line"] == 1


@pytest.mark.parametrize("text", ["[]", "1", '{"a": 1, "a": 2}', '{"schemaVersion": NaN}'])
def test_only_json_syntax_is_checked_by_the_client(text: str) -> None:
    require_json(text)


LIST, MEMBERS = "iam group list", "iam group member list"
OTHER, GROUP_ID = "c169179d-57e5-43c5-bb9c-7dd71336348d", "0192f7c1-5a3e-7b60-9d2f-3c5a8e7b1d04"
HERE = f"--tenant {TENANT} --cursor 'c d'"
"""The tenant of the page, which may not be the selected one any more."""
THERE = f"--tenant {OTHER}"


def next_lines(ended: Ended) -> list[str]:
    return [line.removeprefix("more: ") for line in ended.err.splitlines() if line.startswith("more: ")]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (LIST, f"{LIST} {HERE}"),
        (f"{THERE} {LIST} --limit 3", f"{THERE} {LIST} --limit 3 --cursor 'c d'"),
        (f"iam --tenant={OTHER} group list --limit=3", f"iam {THERE} group list --limit 3 --cursor 'c d'"),
        (f"{LIST} {THERE} --no-color", f"{LIST} {THERE} --no-color --cursor 'c d'"),
        (f"-otable {LIST} --cursor old", f"--output table {LIST} {HERE}"),
        ("iam groups list --cursor=old -o wide", f"iam groups list --output wide {HERE}"),
        (f"{MEMBERS} --limit 3 {GROUP_ID}", f"{MEMBERS} {GROUP_ID} --limit 3 {HERE}"),
    ],
)
def test_the_next_command_is_this_one_with_the_next_cursor_and_the_tenant(
    platform: Scripted, tmp_path: Path, words: str, expected: str
) -> None:
    for tenant in ("", f"/api/v1/tenants/{OTHER}"):
        platform.on(f"GET {tenant}/iam/groups", {"groups": [], "nextCursor": "c d"})
        platform.on(f"GET {tenant}/iam/groups/{GROUP_ID}/members", {"members": [], "nextCursor": "c d"})
    lines = next_lines(platform.run(*words.split()))
    *flags, printed = lines[0].split(" ", 3)
    assert (flags, len(lines)) == (["frost", "--config", str(tmp_path / "config.yaml")], 1)
    # A flag before the command and one of the global flags in one word are the same words again.
    assert printed == expected
    assert next_lines(platform.run(*shlex.split(printed))) == lines


def test_a_name_that_begins_with_a_hyphen_stays_behind_the_flags(platform: Scripted) -> None:
    platform.on("GET /iam/groups", {"groups": [{**GROUP, "id": GROUP_ID, "name": "-g"}], "nextCursor": ""})
    platform.on(f"GET /iam/groups/{GROUP_ID}/members", {"members": [], "nextCursor": "c"})
    (line,) = next_lines(platform.run(*MEMBERS.split(), "--", "-g"))
    assert line.endswith(f"{MEMBERS} --tenant {TENANT} --cursor c -- -g")
    assert next_lines(platform.run(*shlex.split(line)[3:])) == [line]


async def test_a_simulation_is_a_model_and_its_unknown_members_are_ignored() -> None:
    trial: dict[str, Any] = {"decision": "denied", "reason": "no_match", "rules": [], "new": 1}
    with Service(answer(200, trial)) as service:
        async with AsyncClient(Context(service.endpoint)) as client:
            call = analysis.simulate("t", TEXT, "a:b:c", "*", {"requestTags": {}}, as_author=True)
            simulation = await client.ask(call)
        assert (simulation.allowed, simulation.reason, simulation.rules) == (False, "no_match", ())
        sent = {"documentText": TEXT, "operation": "a:b:c", "target": "*", "facts": {"requestTags": {}}}
        assert json.loads(service.heard[0].body) == {**sent, "asAuthor": True}


@pytest.mark.parametrize(
    "words",
    [
        ("iam", "group", "list", "--limit"),
        ("account", "api-key", "create", "--name", "n", "--scopes", "compute:read", "--rate-limit"),
    ],
    ids=["items on a page", "requests a minute"],
)
def test_a_number_is_written_in_plain_digits(platform: Scripted, words: tuple[str, ...]) -> None:
    for number in ("٤", "４", "1_0", "+4", " 4", "4\n", "²", "0x4", "1e1", "", "0", "-1", "abc", "1.5", "9" * 5_000):
        ended = platform.run(*words, number)
        assert (ended.code, ended.out, platform.sent()) == (2, "", [])
        assert words[-1] in ended.err
        assert len(ended.err) < 400
