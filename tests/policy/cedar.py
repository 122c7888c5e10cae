"""Translates a document and a request for Cedar. Every fact and every part of the target must be known."""

import json
from datetime import datetime
from ipaddress import IPv4Address, IPv6Address
from typing import Any

from client.policy.matching import Target, parse_target
from client.policy.model import AccessRequest, Constraint, Document, RequestContext, Rule


def policies(document: Document) -> str:
    return "\n".join(policy(rule) for rule in document.rules)


def policy(rule: Rule) -> str:
    effect = "forbid" if rule.denies else "permit"
    conditions = [
        any_of(map(operation, rule.operation_texts)),
        any_of(map(target, rule.targets)),
        *map(constraint, rule.constraints),
    ]
    return f"{effect}(principal, action, resource) when {{ {' && '.join(conditions)} }};"


def any_of(conditions: Any) -> str:
    return "(" + " || ".join(conditions) + ")"


def all_of(conditions: list[str]) -> str:
    return "(" + " && ".join(conditions or ["true"]) + ")"


def text(value: str) -> str:
    return json.dumps(value)


def operation(pattern: str) -> str:
    parts = pattern.split(":")
    parts += ["*"] * (3 - len(parts))
    names = ("service", "resource", "verb")
    return all_of([f"context.{name} == {text(p)}" for name, p in zip(names, parts, strict=True) if p != "*"])


def target(pattern: Target) -> str:
    names = ("of", "region_of", "tenant_of", "type")
    tests = [f"context.{name} == {text(p)}" for name, p in zip(names, pattern[:4], strict=True) if p != "*"]
    return all_of([*tests, f"context.id like {text(pattern.id)}"])


def constraint(one: Constraint) -> str:
    operator, key, values = one
    if operator == "ipInRange":
        return any_of(f"context.ip.isInRange(ip({text(block)}))" for block in values)
    if key == "frn:currentTime":
        limit = int(datetime.fromisoformat(values[0]).timestamp())
        return f"context.now {'<' if operator == 'before' else '>'} {limit}"
    if "Tag/" in key:
        tags = "context.requestTags" if key.startswith("frn:requestTag/") else "context.resourceTags"
        name = text(key.partition("/")[2])
        held = f"{tags}[{name}]"
        if operator == "notEquals":
            return f"(!({tags} has {name}) || {held} != {text(values[0])})"
        return f"({tags} has {name} && {same(held, operator, values[0])})"
    name = {"frn:region": "region", "frn:principalType": "principalType", "frn:tenant": "tenant"}[key]
    return f"({same(f'context.{name}', operator, values[0])})"


def same(held: str, operator: str, value: str) -> str:
    if operator == "like":
        return f"{held} like {text(value)}"
    return f"{held} {'==' if operator == 'equals' else '!='} {text(value)}"


def request(question: AccessRequest) -> dict[str, Any]:
    service, resource, verb = question.operation.split(":")
    target, facts = parse_target(question.target), question.context
    return {
        "principal": 'User::"somebody"',
        "action": 'Action::"do"',
        "resource": 'Resource::"it"',
        "context": {
            "service": service,
            "resource": resource,
            "verb": verb,
            "of": target.service,
            "region_of": target.region,
            "tenant_of": target.tenant,
            "type": target.type,
            "id": target.id,
            **known(facts),
        },
    }


def known(facts: RequestContext) -> dict[str, Any]:
    assert facts.source_ip is not None
    assert facts.current_time is not None
    family, number = facts.source_ip
    address = IPv4Address(number) if family == 4 else IPv6Address(number)
    return {
        "ip": {"__extn": {"fn": "ip", "arg": str(address)}},
        "now": int(facts.current_time),
        "region": facts.region,
        "principalType": facts.principal_type,
        "tenant": facts.tenant,
        "requestTags": dict(facts.request_tags or {}),
        "resourceTags": dict(facts.resource_tags or {}),
    }
