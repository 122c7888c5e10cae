"""Changes that remove a counterexample of the author check from a draft. They never widen the draft.

A change removes the operation from the rule that allows it. It does not add a deny rule, which would also override
other policies. Only the changed rule is formatted; the rest of the text is not modified.
"""

import asyncio
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from client.api import analysis
from client.errors import FrostError
from client.models.analysis import Counterexample
from client.models.iam import Access, Grant, GrantConstraint
from client.policy.model import parse_cidr_block
from client.transport.call import Ask
from tui.iam.editor import document, json_scanner
from tui.iam.editor.evaluation import example_count
from tui.iam.editor.request import field_values, matches, parse_values

Rule = Mapping[str, Any]
"""A rule of the document, as JSON."""
Permissions = Mapping[str, Sequence[Grant]]
"""The author's permissions: operation -> grants that allow it, each with its targets and constraints."""


MAX_RULES = 20
"""Maximum simulations per fix. Each can remove the operation from one more rule."""


class Fix(NamedTuple):
    """A change: its title, the resulting text, and what it does, with the result of the author check."""

    title: str
    text: str
    note: str
    rule: Rule | None = None
    """The rule limited to the author's operations. Its patterns may match future ones, which the author lacks."""


async def verified_fixes(
    ask: Ask, tenant_id: str, text: str, example: Counterexample, names: Sequence[str], person: str
) -> list[Fix]:
    """Return the changes that remove a counterexample, each verified by the platform.

    Args:
        names: The operations of the catalogue.
        person: Id of the author; "" if it is unknown.
    """
    permissions: Permissions = {}
    if person:
        permissions = permissions_of(await ask(analysis.access(tenant_id, "user", person)))
    candidates = await asyncio.to_thread(lambda: list(candidate_fixes(text, example, names, permissions)))
    fixes = []
    for candidate in candidates:
        try:
            fix = await _verify(ask, tenant_id, candidate, example, names)
        except FrostError as error:
            if not error.status:
                raise
            continue
        if fix is not None:
            fixes.append(fix)
    return fixes


async def _verify(ask: Ask, tenant_id: str, fix: Fix, example: Counterexample, names: Sequence[str]) -> Fix | None:
    """Extend a fix until the document denies the example, and add the result of the author check.

    Return None if the example is still allowed, or if no rule would remain.
    """
    operation = example.operation
    trial = parse_values(field_values(operation, example.target, example.facts))
    if not example.future:
        for _ in range(MAX_RULES):
            text = fix.text
            verdict = await ask(analysis.simulate(tenant_id, text, operation, trial.target, trial.facts))
            if verdict.deciding_rule is None or not verdict.allowed:
                break
            # Another rule allows the operation too.
            shorter = await asyncio.to_thread(exclude_operation, text, verdict.deciding_rule.index, operation, names)
            if shorter is None:
                return None
            fix = fix._replace(text=shorter)
        else:
            return None
    check = await ask(analysis.check(tenant_id, fix.text))
    if fix.rule is not None and any(one.future for one in check.counterexamples):
        text = await asyncio.to_thread(_name_operations, fix.text, fix.rule, names)
        fix, check = fix._replace(text=text), await ask(analysis.check(tenant_id, text))
    if check.answer == "within":
        result = "The draft is then within your permissions"
    elif count := example_count(check):
        result = f"{count} left to fix"
    else:
        result = "The author check is then still undecided"
    return fix._replace(note=f"{fix.note}. {result}")


def candidate_fixes(
    text: str, example: Counterexample, names: Sequence[str], permissions: Permissions
) -> Iterator[Fix]:
    """Yield the changes for a counterexample, the smallest first. `text` must be a valid document."""
    index, operation = example.rule_index, example.operation
    rules = json.loads(text)["rules"]
    rule = rules[index]
    grants = permissions.get(operation, ())
    if not example.future:
        for limited in _limited_rules(rule, operation, grants, names, permissions):
            remaining = _without(rule, operation, names)
            whole = limited["operations"] == rule["operations"]
            title = f"Allow {'rule ' + str(index + 1) if whole else operation} only where you have the permission"
            limits = "the targets and constraints of your permission"
            yield Fix(
                title,
                _replace_rules(text, index, [limited] if whole else [*([remaining] if remaining else []), limited]),
                f"Adds {limits} to the rule" if whole else f"Moves the operation to its own rule with {limits}",
            )
    shorter = _without(rule, operation, names)
    if shorter is not None or len(rules) > 1:
        yield Fix(
            _exclusion_title(operation, index, shorter),
            _replace_rules(text, index, [shorter] if shorter else []),
            "Keeps the other operations of the rule, also those you lack" if shorter else "Keeps the other rules",
        )
    own_rule = _only(rule, lambda name: name in permissions, names)
    if permissions and own_rule != shorter and own_rule != rule and (own_rule is not None or len(rules) > 1):
        count = len(_operations(own_rule, names)) if own_rule is not None else 0
        if count:
            yield Fix(
                f"Limit rule {index + 1} to the {count} operations you have",
                _replace_rules(text, index, [own_rule or {}]),
                "Removes all operations that you lack from the rule",
                own_rule,
            )


def _name_operations(text: str, rule: Rule, names: Sequence[str]) -> str:
    """Return the text with the operations of a rule by name: a pattern would also match those of the future."""
    rules = json.loads(text)["rules"]
    if rule not in rules:  # an example was excluded from it
        return text
    return _replace_rules(text, rules.index(rule), [{**rule, "operations": _operations(rule, names)}])


def exclude_operation(text: str, index: int, operation: str, names: Sequence[str]) -> str | None:
    """Return the text without an operation in one rule; None if no rule would remain."""
    rules = json.loads(text)["rules"]
    shorter = _without(rules[index], operation, names)
    if shorter is None and len(rules) == 1:
        return None
    return _replace_rules(text, index, [shorter] if shorter else [])


def permissions_of(access: Access) -> Permissions:
    """Return a person's permissions from the result of `iam/access`, without denied operations."""
    return {operation.operation: operation.by for operation in access.operations if operation.access != "denied"}


def _exclusion_title(operation: str, index: int, shorter: Rule | None) -> str:
    if shorter is None:
        return f"Remove rule {index + 1}: it grants only {operation}"
    return f"Remove {operation} from rule {index + 1}"


def _without(rule: Rule, operation: str, names: Sequence[str]) -> Rule | None:
    """Return the rule without an operation; None if no operation remains.

    A pattern that matches the operation is replaced with patterns for its other operations.
    """
    patterns: list[str] = []
    for pattern in rule["operations"]:
        patterns += patterns_without(pattern, operation, names) if matches(pattern, operation) else [pattern]
    return {**rule, "operations": list(dict.fromkeys(patterns))} if patterns else None


def patterns_without(pattern: str, operation: str, names: Sequence[str]) -> list[str]:
    """Return patterns for all operations of the catalogue that `pattern` matches, except `operation`."""
    parts, excluded = _three_parts(pattern), operation.split(":")
    patterns = []
    for place, part in enumerate(parts):
        if part != "*":
            continue
        before = excluded[:place]
        values = {
            name.split(":")[place] for name in names if matches(pattern, name) and name.split(":")[:place] == before
        }
        for value in sorted(values - {excluded[place]}):
            one = _shorten([*before, value, *parts[place + 1 :]])
            if any(matches(one, name) for name in names):
                patterns.append(one)
    return patterns


def _only(rule: Rule, is_allowed: Callable[[str], bool], names: Sequence[str]) -> Rule | None:
    """Return the rule with only the allowed operations of the catalogue, in few patterns; None without any."""
    patterns: list[str] = []
    for pattern in rule["operations"]:
        patterns += _part(_three_parts(pattern), is_allowed, names, 0)
    return {**rule, "operations": list(dict.fromkeys(patterns))} if patterns else None


def _part(parts: list[str], is_allowed: Callable[[str], bool], names: Sequence[str], place: int) -> list[str]:
    pattern = _shorten(parts)
    operations = [name for name in names if matches(pattern, name)]
    allowed_count = sum(map(is_allowed, operations))
    if operations and allowed_count == len(operations):
        return [pattern]
    if not allowed_count or place == len(parts):
        return []
    if parts[place] != "*":
        return _part(parts, is_allowed, names, place + 1)
    values = dict.fromkeys(name.split(":")[place] for name in operations)
    return [
        one
        for value in values
        for one in _part([*parts[:place], value, *parts[place + 1 :]], is_allowed, names, place + 1)
    ]


def _operations(rule: Rule, names: Sequence[str]) -> list[str]:
    """Return the operations of the catalogue that the rule matches."""
    return [name for name in names if any(matches(pattern, name) for pattern in rule["operations"])]


def _three_parts(pattern: str) -> list[str]:
    parts = pattern.split(":")
    return parts + ["*"] * (3 - len(parts))


def _shorten(parts: Sequence[str]) -> str:
    shortened = list(parts)
    while len(shortened) > 1 and shortened[-1] == shortened[-2] == "*":
        shortened.pop()
    if len(shortened) == 2 and shortened[0] == "*" and shortened[1] == "*":
        return "*"
    return ":".join(shortened)


def _limited_rules(
    rule: Rule, operation: str, grants: Sequence[Grant], names: Sequence[str], permissions: Permissions
) -> Iterator[Rule]:
    """Yield at most one rule: limited to the targets and constraints of a grant of the author.

    It includes all operations of the rule if the author has them with the same limits, otherwise `operation` only.
    """
    for grant in grants:
        limits = _limits(grant)
        if limits == (("*",), ()):
            continue
        operations = _operations(rule, names)
        same = all(any(_limits(one) == limits for one in permissions.get(name, ())) for name in operations)
        narrowed = _limit({**rule, "operations": rule["operations"] if same else [operation]}, *limits)
        if narrowed is not None:
            yield narrowed
            return


def _limits(grant: Grant) -> tuple[tuple[str, ...], tuple[GrantConstraint, ...]]:
    """Return the targets and constraints of a grant; a scope or a role has none."""
    return grant.targets or ("*",), grant.constraints


def _limit(rule: Rule, targets: Sequence[str], constraints: Iterable[GrantConstraint]) -> Rule | None:
    """Return the rule with further limits; None if targets or values of a constraint conflict."""
    own, others = list(rule["targets"]), list(targets)
    if others != ["*"] and own != ["*"] and own != others:
        return None
    merged = {operator: dict(keys) for operator, keys in (rule.get("constraints") or {}).items()}
    for constraint in constraints:
        operator, key, values = constraint.operator, constraint.key, list(constraint.values)
        if operator == "ipInRange":
            # Blocks are alternatives: of two lists, only the blocks that are within both remain.
            blocks = common_blocks(merged.get(operator, {}).get(key, values), values)
            if not blocks:
                return None
            merged.setdefault(operator, {})[key] = blocks
        elif merged.setdefault(operator, {}).setdefault(key, values[0]) != values[0]:
            return None
    limited = {**rule, "targets": own if others == ["*"] else others}
    if merged:
        limited["constraints"] = merged
    return limited


def common_blocks(some: Sequence[str], others: Sequence[str]) -> list[str]:
    """Return the CIDR blocks of either list that are within a block of the other one."""
    bounds = [(other, *parse_cidr_block(other)) for other in others]
    blocks: dict[str, None] = {}
    for one in some:
        family, first, last = parse_cidr_block(one)
        for other, of_family, start, end in bounds:
            if family != of_family:
                continue
            if start <= first and last <= end:
                blocks[one] = None
            elif first <= start and end <= last:
                blocks[other] = None
    return list(blocks)


def _replace_rules(text: str, index: int, rules: Sequence[Rule]) -> str:
    """Return the text with one rule replaced by `rules`, or removed if `rules` is empty."""
    span = json_scanner.rules(text)[index]
    lines = json_scanner.Lines(text)
    row, column = lines.place(span.start)
    indent = text[lines.starts[row] : lines.starts[row] + column]
    pad = indent if not indent.strip() else " " * (len(indent) - len(indent.lstrip()))
    written = [document.part(rule, depth=2, indent=len(pad)) for rule in rules]
    if written:
        return text[: span.start] + f",\n{pad}".join(written) + text[span.end :]
    # Remove the comma after the rule or, for the last rule, before it.
    after = text[span.end :].lstrip()
    if after.startswith(","):
        return text[: span.start] + after[1:].lstrip()
    return text[: span.start].rstrip().removesuffix(",") + text[span.end :]
