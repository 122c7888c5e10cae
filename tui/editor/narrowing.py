"""Ways to take out of a draft what a counterexample of the author check shows. None of them ever widens it.

An operation is taken out of the rule that grants it, never forbidden by a new deny: a deny would also take away
what other policies give. Only the rule that is changed is laid out anew, the rest of the text stays as typed.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tui.editor import layout, outline
from tui.editor.patterns import matches

Rule = Mapping[str, Any]
Example = Mapping[str, Any]
Held = Mapping[str, Sequence[Mapping[str, Any]]]
"""What the author holds: operation -> the grants that give it, each with `targets` and `constraints` of its own."""


class Narrowing(NamedTuple):
    """One way: what it does in words, and the text it leads to."""

    title: str
    text: str


def ways(text: str, example: Example, names: Sequence[str], held: Held) -> Iterator[Narrowing]:
    """The ways for one counterexample, the smallest change first. The text must be readable."""
    index, operation = int(example["ruleIndex"]), str(example["operation"])
    rules = json.loads(text)["rules"]
    rule = rules[index]
    grants = held.get(operation, ())
    if not example.get("future"):
        for limited in _where_held(rule, operation, grants, names, held):
            kept = _without(rule, operation, names)
            whole = limited["operations"] == rule["operations"]
            words = f"Allow {'rule ' + str(index + 1) if whole else operation} only where you hold it"
            yield Narrowing(words, _replaced(text, index, [limited] if whole else [*([kept] if kept else []), limited]))
    less = _without(rule, operation, names)
    if less is not None or len(rules) > 1:
        yield Narrowing(_taking(operation, index, less), _replaced(text, index, [less] if less else []))
    mine = _only(rule, lambda name: name in held, names)
    if held and mine != less and mine != rule and (mine is not None or len(rules) > 1):
        count = sum(map(len, _named(mine, names).values())) if mine is not None else 0
        if count:
            yield Narrowing(
                f"Keep of rule {index + 1} only the {count} operations you hold", _replaced(text, index, [mine or {}])
            )


def taken_out(text: str, index: int, operation: str, names: Sequence[str]) -> str | None:
    """The text without an operation in one rule; None when nothing would be left of the document."""
    rules = json.loads(text)["rules"]
    less = _without(rules[index], operation, names)
    return None if less is None and len(rules) == 1 else _replaced(text, index, [less] if less else [])


def held_of(access: Mapping[str, Any]) -> dict[str, list[Mapping[str, Any]]]:
    """What a person holds, from the platform's account of it; what is always denied is not held."""
    return {
        str(one["operation"]): list(one.get("by") or ())
        for one in access.get("operations") or ()
        if one.get("access") != "denied"
    }


def _taking(operation: str, index: int, less: Rule | None) -> str:
    if less is None:
        return f"Remove rule {index + 1}: it grants nothing but {operation}"
    return f"Take {operation} out of rule {index + 1}"


def _without(rule: Rule, operation: str, names: Sequence[str]) -> Rule | None:
    """The rule without an operation: patterns that name it are replaced by what else they name."""
    left: list[str] = []
    for pattern in rule["operations"]:
        left += around(pattern, operation, names) if matches(pattern, operation) else [pattern]
    return {**rule, "operations": list(dict.fromkeys(left))} if left else None


def around(pattern: str, operation: str, names: Sequence[str]) -> list[str]:
    """Patterns for everything of the catalogue that a pattern names, but not the operation."""
    parts, taken = _three(pattern), operation.split(":")
    found = []
    for place, part in enumerate(parts):
        if part != "*":
            continue
        before = taken[:place]
        values = {
            name.split(":")[place] for name in names if matches(pattern, name) and name.split(":")[:place] == before
        }
        for value in sorted(values - {taken[place]}):
            one = _short([*before, value, *parts[place + 1 :]])
            if any(matches(one, name) for name in names):
                found.append(one)
    return found


def _only(rule: Rule, wanted: Callable[[str], bool], names: Sequence[str]) -> Rule | None:
    """The rule with only those operations of the catalogue that are wanted, in as few patterns as may be."""
    left: list[str] = []
    for pattern in rule["operations"]:
        left += _part(_three(pattern), wanted, names, 0)
    return {**rule, "operations": list(dict.fromkeys(left))} if left else None


def _part(parts: list[str], wanted: Callable[[str], bool], names: Sequence[str], place: int) -> list[str]:
    pattern = _short(parts)
    named = [name for name in names if matches(pattern, name)]
    good = sum(map(wanted, named))
    if named and good == len(named):
        return [pattern]
    if not good or place == len(parts):
        return []
    if parts[place] != "*":
        return _part(parts, wanted, names, place + 1)
    values = dict.fromkeys(name.split(":")[place] for name in named)
    return [
        one for value in values for one in _part([*parts[:place], value, *parts[place + 1 :]], wanted, names, place + 1)
    ]


def _named(rule: Rule, names: Sequence[str]) -> dict[str, list[str]]:
    return {pattern: [name for name in names if matches(pattern, name)] for pattern in rule["operations"]}


def _three(pattern: str) -> list[str]:
    parts = pattern.split(":")
    return parts + ["*"] * (3 - len(parts))


def _short(parts: Sequence[str]) -> str:
    left = list(parts)
    while len(left) > 1 and left[-1] == left[-2] == "*":
        left.pop()
    if len(left) == 2 and left[0] == "*" and left[1] == "*":
        return "*"
    return ":".join(left)


def _where_held(
    rule: Rule, operation: str, grants: Sequence[Mapping[str, Any]], names: Sequence[str], held: Held
) -> Iterator[Rule]:
    """The rule with targets and constraints of a grant the author has: for all it names when all is held so."""
    for grant in grants:
        limits = list(grant.get("targets") or ["*"]), list(grant.get("constraints") or ())
        if limits == (["*"], []):
            continue
        every = [name for named in _named(rule, names).values() for name in named]
        same = all(any(_limits(one) == limits for one in held.get(name, ())) for name in every)
        narrowed = _limited({**rule, "operations": rule["operations"] if same else [operation]}, *limits)
        if narrowed is not None:
            yield narrowed
            return


def _limits(grant: Mapping[str, Any]) -> tuple[list[str], list[Any]]:
    return list(grant.get("targets") or ["*"]), list(grant.get("constraints") or ())


def _limited(rule: Rule, targets: list[str], constraints: Iterable[Mapping[str, Any]]) -> Rule | None:
    """A rule with further limits; None where both limit the same thing and the common part is not plain."""
    own = list(rule["targets"])
    if targets != ["*"] and own != ["*"] and own != targets:
        return None
    merged = {operator: dict(keys) for operator, keys in (rule.get("constraints") or {}).items()}
    for one in constraints:
        operator, key, values = str(one["operator"]), str(one["key"]), list(one["values"])
        value = values if operator == "ipInRange" else values[0]
        if merged.setdefault(operator, {}).setdefault(key, value) != value:
            return None
    limited = {**rule, "targets": own if targets == ["*"] else targets}
    if merged:
        limited["constraints"] = merged
    return limited


def _replaced(text: str, index: int, rules: Sequence[Rule]) -> str:
    """The text with one rule in the place of which others stand, or none."""
    span = outline.rules(text)[index]
    lines = outline.Lines(text)
    row, column = lines.place(span.start)
    indent = text[lines.starts[row] : lines.starts[row] + column]
    pad = indent if not indent.strip() else " " * (len(indent) - len(indent.lstrip()))
    written = [layout.part(rule, depth=2, indent=len(pad)) for rule in rules]
    if written:
        return text[: span.start] + f",\n{pad}".join(written) + text[span.end :]
    # The comma goes with the rule: the one behind it, or before it where it is the last.
    after = text[span.end :].lstrip()
    if after.startswith(","):
        return text[: span.start] + after[1:].lstrip()
    return text[: span.start].rstrip().removesuffix(",") + text[span.end :]
