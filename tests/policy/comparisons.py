"""Documents and rights to compare with the reference and the enumeration."""

import json
import random
from dataclasses import replace
from typing import Any

from client.policy.containment import CheckResult, check
from client.policy.coverage import Catalogue, CatalogueMasks
from client.policy.document import parse_document
from client.policy.engine import granted_rules
from client.policy.matching import Target
from client.policy.model import AccessRequest, Document, RequestContext, Rule
from tests.policy import reference, worlds

CATALOGUE = Catalogue(worlds.CATALOGUE)
MASKS = CatalogueMasks(worlds.CATALOGUE)
NONE, CONDITIONAL, EFFECTIVE = "none", "conditional", "effective"
TAG, OTHER = "frn:resourceTag/env", "frn:resourceTag/team"


def question(operation: str, target: Target, facts: RequestContext) -> AccessRequest:
    """The request the map speaks of: an open service is the operation's, an open region the known one."""
    service = operation.partition(":")[0] if target.service == "*" else target.service
    region = facts.region if target.region == "*" and facts.region else target.region
    return AccessRequest(operation, str(target._replace(service=service, region=region)), facts)


def state(document: Document, asked: AccessRequest) -> str:
    if reference.decide(list(document.rules), asked) > 0:
        return EFFECTIVE
    truths = [(rule.effect, reference.rule_truth(rule, asked)) for rule in document.rules]
    maybe = any(access == "allow" and truth != reference.FALSE for access, truth in truths)
    shut = ("deny", reference.TRUE) in truths
    return CONDITIONAL if maybe and not shut else NONE


def rules(*given: dict[str, Any]) -> list[Rule]:
    text = json.dumps({"schemaVersion": "1", "rules": [{"targets": ["*"], **rule} for rule in given]})
    return list(parse_document(text, CATALOGUE).document.rules)


def allow(*operations: str, **rest: Any) -> dict[str, Any]:
    return {"access": "allow", "operations": list(operations), **rest}


def deny(*operations: str, **rest: Any) -> dict[str, Any]:
    return {"access": "deny", "operations": list(operations), **rest}


def ranges(*blocks: str) -> dict[str, Any]:
    return {"constraints": {"ipInRange": {"frn:sourceIp": list(blocks)}}}


def only(operator: str, key: str, value: str) -> dict[str, Any]:
    return {"constraints": {operator: {f"frn:{key}": value}}}


def between(after: str, before: str) -> dict[str, Any]:
    return {"constraints": {name: {"frn:currentTime": f"{at}Z"} for name, at in (("after", after), ("before", before))}}


ALL, COMPUTE, STORAGE = (rules(allow(pattern)) for pattern in ("*", "compute:*", "storage:*"))
EVERY_ADDRESS = rules(allow("*", **ranges("::/0", "0.0.0.0/0")))
IN_EU = rules(allow("*", targets=["frn:compute:eu:*:instances/*"]))
BOTH_REGIONS = rules(*(allow("*", **only("equals", "region", name)) for name in ("eu", "us")))
BOTH_HALVES = rules(allow("*", **ranges("10.0.0.0/9")), allow("*", **ranges("10.128.0.0/9")))
DELETES_NOTHING = rules(allow("*"), deny("*:*:delete", targets=["frn:compute:*:*:*/*"]))
DEV_OR_NOT = rules(*(allow("*", **only(operator, "resourceTag/env", "dev")) for operator in ("equals", "notEquals")))
A_YEAR = rules(allow("*", **between("2026-01-01T00:00:00", "2027-01-01T00:00:00")))
ALL_YEARS = rules(allow("*", **between("0001-01-01T00:00:00", "9999-12-31T23:59:59")))
LETTERS = "frn:compute:*:*:instances/abcdefghijklmnopqrstuvwxyz0123456789äöüßñçøåþð*"

# A draft, and an author whose rights contain it.
WITHIN = {
    "an operation in a star": (rules(allow(*worlds.CATALOGUE)), ALL),
    "a range in two halves": (rules(allow("*", **ranges("10.0.0.0/8"))), BOTH_HALVES),
    "ranges of both versions": (rules(allow("*", **ranges("10.0.0.0/8", "2001:db8::/32"))), EVERY_ADDRESS),
    "a mapped block": (rules(allow("*", **ranges("::ffff:10.0.0.0/104"))), rules(allow("*", **ranges("10.0.0.0/8")))),
    "in a mapped block": (rules(allow("*", **ranges("10.0.0.0/8"))), rules(allow("*", **ranges("::ffff:a00:0/104")))),
    "the draft's deny covers the author's": (rules(allow("*"), deny("compute:*")), DELETES_NOTHING),
    "the tenant of the document": (ALL, rules(allow("*", targets=["frn:*:*:t1:*/*"]))),
    "if one tag is known, all are": (rules(allow("*", **only("equals", "resourceTag/team", "web"))), DEV_OR_NOT),
    "target in the region": (IN_EU, rules(allow("*", **only("equals", "region", "eu")))),
    "target in a region that is like": (IN_EU, rules(allow("*", **only("like", "region", "*u")))),
    "target not in another region": (IN_EU, rules(allow("*", **only("notEquals", "region", "us")))),
    "constraint in the region": (
        rules(allow("*", **only("equals", "region", "eu"))),
        rules(allow("*", targets=["frn:*:eu:*:*/*"])),
    ),
    "deny in another region": (IN_EU, rules(allow("*"), deny("*", **only("equals", "region", "us")))),
    "tenant equals": (ALL, rules(allow("*", **only("equals", "tenant", "t1")))),
    "tenant is like": (ALL, rules(allow("*", **only("like", "tenant", "t*")))),
    "draft for another tenant": (rules(allow("*", **only("equals", "tenant", "t2"))), STORAGE),
    "deny for other tenants": (ALL, rules(allow("*"), deny("*", **only("notEquals", "tenant", "t1")))),
    "a year": (A_YEAR, ALL_YEARS),
    # No request has such a region, so the draft gives nothing.
    **{
        f"region {value!r}": (
            rules(allow("*", **only("equals", "region", value))),
            rules(allow("storage:volumes:read")),
        )
        for value in ("", "*", "e u", "a:b", "a/b")
    },
}
# A draft, and an author whose rights do not contain it.
BEYOND = {
    "a star over present operations": (ALL, rules(allow(*worlds.CATALOGUE))),
    "a range in two smaller ones": (rules(allow("*", **ranges("10.0.0.0/7"))), BOTH_HALVES),
    "version 4 in version 6": (rules(allow("*", **ranges("10.0.0.0/8"))), rules(allow("*", **ranges("::/0")))),
    "unknown address": (ALL, EVERY_ADDRESS),
    "the author's deny": (ALL, DELETES_NOTHING),
    "the author's deny is wider": (rules(allow("*"), deny("compute:instances:*")), DELETES_NOTHING),
    "another tenant": (ALL, rules(allow("*", targets=["frn:*:*:t2:*/*"]))),
    "unknown tags": (ALL, DEV_OR_NOT),
    "target in another region": (IN_EU, rules(allow("*", **only("equals", "region", "us")))),
    "constraint in a smaller target": (rules(allow("*", **only("equals", "region", "eu"))), IN_EU),
    "deny in a region": (ALL, rules(allow("*"), deny("*", **only("equals", "region", "us")))),
    "no region": (ALL, rules(allow("*", **only("like", "region", "*")))),
    "a region that no rule names": (rules(allow("*", **only("like", "region", "*"))), BOTH_REGIONS),
    "tenant equals another": (ALL, rules(allow("*", **only("equals", "tenant", "t2")))),
    "deny for the tenant": (ALL, rules(allow("*"), deny("*", **only("notEquals", "tenant", "t2")))),
    "more than a year": (ALL_YEARS, A_YEAR),
    "the first day": (rules(allow("*", **only("before", "currentTime", "0001-01-01T12:00:00Z"))), COMPUTE),
    "the last day": (rules(allow("*", **only("after", "currentTime", "9999-12-31T12:00:00Z"))), COMPUTE),
    "every common letter": (rules(allow("*", targets=[LETTERS])), STORAGE),
}


def vary(chance: random.Random, rule: Rule) -> Rule:
    """Return a rule as it is or a little wider or narrower."""
    other = worlds.rule(chance)
    changes: list[dict[str, Any]] = [{}] * 3
    changes += [{"constraints": rule.constraints[1:]}, {"constraints": (*rule.constraints, *other.constraints)}]
    changes += [{"operations": other.operations, "operation_texts": other.operation_texts}]
    changes += [{"targets": one.targets, "target_texts": one.target_texts} for one in (other, ALL[0])]
    return replace(rule, **chance.choice(changes))


def pair(chance: random.Random, keys: int) -> tuple[list[Rule], list[Rule]]:
    """A draft and an author over at most so many constraint keys, often close to each other."""
    allowed = {"frn:region", "frn:tenant"} if chance.random() < 0.5 else set()
    allowed |= set(chance.sample(["frn:sourceIp", "frn:currentTime", "frn:principalType", TAG, OTHER], keys))

    def plain(rule: Rule) -> Rule:
        return replace(rule, constraints=tuple(one for one in rule.constraints if one.key in allowed))

    draft = [plain(worlds.rule(chance)) for _ in range(chance.randint(1, 3))]
    # The draft's own rules among the author's: without them almost every draft would escape.
    is_near = chance.random() < 0.3
    author = [plain(vary(chance, rule)) for rule in draft if (is_near or not rule.denies) and chance.random() < 0.8]
    if not is_near:
        author += [plain(worlds.rule(chance, deny=0.25)) for _ in range(chance.randint(1, 6))]
    chance.shuffle(author)
    return draft, author


def asked(draft: list[Rule], author: list[Rule]) -> CheckResult:
    return check(
        Document(tuple(draft)), granted_rules(Document(tuple(author))), tenant="t1", catalogue=worlds.CATALOGUE
    )


def confirmed(found: CheckResult, draft: list[Rule], author: list[Rule]) -> bool:
    """Whether every counterexample is one, in the reference's judgement."""
    return bool(found.examples) and all(
        reference.decide(draft, one.request) > 0 >= reference.decide(author, one.request) for one in found.examples
    )
