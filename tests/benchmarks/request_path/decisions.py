"""Decisions over HTTP, one and 50 in a request, beside Cerbos with policies of the same meaning."""

import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from tests.benchmarks.cerbos import binary, cerbos
from tests.benchmarks.ratios import Line
from tests.benchmarks.request_path.resource_loads import JSON, instances, keys
from tests.benchmarks.samples import beside
from tests.benchmarks.servers import Platform, platforms
from tests.benchmarks.settings import POSTGRESQL, SQLITE
from tests.benchmarks.wrk import Exchange, Load
from tests.service.access import Iam, allow, deny

GOALS = {(1, SQLITE): 1.5, (1, POSTGRESQL): 1.0, (50, SQLITE): 3.0, (50, POSTGRESQL): 2.0}
INSTANCES, REQUESTS = 50, 64
SEED = 1
ACTIONS = ("read", "start", "delete")
READ, ALL = "compute:instances:read", "compute:*"
REGION = "se-sto-1"
RULES = {
    "reader": (allow(READ),),
    "operator": (allow("compute:instances:*"), deny("compute:instances:delete")),
    "production": (allow(ALL, equals={"frn:resourceTag/env": "prod"}),),
    "regional": (allow(ALL, targets=(f"frn:compute:{REGION}:*:instances/*",)),),
}


@dataclass(frozen=True)
class Question:
    """A question of both sides; `role` names the identity and its policy."""

    role: str
    action: str
    instance: dict[str, Any]


def run() -> Iterator[Line]:
    if (program := binary()) is None:
        return
    for name, platform in platforms():
        with cerbos(program, cerbos_policies()) as other:
            for count, what in ((1, "one decision"), (50, "50 decisions in a request")):
                asked = questions(platform, count)
                theirs = cerbos_load(asked)
                theirs.prepare(other.port)
                expected = [cerbos_decisions(json.loads(body)) for body in theirs.bodies]
                assert {True, False} <= {decision for decisions in expected for decision in decisions}
                ours = platform_load(platform, asked, expected), platform.server
                yield beside(f"{what} ({name})", ours, (theirs, other), GOALS[count, name], "Cerbos")


def decision_load(platform: Platform, count: int) -> Load:
    """Ask the platform for so many decisions in each request, without a peer to compare the decisions with."""
    return platform_load(platform, questions(platform, count), None)


def questions(platform: Platform, count: int) -> list[list[Question]]:
    """Return random questions, each list about one identity and different instances, as Cerbos takes them."""
    chance, found = random.Random(SEED), instances(platform, INSTANCES)
    roles = [chance.choice(list(RULES)) for _ in range(REQUESTS)]
    return [[Question(role, chance.choice(ACTIONS), one) for one in chance.sample(found, count)] for role in roles]


# The platform


def create_identities(platform: Platform) -> dict[str, str]:
    """Create a new workload identity with one policy for each role; return their ids."""
    iam, identities = Iam(platform), {}
    for role, rules in RULES.items():
        name = f"{role}-{uuid4()}"
        identities[role] = iam.binding(name)
        assert iam.done(iam.attach(iam.policy(name, *rules), "workload_identity", identities[role]))
    return identities


def platform_load(
    platform: Platform, asked: Sequence[Sequence[Question]], expected: Sequence[Sequence[bool]] | None
) -> Load:
    """Ask the platform, whose decisions must be the expected ones if there are any."""
    identities = create_identities(platform)
    secrets = [key.secret for key in keys(platform, "decisions:evaluate")]

    def evaluation(question: Question) -> dict[str, Any]:
        return {
            "subject": {"type": "workload_identity", "id": identities[question.role]},
            "action": {"name": question.action},
            "resource": {"type": "instance", "id": question.instance["id"]},
        }

    def exchange(number: int, questions: Sequence[Question]) -> Exchange:
        evaluations = [evaluation(question) for question in questions]
        single = len(evaluations) == 1
        path = "/access/v1/evaluation" + ("" if single else "s")
        body = json.dumps(evaluations[0] if single else {"evaluations": evaluations})
        headers = {"X-API-Key": secrets[number % len(secrets)], **JSON}
        check = are_decisions(len(questions), expected[number] if expected else None)
        return Exchange("POST", path, headers, body, check)

    return Load([exchange(number, questions) for number, questions in enumerate(asked)])


def are_decisions(count: int, expected: Sequence[bool] | None) -> Callable[[Any], bool]:
    def check(answer: Any) -> bool:
        decisions = [one["decision"] for one in answer.get("evaluations", [answer])]
        return len(decisions) == count and (expected is None or decisions == list(expected))

    return check


# Cerbos


def cerbos_policies() -> dict[str, Any]:
    def rule(actions: Sequence[str], role: str, condition: str = "", effect: str = "EFFECT_ALLOW") -> dict[str, Any]:
        match = {"condition": {"match": {"expr": condition}}} if condition else {}
        return {"actions": list(actions), "effect": effect, "roles": [role]} | match

    rules = [
        rule(["read"], "reader"),
        rule(["*"], "operator"),
        rule(["delete"], "operator", effect="EFFECT_DENY"),
        rule(["*"], "production", 'R.attr.tags.env == "prod"'),
        rule(["*"], "regional", f'R.attr.region == "{REGION}"'),
    ]
    policy = {"resource": "instance", "version": "default", "rules": rules}
    return {"instance": {"apiVersion": "api.cerbos.dev/v1", "resourcePolicy": policy}}


def cerbos_load(asked: Sequence[Sequence[Question]]) -> Load:
    def exchange(number: int, questions: Sequence[Question]) -> Exchange:
        role = questions[0].role
        body = {
            "requestId": str(number),
            "principal": {"id": role, "roles": [role]},
            "resources": [
                {
                    "actions": [question.action],
                    "resource": {
                        "kind": "instance",
                        "id": question.instance["id"],
                        "attr": {"region": question.instance["region"], "tags": question.instance["tags"]},
                    },
                }
                for question in questions
            ],
        }
        return Exchange(
            "POST",
            "/api/check/resources",
            JSON,
            json.dumps(body),
            lambda answer: answer["requestId"] == str(number) and len(answer["results"]) == len(questions),
        )

    return Load([exchange(number, questions) for number, questions in enumerate(asked)], volatile=["cerbosCallId"])


def cerbos_decisions(answer: Any) -> list[bool]:
    return [effect == "EFFECT_ALLOW" for result in answer["results"] for effect in result["actions"].values()]
