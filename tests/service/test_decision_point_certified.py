"""The certification scenario of OpenID AuthZEN 1.0, check by check, on both databases; numbers are its sections.

Its fixture is `certified.yaml`: the world of a real platform process, asked over a real socket.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.homes import Answer
from tests.service.certified import Certified
from tests.service.conftest import KINDS

EVALUATION = "/access/v1/evaluation"
EVALUATIONS = "/access/v1/evaluations"
SUBJECTS = "/access/v1/search/subject"
RESOURCES = "/access/v1/search/resource"
ACTIONS = "/access/v1/search/action"

Object = dict[str, Any]


def user(name: str, **properties: Any) -> Object:
    return {"type": "user", "id": name} | ({"properties": properties} if properties else {})


def record(number: int, **properties: Any) -> Object:
    return {"type": "record", "id": f"record-{number}"} | ({"properties": properties} if properties else {})


def action(name: str, **properties: Any) -> Object:
    return {"name": name} | ({"properties": properties} if properties else {})


def asks(subject: Object, what: Object, resource: Object, **more: Any) -> Object:
    return {"subject": subject, "action": what, "resource": resource} | more


ALICE, BOB, READ, WRITE = user("alice"), user("bob"), action("read"), action("write")
ADMIN = user("bob", role="admin")
ARCHIVED = record(2, status="archived")
TYPE = {"type": "record"}
PERMITTED = asks(ALICE, READ, record(1))


class Harness:
    """A caller of the platform with the key of the fixture."""

    def __init__(self, platform: Certified) -> None:
        self.platform = platform

    def send(self, path: str, content: bytes, **headers: str) -> Answer:
        sent = {"X-API-Key": self.platform.key("harness"), "Content-Type": "application/json"}
        return self.platform.request(
            "POST", path, sent | {name.replace("_", "-"): value for name, value in headers.items()}, content
        )

    def ask(self, path: str, body: Any, **headers: str) -> Answer:
        return self.send(path, json.dumps(body).encode(), **headers)

    def got(self, path: str, body: Any) -> Any:
        """The body of a successful answer (section 5)."""
        answer = self.ask(path, body)
        assert answer.status == 200, answer
        assert answer.headers["content-type"] == "application/json"
        return answer.json()

    def decision(self, body: Any) -> bool:
        found = self.got(EVALUATION, body)
        assert_decision(found)
        return bool(found["decision"])

    def decisions(self, body: Any) -> list[bool]:
        found = self.got(EVALUATIONS, body)
        assert "decision" not in found  # 3.3.4
        for one in found["evaluations"]:
            assert_decision(one)  # 3.3.3
        return [one["decision"] for one in found["evaluations"]]

    def results(self, path: str, body: Any) -> list[Object]:
        found = self.got(path, body)
        assert isinstance(found["results"], list)
        page = found.get("page", {"next_token": ""})
        assert isinstance(page, dict)
        assert isinstance(page["next_token"], str)
        results: list[Object] = found["results"]
        return results


def assert_decision(found: Object) -> None:
    """2.3: a boolean, and a context that is an object where there is one."""
    assert isinstance(found["decision"], bool)
    assert isinstance(found.get("context", {}), dict)


@pytest.fixture(scope="module", params=KINDS)
def harness(request: pytest.FixtureRequest, new_database_url: Callable[[str, bool], str]) -> Iterator[Harness]:
    url = new_database_url("postgresql", True) if request.param == "postgresql" else None
    with Certified(url, "empty", "--public-url", "https://pdp.example.com") as running:
        yield Harness(running)


@pytest.mark.parametrize(
    ("check", "body", "expected"),
    [
        ("2.2.1 permit", PERMITTED, True),
        ("1.4 rule 2", asks(ALICE, WRITE, record(1)), True),
        ("1.4 rule 3", asks(BOB, READ, record(1)), True),
        ("2.2.2 deny", asks(BOB, WRITE, record(1)), False),
        ("2.2.3 context", PERMITTED | {"context": {"time": "2025-06-27T18:03-07:00", "ip": "192.168.1.1"}}, True),
        ("2.2.4 resource properties", asks(ALICE, WRITE, ARCHIVED), False),
        ("2.2.5 subject properties", asks(ADMIN, WRITE, ARCHIVED), True),
        ("2.2.6 action properties", asks(ALICE, action("delete", soft=True), record(1)), True),
        ("2.2.7 action properties", asks(ALICE, action("delete", soft=False), record(1)), False),
        (
            "2.2.8 more properties",
            asks(
                user("alice", department="Sales", role="manager"),
                action("read", method="GET"),
                record(1, status="active", owner="bob"),
            ),
            True,
        ),
        ("2.2.9 unknown fields", PERMITTED | {"foo": "bar", "futureField": {"nested": True}}, True),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_basic_evaluation(harness: Harness, check: str, body: Object, expected: bool) -> None:
    assert harness.decision(body) is expected


@pytest.mark.parametrize(
    "body",
    [
        {"action": READ, "resource": record(1)},  # 2.4.1
        {"subject": ALICE, "resource": record(1)},
        {"subject": ALICE, "action": READ},
        asks({"id": "alice"}, READ, record(1)),  # 2.4.2
        asks({"type": "user"}, READ, record(1)),
        asks(ALICE, {}, record(1)),
        asks(ALICE, READ, {"id": "record-1"}),
        asks(ALICE, READ, {"type": "record"}),
        asks("alice", READ, record(1)),  # type: ignore[arg-type]  # 2.4.6
        asks(ALICE, {"name": 123}, record(1)),
    ],
)
def test_basic_errors(harness: Harness, body: Object) -> None:
    answer = harness.ask(EVALUATION, body)
    assert answer.status == 400
    assert answer.body


@pytest.mark.parametrize(
    ("content", "headers"),
    [
        (json.dumps(PERMITTED).encode(), {"Content_Type": "text/plain"}),  # 2.4.3
        (b'{"subject": ', {}),  # 2.4.4
        (b"", {}),  # 2.4.5
        (b"[]", {}),
    ],
)
def test_bodies_that_are_no_json_object(harness: Harness, content: bytes, headers: dict[str, str]) -> None:
    assert harness.send(EVALUATION, content, **headers).status == 400


@pytest.mark.parametrize("identifier", ["bfe9eb29-ab87-4ca3-be83-a1d5d8305716", "x", "any string: of / (mine) at all"])
@pytest.mark.parametrize(("path", "body"), [(EVALUATION, PERMITTED), (EVALUATIONS, {}), (ACTIONS, PERMITTED)])
def test_the_request_id_comes_back(harness: Harness, identifier: str, path: str, body: Object) -> None:
    assert harness.ask(path, body, X_Request_ID=identifier).headers["x-request-id"] == identifier


def test_a_request_needs_no_id(harness: Harness) -> None:
    assert harness.ask(EVALUATION, PERMITTED).headers["x-request-id"]


def test_the_same_question_has_the_same_answer(harness: Harness) -> None:
    assert {harness.decision(PERMITTED) for _ in range(5)} == {True}


@pytest.mark.parametrize(
    ("check", "body", "expected"),
    [
        (
            "3.2.1 evaluations",
            {"subject": ALICE, "action": READ, "evaluations": [{"resource": record(1)}, {"resource": record(2)}]},
            [True, True],
        ),
        (
            "3.2.2 order",
            {"subject": BOB, "resource": record(1), "evaluations": [{"action": READ}, {"action": WRITE}]},
            [True, False],
        ),
        (
            "3.2.3 resource properties",
            {
                "subject": ALICE,
                "action": WRITE,
                "evaluations": [{"resource": record(1, status="active")}, {"resource": ARCHIVED}],
            },
            [True, False],
        ),
        (
            "3.2.4 subject properties",
            {"action": WRITE, "resource": ARCHIVED, "evaluations": [{"subject": ALICE}, {"subject": ADMIN}]},
            [False, True],
        ),
        ("3.2.5 no defaults", {"evaluations": [PERMITTED, asks(BOB, WRITE, record(1))]}, [True, False]),
        (
            "3.2.6 context",
            {
                "subject": ALICE,
                "action": READ,
                "context": {"time": "2025-06-27T18:03-07:00"},
                "evaluations": [
                    {"resource": record(1)},
                    {"resource": record(2), "context": {"time": "2025-06-27T19:00-07:00", "source": "batch-override"}},
                ],
            },
            [True, True],
        ),
        (
            "3.2.7 defaults of a part",
            {
                "subject": ALICE,
                "action": WRITE,
                "resource": TYPE,
                "evaluations": [
                    {"resource": {"id": "record-1", "properties": {"status": "active"}}},
                    {"resource": ARCHIVED},
                ],
            },
            [True, False],
        ),
        (
            "3.4.1 an error of one",
            {"subject": ALICE, "action": READ, "evaluations": [{"resource": record(1)}, {}]},
            [True, False],
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_batch(harness: Harness, check: str, body: Object, expected: list[bool]) -> None:
    assert harness.decisions(body) == expected


@pytest.mark.parametrize("more", [{}, {"evaluations": []}], ids=["3.4.2", "3.4.3"])
def test_without_evaluations_it_is_one_question(harness: Harness, more: Object) -> None:
    assert harness.got(EVALUATIONS, PERMITTED | more) == {"decision": True}


@pytest.mark.parametrize(
    ("check", "path", "body", "least"),
    [
        ("4.2.1", SUBJECTS, asks({"type": "user"}, READ, record(1)), [ALICE, BOB]),
        ("4.2.2", SUBJECTS, asks({"type": "user"}, READ, record(1), context={"ip": "192.0.2.1"}), [ALICE, BOB]),
        ("4.2.4", SUBJECTS, asks({"type": "user"}, WRITE, ARCHIVED), [BOB]),
        ("4.3.1", RESOURCES, asks(ALICE, READ, TYPE), [record(1)]),
        ("4.3.3", RESOURCES, asks(ADMIN, WRITE, TYPE), [record(2)]),
        ("4.4.1", ACTIONS, {"subject": ALICE, "resource": record(1)}, [READ, WRITE]),
        ("4.4.2", ACTIONS, {"subject": ALICE, "resource": record(1), "context": {"ip": "192.0.2.1"}}, [READ, WRITE]),
        ("4.4.3", ACTIONS, {"subject": ADMIN, "resource": ARCHIVED}, [WRITE]),
        ("4.5.1", SUBJECTS, asks({"type": "user"}, READ, record(1), page={"limit": 1}), []),
    ],
    ids=lambda value: value if isinstance(value, str) and value[0] != "/" else "",
)
def test_search(harness: Harness, check: str, path: str, body: Object, least: list[Object]) -> None:
    results = harness.results(path, body)
    assert [one for one in least if one not in results] == []
    members = {"name"} if path == ACTIONS else {"type", "id"}
    assert all(set(one) == members for one in results)
    for part in ("subject", "resource"):
        if path.endswith(part):
            assert {one["type"] for one in results} <= {body[part]["type"]}


def test_pages_follow_on_their_tokens_until_an_empty_one(harness: Harness) -> None:
    body, found, token = asks({"type": "user"}, READ, record(1)), [], None
    for _ in range(10):
        page = harness.got(SUBJECTS, body | {"page": {"token": token} if token else {"limit": 1}})
        assert page["page"]["count"] == len(page["results"]) <= 1
        found += [one["id"] for one in page["results"]]
        token = page["page"]["next_token"]
        if not token:
            break
    assert token == ""
    assert {"alice", "bob"} <= set(found)
    assert len(set(found)) == len(found)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (ACTIONS, {"subject": user("nonexistent-user"), "resource": record(1)}),  # 4.6.1
        (SUBJECTS, asks({"type": "spaceship"}, READ, record(1))),  # 4.6.2
        (RESOURCES, asks(ALICE, READ, {"type": "spaceship"})),
        (SUBJECTS, asks({"type": "user"}, READ, {"type": "spaceship", "id": "record-1"})),
    ],
)
def test_a_search_for_an_unknown_type_finds_nothing(harness: Harness, path: str, body: Object) -> None:
    assert harness.results(path, body) == []


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (SUBJECTS, {"subject": {"type": "user"}, "resource": record(1)}),  # 4.7.1
        (RESOURCES, {"action": READ, "resource": TYPE}),
        (ACTIONS, {"subject": ALICE}),
        (SUBJECTS, asks({"type": "user"}, READ, TYPE)),  # 4.7.2
        (RESOURCES, asks({"type": "user"}, READ, TYPE)),
    ],
)
def test_search_errors(harness: Harness, path: str, body: Object) -> None:
    assert harness.ask(path, body).status == 400


def test_metadata(harness: Harness) -> None:
    """6.5: the base is the configured public address, every endpoint an https URL below it."""
    headers = {"Host": "other.example.com"}
    answer = harness.platform.request("GET", "/.well-known/authzen-configuration", headers)
    assert answer.status == 200
    assert answer.headers["content-type"] == "application/json"
    base = "https://pdp.example.com"
    assert answer.json() == {
        "policy_decision_point": base,
        "access_evaluation_endpoint": base + EVALUATION,
        "access_evaluations_endpoint": base + EVALUATIONS,
        "search_subject_endpoint": base + SUBJECTS,
        "search_resource_endpoint": base + RESOURCES,
        "search_action_endpoint": base + ACTIONS,
    }
