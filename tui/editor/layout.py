"""A policy document laid out for people: a line for each thing, short lists on one line. Meaning stays."""

import json
from typing import Any

LINE = 58
"""Characters a list or object may take to stay on one line."""


def text_of(document: Any) -> str:
    """The document as text that ends with a line end."""
    return _value(document, 0, 0, 0) + "\n"


_RULE = ("name", "access", "operations", "targets", "constraints")


def as_stored(document: Any) -> Any:
    """The document as the platform stores it: members in its order, `name` always, no empty `constraints`."""
    if not isinstance(document, dict) or not isinstance(document.get("rules"), list):
        return document
    return {"schemaVersion": document.get("schemaVersion"), "rules": [_stored_rule(one) for one in document["rules"]]}


def _stored_rule(rule: Any) -> Any:
    held = rule.get("constraints", {}) if isinstance(rule, dict) else None
    if not isinstance(held, dict) or not all(isinstance(keys, dict) for keys in held.values()):
        return rule
    whole = {"name": "", **rule}
    constraints = {
        operator: {key: _stored_value(operator, value) for key, value in keys.items()}
        for operator, keys in held.items()
    }
    return {
        member: constraints if member == "constraints" else whole[member]
        for member in _RULE
        if member in whole and (member != "constraints" or constraints)
    }


def _stored_value(operator: str, value: Any) -> Any:
    return value[0] if operator != "ipInRange" and isinstance(value, list) and value else value


def part(value: Any, *, depth: int, indent: int) -> str:
    """A part of a document, from the place where it begins: `depth` levels down, `indent` blanks in."""
    return _value(value, depth, indent, indent)


def _value(value: Any, depth: int, indent: int, used: int) -> str:
    if not isinstance(value, (dict, list)) or not value:
        return _scalar(value)
    # The document, its list of rules and each rule always stand line by line.
    if depth > 2 and used + len(flat := _flat(value)) <= LINE:
        return flat
    inner = " " * (indent + 2)
    if isinstance(value, dict):
        parts = []
        for name, member in value.items():
            head = f"{inner}{_scalar(name)}: "
            parts.append(head + _value(member, depth + 1, indent + 2, len(head)))
        return "{\n" + ",\n".join(parts) + "\n" + " " * indent + "}"
    items = [inner + _value(item, depth + 1, indent + 2, indent + 2) for item in value]
    return "[\n" + ",\n".join(items) + "\n" + " " * indent + "]"


def _flat(value: Any) -> str:
    if isinstance(value, dict) and value:
        return "{ " + ", ".join(f"{_scalar(name)}: {_flat(member)}" for name, member in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flat, value)) + "]"
    return _scalar(value)


def _scalar(value: Any) -> str:
    """As JSON. What does not show itself is written by its number: nobody can edit what cannot be seen."""
    text = json.dumps(value, ensure_ascii=False)
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else json.dumps(letter)[1:-1] for letter in text)
