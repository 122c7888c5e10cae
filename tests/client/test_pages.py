"""Pages, writes that report whether they changed anything, and documents sent as text."""

import json
from functools import partial
from typing import Any

import pytest

from client.api import analysis, groups
from client.api.policies import create, require_json, update
from client.commands.options import next_command
from client.errors import Exit, FrostError
from client.transport.async_client import AsyncClient
from client.transport.blocking_client import BlockingClient
from client.transport.call import Request, cursors, no_content, page_query
from tests.client.scripted import Scripted
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
    with Service(answer(200, {"groups": [GROUP], "nextCursor": "again"})) as service:
        with pytest.raises(FrostError, match="repeats a cursor"):
            await pages_of(service)
        assert len(service.heard) == 2
    with Service(answer(200, {"groups": [{"id": "g"}], "nextCursor": ""})) as service:
        with pytest.raises(FrostError) as caught:
            await pages_of(service)
        assert caught.value.code == "BAD_ANSWER"


def test_a_command_does_not_follow_a_cursor_that_repeats(platform: Scripted) -> None:
    platform.on("GET /iam/groups", {"groups": [], "nextCursor": "again"})
    ended = platform.run("iam", "group", "list", "--all")
    assert (ended.code, ended.out, "repeats a cursor" in ended.err) == (1, "", True)
    assert platform.sent() == ["GET /iam/groups"] * 2


def test_cursors_end_and_a_page_query_has_only_the_given_members() -> None:
    trail = cursors()
    assert next(trail) == ""
    with pytest.raises(StopIteration):
        trail.send("")
    # A circle of several pages is noticed, also when it leads back to the first cursor.
    trail = cursors("a")
    assert [next(trail), trail.send("b"), trail.send("c")] == ["a", "b", "c"]
    with pytest.raises(FrostError):
        trail.send("a")
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


def test_the_next_command_is_this_one_with_the_next_cursor_and_the_tenant() -> None:
    for words, expected in (
        (["iam", "group", "list"], "frost iam group list --cursor 'c d'"),
        (["iam", "group", "list", "--cursor", "old", "-q"], "frost iam group list -q --cursor 'c d'"),
        (["iam", "group", "list", "--cursor=old"], "frost iam group list --cursor 'c d'"),
        (["--config", "my file", "iam", "group", "list"], "frost --config 'my file' iam group list --cursor 'c d'"),
        (["iam", "group", "list", "--", "g"], "frost iam group list --cursor 'c d' -- g"),
    ):
        assert next_command(words, "c d") == expected
    assert next_command(["iam", "group", "list"], "c", "t") == "frost iam group list --tenant t --cursor c"


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
