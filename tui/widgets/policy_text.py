"""Texts of rules, grants, authors and principals."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from client.tables.columns import Record, kind_and_id
from client.tables.iam import distinct_names, paths_text, rule_text
from tui.widgets.detail import Section

if TYPE_CHECKING:
    from client.models.iam import Grant, PrincipalRef

T = TypeVar("T")
P = TypeVar("P", bound="PrincipalRef")
Fact = tuple[str, str]

CALM = 8
"""Documents with more rules are folded by default."""
MANY = 60
"""Maximum of operations or targets of a rule, or of names of a list, to show."""
KINDS = {"api_key": "API key", "workload_identity": "workload identity", "group": "group", "user": "person"}


def kind_text(record: Record) -> str:
    """Return the type of a member, attachee or principal in words."""
    return type_text(kind_and_id(record)[0])


def type_text(principal_type: str) -> str:
    """Return a type of principals in words; an unknown one as received."""
    return KINDS.get(principal_type, principal_type)


def principal_text(principal: "PrincipalRef") -> str:
    """Return name and type of a principal; without a name, its id."""
    return f"{principal.name or principal.id}  ({type_text(principal.type)})"


def distinct(principals: "Sequence[P]") -> "list[P]":
    """Return principals with different names: after a rotation, two API keys have the same one."""
    names = distinct_names((principal.name, principal.id) for principal in principals)
    return [
        principal if principal.name == name else principal.model_copy(update={"name": name})
        for principal, name in zip(principals, names, strict=True)
    ]


def author_name(record: Record) -> str:
    """Return the name of the author of a policy; without a name, the e-mail address or the ID."""
    author = record.get("author") or {}
    return str(author.get("name") or author.get("email") or record.get("authoredBy", ""))


def author_text(record: Record) -> str:
    """Return the author; `(left)` if the author lost access, so that the policy has no effect."""
    return f"{author_name(record)} (left)" if record.get("orphaned") else author_name(record)


def document_text(document: object) -> str:
    """Return a document as indented JSON."""
    import json

    return json.dumps(document, indent=2, ensure_ascii=False)


def rules_of(document: object) -> Sequence[Mapping[str, Any]]:
    """Return the rules of a document from the platform."""
    rules = document.get("rules") if isinstance(document, Mapping) else None
    return rules if isinstance(rules, list) else ()


def rules(document: object, folded: bool | None = None) -> list[Section]:
    """Return a document as sections, one for each rule. If `folded` is None, long documents are folded."""
    records = rules_of(document)
    short = len(records) > CALM if folded is None else folded
    noun = "rule" if len(records) == 1 else "rules"
    sections: list[Section] = [(f"{len(records)} {noun}" + (", folded" if short else ""), ())]
    for number, rule in enumerate(records, 1):
        heading = f"{number}  {rule.get('name') or 'without a name'} · {rule.get('access', '')}"
        sections.append((heading, list(_folded_rule(rule) if short else _rule(rule))))
    return sections


def _verb(rule: Mapping[str, Any]) -> str:
    return "never" if rule.get("access") == "deny" else "may"


def _folded_rule(rule: Mapping[str, Any]) -> Iterator[Fact]:
    operations = [str(operation) for operation in rule.get("operations") or ()]
    more = f" and {len(operations) - 1} more" if len(operations) > 1 else ""
    narrow = ", narrowed" if rule.get("constraints") or list(rule.get("targets") or ()) != ["*"] else ""
    yield _verb(rule), f"{operations[0] if operations else '—'}{more}{narrow}"


def _rule(rule: Mapping[str, Any]) -> Iterator[Fact]:
    yield from listed(_verb(rule), rule.get("operations") or ())
    yield from listed("on", rule.get("targets") or ())
    constraints = [
        f"{key} {operator} {_value(value)}"
        for operator, keys in (rule.get("constraints") or {}).items()
        for key, value in keys.items()
    ]
    yield from listed("when", constraints)


def _value(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def listed(label: str, values: Sequence[object]) -> Iterator[Fact]:
    """Yield values next to one label, one a line. Beyond `MANY`, only their number is shown."""
    for index, value in enumerate(values[:MANY]):
        yield (label if not index else " "), str(value)
    if len(values) > MANY:
        yield " ", f"… and {len(values) - MANY:,} more"


def grants(heading: str, entries: "Sequence[Grant]") -> list[Section]:
    """Return the grants or denials of an operation under one heading: scope and role, then the policies."""
    plain = [
        (grant.kind, grant.scope if grant.kind == "scope" else grant.role) for grant in entries if not grant.policy_id
    ]
    blocks: list[list[Fact]] = [plain] if plain else []
    for grant in entries:
        if grant.policy_id:
            facts = [
                ("policy", grant.policy_name),
                ("rule", rule_text(grant.rule_index, grant.rule_name).removeprefix("rule ")),
                ("path", paths_text([path.wire() for path in grant.paths]) or "attached directly"),
            ]
            facts += listed("on", grant.targets)
            facts += listed("when", [f"{one.key} {one.operator} {', '.join(one.values)}" for one in grant.constraints])
            blocks.append(facts)
    return [("" if index else heading, facts) for index, facts in enumerate(blocks)]


def path_text(records: Sequence[Mapping[str, Any]]) -> str:
    """Return the path of an operation in one line: group, policy and rule, else scope or role."""
    policies = [grant for grant in records if grant.get("policyId")]
    if policies:
        grant = policies[0]
        group = next((str(path.get("name")) for path in grant.get("paths") or () if path.get("type") == "group"), "")
        parts = [
            group,
            str(grant.get("policyName", "")),
            str(grant.get("ruleName") or f"rule {int(grant.get('ruleIndex') or 0) + 1}"),
        ]
        more = f"  +{len(policies) - 1}" if len(policies) > 1 else ""
        return " → ".join(part for part in parts if part) + more
    return ", ".join(f"{grant.get('kind')} {grant.get(str(grant.get('kind')), '')}" for grant in records)


def principal_names(principals: "Sequence[PrincipalRef]", known: bool, nothing: str) -> list[Fact]:
    """Return names and types of principals, one a line."""
    return record_names(distinct(principals), principal_text, known, nothing)


def record_names(records: Sequence[T], name: Callable[[T], str], known: bool, nothing: str) -> list[Fact]:
    """Return the names of a record's list, one a line. `name` returns the name of a record."""
    if not records:
        return [("", nothing if known else "…")]
    visible = [("", name(record)) for record in records[:MANY]]
    return visible + ([("", f"… and {len(records) - MANY:,} more")] if len(records) > MANY else [])
