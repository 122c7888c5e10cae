"""Counterexamples of the author check, sent to simulate as they are printed."""

import random
from itertools import combinations
from typing import Any

import pytest

from client.policy.containment import check
from client.policy.coverage import Catalogue
from client.policy.document import parse_document
from client.policy.engine import granted_rules
from service.catalogue.operations import operations
from service.catalogue.resource_types import REGIONS
from service.iam import representations
from tests.people import ADMIN, MEMBER, REGIONAL, VIEWER, WEB_SHOP
from tests.service.access import Iam, allow, code, deny, document_text

NAMES = tuple(operation.name for operation in operations())
CATALOGUE = Catalogue(NAMES)
OPERATIONS = ("compute:*", "*:*:read", "*", "compute:instances:read", "storage:buckets:*", "compute:instances:*")
TIMES = tuple(f"2026-01-01T00:00:{second}" for second in ("00Z", "00.5Z", "00.000001Z", "00.000003Z", "01+02:00"))
TEXTS = ("dev", "", "*", "d*", "*e*", "prod")
BLOCKS = ("10.0.0.0/8", "10.0.0.0/9", "::/0", "2001:db8::/32", "0.0.0.0/0", "::ffff:10.0.0.0/104")


TEXT = ("equals", "notEquals", "like")
TAGS = tuple(f"frn:{kind}Tag/{name}" for kind in ("request", "resource") for name in "ab")
# Operators, keys and values of a constraint.
CONSTRAINTS: tuple[tuple[tuple[str, ...], tuple[str, ...], tuple[Any, ...]], ...] = (
    (("ipInRange",), ("frn:sourceIp",), tuple(map(list, combinations(BLOCKS, 2)))),
    *[(("before", "after"), ("frn:currentTime",), TIMES)] * 2,
    *[(TEXT, ("frn:region",), ("", "*", "fi-*", *REGIONS))] * 2,
    (TEXT, ("frn:tenant",), ("", "*", WEB_SHOP, WEB_SHOP[:4] + "*", "elsewhere")),
    (TEXT, ("frn:principalType",), ("user", "api_key", "*e*")),
    (TEXT, TAGS, TEXTS),
)


def random_rule(chance: random.Random, deny_share: float) -> dict[str, Any]:
    region = chance.choice(("*", "*", *REGIONS))
    targets = ["*", "*", f"frn:*:{region}:*:*/*", f"frn:compute:{region}:{WEB_SHOP}:instances/{chance.choice('ab')}*"]
    constraints: dict[str, Any] = {}
    for _ in range(chance.choice((0, 1, 1, 2))):
        operator, key, value = map(chance.choice, chance.choice(CONSTRAINTS))
        constraints.setdefault(operator, {})[key] = value
    make = deny if chance.random() < deny_share else allow
    return make(chance.choice(OPERATIONS), targets=(chance.choice(targets),), **constraints)


@pytest.mark.parametrize("person", [ADMIN, MEMBER, VIEWER, REGIONAL])
@pytest.mark.parametrize("rounds", [12, pytest.param(400, marks=pytest.mark.slow)])
def test_a_counterexample_is_allowed_by_the_draft_and_denied_to_its_author(iam: Iam, person: str, rounds: int) -> None:
    chance, mine = random.Random(18), iam.as_(person)
    tried = 0
    for _ in range(rounds):
        text = document_text(*(random_rule(chance, 0.3) for _ in range(chance.randint(1, 4))))
        found = mine.ask("POST", "/iam/check", {"documentText": text}).json()
        assert found["answer"] in ("within", "beyond")
        if is_of_new_operation(mine, text, found["counterexamples"]):
            continue
        for example in found["counterexamples"]:
            assert decide(mine, text, example) == "allowed", (text, example)
            assert decide(mine, text, example, asAuthor=True) == "denied", (text, example)
            tried += 1
    assert tried > rounds // 4


def decide(iam: Iam, text: str, example: dict[str, Any], **more: Any) -> str:
    answer = iam.ask("POST", "/iam/simulate", body_of(text, example) | more)
    assert answer.status == 200, (example, answer)
    return str(answer.json()["decision"])


def body_of(text: str, example: dict[str, Any]) -> dict[str, Any]:
    return {"documentText": text, **{name: example[name] for name in ("operation", "target", "facts")}}


def is_of_new_operation(iam: Iam, text: str, examples: list[dict[str, Any]]) -> bool:
    """Return whether the examples have operations that do not exist yet; they cannot be sent."""
    if all(example["operation"] in NAMES for example in examples):
        return False
    for example in examples:
        assert code(iam.ask("POST", "/iam/simulate", body_of(text, example))) == (400, "UNKNOWN_OPERATION")
        assert example["future"]
        assert "no such operation yet" in example["why"]
    return True


def test_a_counterexample_at_an_unknown_time_has_no_time(iam: Iam) -> None:
    moment = {"frn:currentTime": TIMES[0]}
    author = [allow("*", before=moment), allow("*", after=moment)]
    author.append(allow("*", before={"frn:currentTime": TIMES[1]}, after={"frn:currentTime": "2025-01-01T00:00:00Z"}))
    draft, held = (parse_document(document_text(*rules), CATALOGUE).document for rules in ([allow(NAMES[0])], author))
    (example, *_) = check(draft, granted_rules(held), tenant=WEB_SHOP, catalogue=NAMES, regions=REGIONS).examples
    shown = representations.counterexample(example, draft)
    assert shown["facts"] == {"currentTime": None}
    assert decide(iam, document_text(*author), shown) == "denied"
    # Without a rule about the time the facts have none.
    text = document_text(allow("compute:instances:delete"))
    found = iam.as_(VIEWER).ask("POST", "/iam/check", {"documentText": text}).json()
    assert found["counterexamples"][0]["facts"] == {}


def test_an_example_in_a_region_that_does_not_exist_yet_can_be_sent(iam: Iam) -> None:
    author = document_text(*(allow("*", targets=(f"frn:*:{region}:*:*/*",)) for region in REGIONS))
    text = document_text(allow("compute:instances:list"), deny("*", targets=("frn:compute:nowhere-1:*:*/*",)))
    for region, decision in (("zz-new-9", "allowed"), ("nowhere-1", "denied")):
        target = f"frn:compute:{region}:{WEB_SHOP}:instances/i"
        example = {"operation": "compute:instances:list", "target": target, "facts": {"region": region}}
        assert (decide(iam, text, example), decide(iam, author, example)) == (decision, "denied")
    # In another region than the target's it is a mistake, as before.
    other = body_of(text, example) | {"facts": {"region": "zz-new-8"}}
    assert code(iam.ask("POST", "/iam/simulate", other)) == (400, "INVALID_INPUT")
