"""Small random policies and requests, dense enough that rules meet, overlap and contradict each other."""

import random
from collections.abc import Sequence

from client.policy.instants import parse_stored_timestamp
from client.policy.matching import parse_operation_pattern, parse_target
from client.policy.model import (
    AccessRequest,
    Constraint,
    Document,
    RequestContext,
    Rule,
    parse_address,
)

SERVICES, RESOURCES, ACTIONS = ("compute", "storage"), ("instances", "volumes"), ("read", "delete")
CATALOGUE = tuple(f"{s}:{r}:{a}" for s in SERVICES for r in RESOURCES for a in ACTIONS)
REGIONS, TENANTS = ("eu", "us"), ("t1", "t2")
IDS = ("a", "ab", "abc", "b", "ba", "a*", "*b", "a*b", "*a*", "*", "a*c*")
BLOCKS = ("10.0.0.0/8", "10.0.0.0/9", "10.128.0.0/9", "::/0", "0.0.0.0/0", "2001:db8::/32", "10.1.0.0/16")
ADDRESSES = ("10.1.2.3", "10.200.0.1", "192.0.2.1", "2001:db8::1", "::1", "::ffff:10.1.2.3", "nonsense")
TIMES = ("2026-01-01T00:00:00Z", "2026-06-01T00:00:00Z", "2026-12-01T00:00:00Z")
TEXTS = ("dev", "Dev", "prod", "", "de*", "*d*", "d")


def target_text(chance: random.Random, ids: Sequence[str] = IDS) -> str:
    if chance.random() < 0.2:
        return "*"
    service = chance.choice((*SERVICES, "*"))
    region, tenant = chance.choice((*REGIONS, "*", "*")), chance.choice((*TENANTS[:1], "*", "*"))
    return f"frn:{service}:{region}:{tenant}:{chance.choice((*RESOURCES, '*'))}/{chance.choice(ids)}"


def constraint(chance: random.Random) -> Constraint:
    kind = chance.randrange(7)
    if kind == 0:
        return Constraint("ipInRange", "frn:sourceIp", tuple(chance.sample(BLOCKS, chance.randint(1, 2))))
    if kind == 1:
        return Constraint(chance.choice(("before", "after")), "frn:currentTime", (chance.choice(TIMES),))
    operator = chance.choice(("equals", "notEquals", "like"))
    if kind == 2:
        return Constraint(operator, "frn:region", (chance.choice((*REGIONS, "*u")),))
    if kind == 3:
        return Constraint(operator, "frn:principalType", (chance.choice(("api_key", "user", "robot")),))
    if kind == 4:
        return Constraint(operator, "frn:tenant", (chance.choice((*TENANTS, "t*")),))
    key = chance.choice(("frn:requestTag/env", "frn:resourceTag/env", "frn:resourceTag/team"))
    return Constraint(operator, key, (chance.choice(TEXTS),))


def rule(chance: random.Random, deny: float = 0.35) -> Rule:
    operations = []
    for _ in range(chance.randint(1, 2)):
        parts = [chance.choice((*values, "*", "*")) for values in (SERVICES, RESOURCES, ACTIONS)]
        operations.append(":".join(parts))
    targets = [target_text(chance) for _ in range(chance.randint(1, 2))]
    held: dict[tuple[str, str], Constraint] = {}
    for _ in range(chance.choice((0, 0, 1, 1, 2))):
        one = constraint(chance)
        held[one.operator, one.key] = one
    return Rule(
        name="",
        effect="deny" if chance.random() < deny else "allow",
        operations=tuple(map(parse_operation_pattern, operations)),
        operation_texts=tuple(operations),
        targets=tuple(map(parse_target, targets)),
        target_texts=tuple(targets),
        constraints=tuple(held.values()),
    )


def document(chance: random.Random, most: int = 5) -> Document:
    return Document(tuple(rule(chance) for _ in range(chance.randint(1, most))))


def facts(chance: random.Random) -> RequestContext:
    def tags() -> dict[str, str] | None:
        if chance.random() < 0.3:
            return None
        return {key: chance.choice(TEXTS) for key in ("env", "team") if chance.random() < 0.6}

    return RequestContext(
        source_ip=parse_address(chance.choice(ADDRESSES)) if chance.random() < 0.7 else None,
        current_time=_time(chance) if chance.random() < 0.7 else None,
        region=chance.choice(REGIONS) if chance.random() < 0.6 else None,
        principal_type=chance.choice(("api_key", "workload_identity", "user")) if chance.random() < 0.7 else None,
        tenant=chance.choice(TENANTS) if chance.random() < 0.5 else None,
        request_tags=tags(),
        resource_tags=tags(),
    )


def question(chance: random.Random) -> AccessRequest:
    operation = chance.choice(CATALOGUE)
    service = operation.partition(":")[0]
    region, tenant = chance.choice((*REGIONS, "*", "elsewhere")), chance.choice((*TENANTS, "*"))
    kind, name = chance.choice((*RESOURCES, "*", "other")), chance.choice(("a", "ab", "abc", "b", "axb", "zz", "*"))
    return AccessRequest(operation, f"frn:{service}:{region}:{tenant}:{kind}/{name}", facts(chance))


def _time(chance: random.Random) -> float | None:
    instant = parse_stored_timestamp(chance.choice(TIMES))
    return instant + chance.choice((-1, 0, 1))
