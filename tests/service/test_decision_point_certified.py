"""The certification scenario of OpenID AuthZEN 1.0, check by check, on both databases; numbers are its sections.

Its fixture is `certified.yaml`, the seed of a real platform process.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.api import Answer
from tests.service.conftest import KINDS
from tests.service.running import Running

EVALUATION = "/access/v1/evaluation"
EVALUATIONS = "/access/v1/evaluations"
SUBJECTS, RESOURCES, ACTIONS = (f"/access/v1/search/{what}" for what in ("subject", "resource", "action"))

Object = dict[str, Any]


def entity(kind: str, identifier: str, properties: Object) -> Object:
    return {"type": kind, "id": identifier} | ({"properties": properties} if properties else {})


def user(name: str, **properties: Any) -> Object:
    return entity("user", name, properties)


def record(number: int, **properties: Any) -> Object:
    return entity("record", f"record-{number}", properties)


def action(name: str, **properties: Any) -> Object:
    return {"name": name} | ({"properties": properties} if properties else {})


def asks(subject: Any, what: Object, resource: Object, **more: Any) -> Object:
    return {"subject": subject, "action": what, "resource": resource} | more


def batch(*evaluations: Object, **defaults: Any) -> Object:
    return defaults | {"evaluations": list(evaluations)}


ALICE, BOB, READ, WRITE = user("alice"), user("bob"), action("read"), action("write")
ADMIN = user("bob", role="admin")
FIRST, ARCHIVED = record(1), record(2, status="archived")
USERS, TYPE = {"type": "user"}, {"type": "record"}
PERMITTED = asks(ALICE, READ, FIRST)
NOON, EVENING = "2025-06-27T18:03-07:00", "2025-06-27T19:00-07:00"
ADDRESS = {"ip": "192.0.2.1"}


class Certified(Running):
    """A platform with the operations, the kind of resource and the roles of the scenario besides its own."""

    forked = False

    def program(self) -> list[str]:
        return ["-m", "tests.service.certified_platform"]


Send = Callable[..., Answer]
"""Send a body to a path with the key of the fixture."""


@pytest.fixture(scope="module", params=KINDS)
def platform(request: pytest.FixtureRequest, new_database_url: Callable[[str, bool], str]) -> Iterator[Certified]:
    url = new_database_url("postgresql", True) if request.param == "postgresql" else None
    with Certified(url, "empty", "--public-url", "https://pdp.example.com") as running:
        yield running


@pytest.fixture
def send(platform: Certified) -> Send:
    def send(path: str, body: Any, **headers: str) -> Answer:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        sent = {"X-API-Key": platform.key("harness"), "Content-Type": "application/json"}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        return platform.request("POST", path, sent, content)

    return send


def body_of(answer: Answer) -> Any:
    """Return the body of a successful answer (section 5)."""
    assert answer.status == 200, answer
    assert answer.headers["content-type"] == "application/json"
    return answer.json()


def decision_in(answer: Object) -> bool:
    """2.3: a boolean, and an optional context that is an object."""
    assert isinstance(answer["decision"], bool)
    assert isinstance(answer.get("context", {}), dict)
    return bool(answer["decision"])


MANAGER = user("alice", department="Sales", role="manager")
DECISIONS: dict[str, tuple[Object, bool]] = {
    "2.2.1 permit": (PERMITTED, True),
    "1.4 rule 2": (asks(ALICE, WRITE, FIRST), True),
    "1.4 rule 3": (asks(BOB, READ, FIRST), True),
    "2.2.2 deny": (asks(BOB, WRITE, FIRST), False),
    "2.2.3 context": (PERMITTED | {"context": {"time": NOON, "ip": "192.168.1.1"}}, True),
    "2.2.4 resource properties": (asks(ALICE, WRITE, ARCHIVED), False),
    "2.2.5 subject properties": (asks(ADMIN, WRITE, ARCHIVED), True),
    "2.2.6 action properties": (asks(ALICE, action("delete", soft=True), FIRST), True),
    "2.2.7 action properties": (asks(ALICE, action("delete", soft=False), FIRST), False),
    "2.2.8 more": (asks(MANAGER, action("read", method="GET"), record(1, status="active", owner="bob")), True),
    "2.2.9 unknown fields": (PERMITTED | {"foo": "bar", "futureField": {"nested": True}}, True),
}


@pytest.mark.parametrize("check", DECISIONS)
def test_basic_evaluation(send: Send, check: str) -> None:
    body, expected = DECISIONS[check]
    # The same question has the same answer.
    assert [decision_in(body_of(send(EVALUATION, body))) for _ in range(2)] == [expected] * 2


INVALID = [
    {"action": READ, "resource": FIRST},  # 2.4.1
    {"subject": ALICE, "resource": FIRST},
    {"subject": ALICE, "action": READ},
    *(asks(subject, READ, FIRST) for subject in ({"id": "alice"}, USERS, "alice")),  # 2.4.2, 2.4.6
    *(asks(ALICE, what, FIRST) for what in ({}, {"name": 123})),
    *(asks(ALICE, READ, resource) for resource in ({"id": "record-1"}, TYPE)),
]
SEARCHES_INVALID = [
    (SUBJECTS, {"subject": USERS, "resource": FIRST}),  # 4.7.1
    (RESOURCES, {"action": READ, "resource": TYPE}),
    (ACTIONS, {"subject": ALICE}),
    (SUBJECTS, asks(USERS, READ, TYPE)),  # 4.7.2
    (RESOURCES, asks(USERS, READ, TYPE)),
]


def test_errors(send: Send) -> None:
    bodies = [b'{"subject": ', b"", b"[]"]  # 2.4.4, 2.4.5
    for path, body in (*((EVALUATION, body) for body in (*INVALID, *bodies)), *SEARCHES_INVALID):
        answer = send(path, body)
        assert (answer.status, answer.body != b"") == (400, True), body
    assert send(EVALUATION, PERMITTED, Content_Type="text/plain").status == 400  # 2.4.3


@pytest.mark.parametrize(("path", "body"), [(EVALUATION, PERMITTED), (EVALUATIONS, {}), (ACTIONS, PERMITTED)])
def test_the_request_id_comes_back(send: Send, path: str, body: Object) -> None:
    for identifier in ("bfe9eb29-ab87-4ca3-be83-a1d5d8305716", "x", "any string: of / (mine) at all"):
        assert send(path, body, X_Request_ID=identifier).headers["x-request-id"] == identifier
    assert send(path, body).headers["x-request-id"]


ACTIVE = {"id": "record-1", "properties": {"status": "active"}}
LATER = {"resource": record(2), "context": {"time": EVENING, "source": "batch-override"}}
BATCHES: dict[str, tuple[Object, list[bool]]] = {
    "3.2.1 evaluations": (
        batch({"resource": FIRST}, {"resource": record(2)}, subject=ALICE, action=READ),
        [True, True],
    ),
    "3.2.2 order": (batch({"action": READ}, {"action": WRITE}, subject=BOB, resource=FIRST), [True, False]),
    "3.2.3 resource properties": (
        batch({"resource": record(1, status="active")}, {"resource": ARCHIVED}, subject=ALICE, action=WRITE),
        [True, False],
    ),
    "3.2.4 subject properties": (
        batch({"subject": ALICE}, {"subject": ADMIN}, action=WRITE, resource=ARCHIVED),
        [False, True],
    ),
    "3.2.5 no defaults": (batch(PERMITTED, asks(BOB, WRITE, FIRST)), [True, False]),
    "3.2.6 context": (
        batch({"resource": FIRST}, LATER, subject=ALICE, action=READ, context={"time": NOON}),
        [True, True],
    ),
    "3.2.7 defaults of a part": (
        batch({"resource": ACTIVE}, {"resource": ARCHIVED}, subject=ALICE, action=WRITE, resource=TYPE),
        [True, False],
    ),
    "3.4.1 an error of one": (batch({"resource": FIRST}, {}, subject=ALICE, action=READ), [True, False]),
}


@pytest.mark.parametrize("check", BATCHES)
def test_batch(send: Send, check: str) -> None:
    body, expected = BATCHES[check]
    answer = body_of(send(EVALUATIONS, body))
    assert "decision" not in answer  # 3.3.4
    assert [decision_in(one) for one in answer["evaluations"]] == expected  # 3.3.3


def test_without_evaluations_it_is_one_question(send: Send) -> None:
    for more in ({}, {"evaluations": []}):  # 3.4.2, 3.4.3
        assert body_of(send(EVALUATIONS, PERMITTED | more)) == {"decision": True}


SEARCHES: dict[str, tuple[str, Object, list[Object]]] = {
    "4.2.1": (SUBJECTS, asks(USERS, READ, FIRST), [ALICE, BOB]),
    "4.2.2": (SUBJECTS, asks(USERS, READ, FIRST, context=ADDRESS), [ALICE, BOB]),
    "4.2.4": (SUBJECTS, asks(USERS, WRITE, ARCHIVED), [BOB]),
    "4.3.1": (RESOURCES, asks(ALICE, READ, TYPE), [FIRST]),
    "4.3.3": (RESOURCES, asks(ADMIN, WRITE, TYPE), [record(2)]),
    "4.4.1": (ACTIONS, {"subject": ALICE, "resource": FIRST}, [READ, WRITE]),
    "4.4.2": (ACTIONS, {"subject": ALICE, "resource": FIRST, "context": ADDRESS}, [READ, WRITE]),
    "4.4.3": (ACTIONS, {"subject": ADMIN, "resource": ARCHIVED}, [WRITE]),
    "4.5.1": (SUBJECTS, asks(USERS, READ, FIRST, page={"limit": 1}), []),
}


def results_in(answer: Object) -> list[Object]:
    assert isinstance(answer["results"], list)
    assert isinstance(answer.get("page", {"next_token": ""})["next_token"], str)
    return list(answer["results"])


@pytest.mark.parametrize("check", SEARCHES)
def test_search(send: Send, check: str) -> None:
    path, body, least = SEARCHES[check]
    results = results_in(body_of(send(path, body)))
    assert [one for one in least if one not in results] == []
    members = {"name"} if path == ACTIONS else {"type", "id"}
    assert all(set(one) == members for one in results)
    for part in ("subject", "resource"):
        if path.endswith(part):
            assert {one["type"] for one in results} <= {body[part]["type"]}


def test_pages_follow_on_their_tokens_until_an_empty_one(send: Send) -> None:
    body, names, token = asks(USERS, READ, FIRST), [], None
    while token != "":
        page = body_of(send(SUBJECTS, body | {"page": {"token": token} if token else {"limit": 1}}))
        assert page["page"]["count"] == len(page["results"]) <= 1
        names += [one["id"] for one in page["results"]]
        token = page["page"]["next_token"]
    assert {"alice", "bob"} <= set(names)
    assert len(set(names)) == len(names)


def test_a_search_for_an_unknown_type_finds_nothing(send: Send) -> None:
    spaceship = {"type": "spaceship"}
    for path, body in (
        (ACTIONS, {"subject": user("nonexistent-user"), "resource": FIRST}),  # 4.6.1
        (SUBJECTS, asks(spaceship, READ, FIRST)),  # 4.6.2
        (RESOURCES, asks(ALICE, READ, spaceship)),
        (SUBJECTS, asks(USERS, READ, spaceship | {"id": "record-1"})),
    ):
        assert results_in(body_of(send(path, body))) == []


def test_metadata(platform: Certified) -> None:
    """6.5: the base is the configured public address, every endpoint an https URL below it."""
    headers = {"Host": "other.example.com"}
    answer = platform.request("GET", "/.well-known/authzen-configuration", headers)
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
