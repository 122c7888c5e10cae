"""Policies and groups created under an `Idempotency-Key`."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import pytest

from tests.homes import Answer
from tests.service.access import Iam, allow, code, details, document
from tests.service.running import ADMIN

GROUP, POLICY = "/iam/groups", "/iam/policies"
OTHERWISE: dict[str, dict[str, Any]] = {GROUP: {"description": "other"}, POLICY: {"document": document(allow("dns:*"))}}


each = pytest.mark.parametrize("path", [GROUP, POLICY])


def body_of(path: str) -> dict[str, Any]:
    body: dict[str, Any] = {"name": f"once {uuid4()}", "description": "d"}
    return body if path == GROUP else body | {"document": document(allow("compute:*"))}


def make(iam: Iam, path: str, body: dict[str, Any], key: str) -> Answer:
    headers = {"Idempotency-Key": key}
    return iam.platform.ask("POST", f"{iam.base}{path}", as_=iam.person, body=body, headers=headers)


def named(iam: Iam, path: str, name: str) -> list[str]:
    found = iam.get(f"{path}?limit=200" + (f"&name={name.replace(' ', '%20')}" if path == POLICY else ""))
    return [one["id"] for one in found[path.rpartition("/")[2]] if one["name"] == name]


@each
def test_the_same_key_and_body_answer_with_the_first_result(iam: Iam, path: str) -> None:
    body, key = body_of(path), str(uuid4())
    first, again = make(iam, path, body, key), make(iam, path, body, key)
    assert first.status == again.status == 201
    made = first.json()
    assert made == again.json()
    assert named(iam, path, body["name"]) == [made["id"]]
    # The same key of another person makes another one, and so does another key of the same person.
    if path == POLICY:
        others = {make(iam.as_(ADMIN), path, body, key).json()["id"], make(iam, path, body, str(uuid4())).json()["id"]}
        assert len(others | {made["id"]}) == 3
    for other in ({"name": f"other {uuid4()}"}, OTHERWISE[path]):
        answer = make(iam, path, body | other, key)
        assert (code(answer), details(answer)) == ((409, "IDEMPOTENCY_KEY_REUSED"), {"id": made["id"]})
    assert iam.get(f"{path}/{made['id']}") == made


def test_a_document_written_otherwise_is_the_same_request(iam: Iam) -> None:
    key, name = str(uuid4()), f"once {uuid4()}"
    rule = {"access": "allow", "operations": ["compute:*"], "targets": ["*"]}
    spelled = [document(rule), document({"name": "", **dict(reversed(rule.items()))})]
    ids = {make(iam, POLICY, {"name": name, "document": one}, key).json()["id"] for one in spelled}
    assert len(ids) == 1


@each
def test_one_key_used_at_once_makes_one(iam: Iam, path: str) -> None:
    body, key = body_of(path), str(uuid4())
    with ThreadPoolExecutor(6) as threads:
        answers = list(threads.map(lambda _: make(iam, path, body, key), range(6)))
    assert {answer.status for answer in answers} == {201}
    assert len({answer.json()["id"] for answer in answers}) == len(named(iam, path, body["name"])) == 1


def test_a_refusal_uses_no_key_up_and_a_deleted_result_stays_deleted(iam: Iam) -> None:
    body, key = body_of(GROUP), str(uuid4())
    taken = iam.group(body["name"])
    assert code(make(iam, GROUP, body, key)) == (409, "GROUP_NAME_TAKEN")
    assert iam.ask("DELETE", f"{GROUP}/{taken}").status == 204
    made = make(iam, GROUP, body, key)
    assert made.status == 201
    assert iam.ask("DELETE", f"{GROUP}/{made.json()['id']}").status == 204
    assert make(iam, GROUP, body, key).status == 404
    assert named(iam, GROUP, body["name"]) == []
