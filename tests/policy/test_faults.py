"""Plants faults in the engine and checks that the comparisons of the other tests detect them."""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from ipaddress import ip_address, ip_network
from typing import Any

import pytest

from client.policy import containment, coverage, document, engine, matching, model, request_classes, request_space
from client.policy.coverage import Catalogue
from client.policy.document import InvalidDocument, parse_document
from client.policy.engine import compile_document
from client.policy.model import AccessRequest, Document, RequestContext, Rule
from tests.policy import reference, worlds
from tests.policy.comparisons import (
    CATALOGUE,
    allow,
    cap_difference,
    decision_difference,
    disagreement,
    map_difference,
    ranges,
    rules,
    trap,
)

Comparison = Callable[[], object]


@pytest.fixture(autouse=True)
def _no_cached_globs() -> Any:
    matching._cached_glob.cache_clear()
    yield
    matching._cached_glob.cache_clear()


def addresses() -> object:
    """Addresses as they are written, mapped ones too, against the standard library's own judgement."""
    for block in ("10.0.0.0/8", "::/0", "0.0.0.0/0", "2001:db8::/32", "::ffff:10.0.0.0/104"):
        compiled = compile_document(Document(tuple(rules(allow("*", **ranges(block))))))
        for text in ("10.1.2.3", "::ffff:10.1.2.3", "::ffff:192.0.2.1", "2001:db8::1", "::1"):
            address, network = ip_address(text), ip_network(block)
            address = getattr(address, "ipv4_mapped", None) or address
            if block.startswith("::ffff:"):
                network = ip_network("10.0.0.0/8")
            known = RequestContext(source_ip=model.parse_address(text))
            if (compiled.decide(worlds.CATALOGUE[0], "frn:compute:*:*:*/*", known) > 0) is not (address in network):
                return text, block
    return None


def letters() -> object:
    """Texts that differ in case only, and a star that is a text, against the reference."""
    for operator in ("equals", "notEquals", "like"):
        for value in ("dev", "Dev", "d*", "*"):
            found = rules(allow("*", constraints={operator: {"frn:resourceTag/env": value}}))
            compiled = compile_document(Document(tuple(found)))
            for held in ("dev", "DEV", "Dev", "d*", "*", ""):
                question = AccessRequest(
                    worlds.CATALOGUE[0], "frn:compute:*:*:*/*", RequestContext(resource_tags={"env": held})
                )
                expected = reference.decide(found, question)
                if compiled.decide(question.operation, question.target, question.context) != expected:
                    return question
    return None


def readings() -> object:
    rule = '{"access":"allow","operations":["*"],"targets":["*"]%s}'
    whole = '{"schemaVersion":"1","rules":[' + rule + "]}"
    for text in (
        whole % ',"constraints":{"Equals":{"frn:region":"eu"}}',
        whole % ',"constraints":{"equals":{"frn:regoin":"eu"}}',
        whole % ',"constraint":{}',
        whole.replace('"allow"', '"deny","access":"allow"') % "",
        whole.replace('"operations":["*"]', '"operations":["compute:instance:read"]') % "",
        whole % ',"constraints":{"ipInRange":{"frn:sourceIp":["10.0.0.1/8"]}}',
        whole % ',"constraints":{"before":{"frn:currentTime":"2026-01-01"}}',
        '{"schemaVersion":"1","rules":[' + ",".join([rule % ""] * 501) + "]}",
    ):
        try:
            parse_document(text, CATALOGUE)
        except InvalidDocument:
            continue
        return text
    return None


decisions = partial(decision_difference, 11, 600, 8)
capped = partial(cap_difference, 12, 300, 1)
maps = partial(map_difference, 13, 60)


def containments() -> object:
    """The author check against trying everything, and the traps."""
    return trap() or next((found for seed in range(3) if (found := disagreement(seed, 40))), None)


COMPARISONS: tuple[Comparison, ...] = (decisions, addresses, letters, capped, maps, containments, readings)


@pytest.mark.slow
@pytest.mark.parametrize("comparison", COMPARISONS)
def test_unharmed_every_comparison_finds_nothing(comparison: Comparison) -> None:
    assert comparison() is None


RUN, APPLICABLE = containment._Comparison.run, containment.restrict_to_tenant
GRANTED, FACT = engine.GrantedRule, request_space.context_dimension


def unknown_counts_as(value: bool) -> Any:
    return lambda constraint: model._compile(constraint, value)


def whatever_the_case(operator: str, value: str) -> Any:
    same = model.compile_glob(value.casefold()) if operator == "like" else value.casefold().__eq__
    return lambda text: same(text.casefold()) is not (operator == "notEquals")


def of_any_version(blocks: Any, unknown: bool) -> Any:
    def test(known: RequestContext) -> bool:
        if known.source_ip is None:
            return unknown
        return any(first <= known.source_ip[1] <= last for _, first, last in blocks)

    return test


def unmapped(text: str) -> Any:
    address = ip_address(text)
    return address.version, int(address)


def inclusive(before: bool, text: str, unknown: bool) -> Any:
    limit = model.parse_timestamp(text)
    assert limit is not None

    def test(known: RequestContext) -> bool:
        now = known.current_time
        return unknown if now is None else now <= limit if before else now >= limit

    return test


def absent_is_unknown(tags: str, name: str, operator: str, value: str, unknown: bool) -> Any:
    same = model._text_test(operator, value)

    def test(known: RequestContext) -> bool:
        held = getattr(known, tags)
        return unknown if held is None or name not in held else same(held[name])

    return test


def any_of_them(tests: Any) -> Any:
    return (lambda known: any(test(known) for test in tests)) if tests else None


def only_named(literals: Any, work: Any) -> Any:
    return request_classes.Dimension(
        [literal for literal in dict.fromkeys(literals) if literal != "*"] or ["any-other"], work
    )


def without_the_authors_denies(self: Any) -> None:
    self.author_denies = []
    RUN(self)


def without_the_drafts_denies(self: Any) -> None:
    self.denies = []
    RUN(self)


def of_any_author(rule: Rule, tenant: str) -> Any:
    return APPLICABLE(replace(rule, constraints=tuple(c for c in rule.constraints if c.key != "frn:region")), tenant)


def known_only(key: str, given: Any, work: Any) -> Any:
    return request_classes.Dimension(
        [atom for atom in FACT(key, given, work).atoms if atom is not request_classes.UNKNOWN], work
    )


def of_every_tenant(rule: Rule, tenant: str) -> Any:
    return APPLICABLE(replace(rule, targets=tuple(target._replace(tenant="*") for target in rule.targets)), tenant)


FAULTS: dict[str, tuple[Comparison, Any, str, Any]] = {
    "an unknown fact lets an allow grant": (decisions, model, "must_hold", unknown_counts_as(True)),
    "an unknown fact keeps a deny from firing": (decisions, model, "may_hold", unknown_counts_as(False)),
    "an open target is covered by any pattern": (decisions, engine, "must_cover", matching.may_cover),
    "the map covers an open target with any pattern": (maps, coverage, "must_cover", matching.may_cover),
    "a deny needs the whole of an open target": (decisions, engine, "may_cover", matching.must_cover),
    "a pattern matches by its first characters": (
        *(decisions, matching, "compile_glob"),
        lambda pattern: lambda text: text.startswith(pattern.partition("*")[0]),
    ),
    "letter case does not count": (letters, model, "_text_test", whatever_the_case),
    "addresses of both versions are one number line": (addresses, model, "_address_test", of_any_version),
    "a mapped address stays of version 6": (addresses, model, "parse_address", unmapped),
    "before and after hold at the instant itself": (decisions, model, "_time_test", inclusive),
    "a tag that is not there is unknown": (decisions, model, "_tag_test", absent_is_unknown),
    "one of the constraints is enough": (decisions, model, "conjunction", any_of_them),
    "the author's cap is left out": (
        *(capped, engine, "GrantedRule"),
        lambda rule, source, cap=None: GRANTED(rule, source, None),
    ),
    "a deny is no part of the map": (maps, coverage.Coverage, "effective", property(lambda self: self.allowed)),
    "a deny that may fire always fires": (
        *(maps, coverage.Coverage, "conditional"),
        property(lambda self: int(self.possible & ~self.denied & ~self.effective)),
    ),
    "the catalogue never grows": (containments, request_space, "operation_dimension", only_named),
    "the author's denies are forgotten": (containments, containment._Comparison, "run", without_the_authors_denies),
    "the draft's own denies do not count": (containments, containment._Comparison, "run", without_the_drafts_denies),
    "a tag is unknown on its own": (trap, request_space.Space, "subspaces", lambda self: [self.full]),
    "unknown is no value of a fact": (trap, request_space, "context_dimension", known_only),
    "the targets of other tenants count": (containments, containment, "restrict_to_tenant", of_every_tenant),
    "a constraint on the region always holds": (containments, containment, "restrict_to_tenant", of_any_author),
    "an unknown member is ignored": (readings, document._Parser, "_check_members", lambda *_, **__: None),
    "of a member given twice the last counts": (readings, document, "loads", lambda text, **_: json.loads(text)),
    "a pattern may match nothing": (readings, Catalogue, "has_match", lambda self, pattern: True),
    "host bits are cut off": (readings, document, "parse_cidr_block", lambda text: (4, 0, 1)),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_caught(monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    comparison, owner, name, replacement = FAULTS[fault]
    monkeypatch.setattr(owner, name, replacement)
    try:
        difference = comparison()
    except AssertionError as error:
        # The check passes its counterexamples to the engine, and raises if that disagrees.
        difference = error
    assert difference is not None
