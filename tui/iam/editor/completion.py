"""Completions for the text of a document and the fields of the request.

Operations and targets are completed part by part, which limits the length of the list.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from client.models.iam import CatalogueOperation
from client.texts.effects import counted
from tui.iam.editor import request
from tui.iam.editor.json_scanner import CursorContext, Span, cursor_context

MOST = 60
OPERATORS = {
    "equals": "equal to the value",
    "notEquals": "not equal to the value",
    "like": "matches a pattern; * is any text",
    "ipInRange": "in a network (CIDR)",
    "before": "before a time",
    "after": "after a time",
}
TEXT_KEYS = {
    "frn:region": "region of the request",
    "frn:principalType": "api_key, workload_identity or user",
    "frn:tenant": "tenant of the request",
    "frn:resourceTag/": "a tag of the resource",
    "frn:requestTag/": "a tag sent with the request",
}
TIME_KEYS = {"frn:currentTime": "time of the request"}
KEYS = {"ipInRange": {"frn:sourceIp": "address of the caller"}, "before": TIME_KEYS, "after": TIME_KEYS}
RULE_MEMBERS = {
    "name": '"name": "|"',
    "access": '"access": "|"',
    "operations": '"operations": ["|"]',
    "targets": '"targets": ["|"]',
    "constraints": '"constraints": { | }',
}
DOCUMENT_MEMBERS = {"schemaVersion": '"schemaVersion": "1"', "rules": '"rules": [|]'}


class Choice(NamedTuple):
    text: str
    note: str = ""
    more: bool = False
    """Whether another part follows. Its completions are offered immediately."""
    snippet: str = ""
    """Inserted instead of `text` if not empty. `|` marks the cursor."""


@dataclass(frozen=True)
class Offer:
    """Completions that can replace a part of the text."""

    span: Span
    choices: Sequence[Choice]
    typed: str
    context: CursorContext | None = None


class Catalogue:
    """The operations as a tree: service -> resource -> action -> access level."""

    def __init__(self, operations: Iterable[CatalogueOperation] = ()) -> None:
        self.tree: dict[str, dict[str, dict[str, str]]] = {}
        self.names: list[str] = []
        for operation in operations:
            service, _, rest = operation.name.partition(":")
            resource, _, action = rest.partition(":")
            self.tree.setdefault(service, {}).setdefault(resource, {})[action] = operation.access_level
            self.names.append(operation.name)

    def operations(self, typed: str, *, patterns: bool) -> list[Choice]:
        """Return completions for the next part of an operation; with `patterns` also `*`."""
        parts = typed.split(":")
        earlier, last = parts[:-1], parts[-1]
        candidates: list[Choice] = []
        if not earlier:
            stars = [Choice("*", "everything"), Choice("*:", "in every service", more=True)] if patterns else []
            candidates = [
                *(
                    Choice(f"{service}:", counted(sum(map(len, kinds.values())), "operation"), more=True)
                    for service, kinds in self.tree.items()
                ),
                *stars,
            ]
        elif len(earlier) == 1:
            service = earlier[0]
            kinds = self._kinds(service)
            candidates = [
                Choice(f"{service}:{kind}:", counted(len(acts), "operation"), more=True) for kind, acts in kinds.items()
            ]
            if patterns:
                whole = Choice(f"{service}:*", f"all of {service}") if service != "*" else None
                candidates += [*([whole] if whole else []), Choice(f"{service}:*:", "every resource", more=True)]
        elif len(earlier) == 2:
            before = ":".join(earlier)
            acts = self._actions(*earlier)
            candidates = [Choice(f"{before}:{action}", level) for action, level in acts.items()]
            if patterns:
                candidates.append(Choice(f"{before}:*", counted(len(acts), "operation")))
        choices = [choice for choice in candidates if choice.text.startswith(typed)]
        if choices or len(last) < 2:
            return choices
        # Without a match of the prefix, match any part of a name.
        return [Choice(name) for name in self.names if typed in name][:MOST]

    def _kinds(self, service: str) -> dict[str, dict[str, str]]:
        if service != "*":
            return self.tree.get(service, {})
        return {kind: acts for kinds in self.tree.values() for kind, acts in kinds.items()}

    def _actions(self, service: str, kind: str) -> dict[str, str]:
        services = self.tree.values() if service == "*" else [self.tree.get(service, {})]
        candidates: dict[str, str] = {}
        for kinds in services:
            for name, acts in kinds.items():
                if kind in ("*", name):
                    candidates |= acts
        return dict(sorted(candidates.items()))

    def targets(self, typed: str) -> list[Choice]:
        """Return completions for the next part of a target `frn:service:region:tenant:type/id`."""
        parts = typed.split(":", 4)
        before = ":".join(parts[:-1])
        match len(parts):
            case 1:
                candidates = [
                    Choice("*", "anything"),
                    Choice("frn:", "service, region, tenant, type and id", more=True),
                ]
            case 2:
                candidates = [Choice(f"frn:{service}:", "", more=True) for service in (*self.tree, "*")]
            case 3:
                candidates = [Choice(f"{before}:*:", "any region", more=True)]
            case 4:
                candidates = [Choice(f"{before}:*:", "this tenant", more=True)]
            case _:
                kinds = self._kinds(parts[1])
                candidates = [Choice(f"{before}:{kind}/*", f"all {kind}") for kind in kinds]
                candidates += [Choice(f"{before}:{kind}/", "one resource by id", more=True) for kind in kinds]
                candidates.append(Choice(f"{before}:*", "every type"))
        return [choice for choice in candidates if choice.text.startswith(typed)]


def in_text(text: str, at: int, catalogue: Catalogue) -> Offer | None:
    """Return the completions at an offset of a document; None without any."""
    here = cursor_context(text, at)
    if here is None:
        return None
    candidates = _members(here) if here.expects == "member" else _values(here, catalogue)
    choices = [choice for choice in candidates if choice.text.startswith(here.typed) or here.typed in choice.text]
    if [choice.text for choice in choices] == [here.typed]:
        choices = []  # already complete
    return Offer(here.span, choices[:MOST], here.typed, here) if choices else None


def _members(here: CursorContext) -> list[Choice]:
    match here.path:
        case ():
            table, kind = DOCUMENT_MEMBERS, ""
        case ("rules", int()):
            table, kind = RULE_MEMBERS, ""
        case ("rules", int(), "constraints"):
            return [
                Choice(name, note, snippet=f'"{name}": {{ | }}')
                for name, note in OPERATORS.items()
                if name not in here.names
            ]
        case ("rules", int(), "constraints", str() as operator):
            keys = KEYS.get(operator, TEXT_KEYS)
            value = '["|"]' if operator == "ipInRange" else '"|"'
            return [
                Choice(name, note, more=name.endswith("/"), snippet="" if name.endswith("/") else f'"{name}": {value}')
                for name, note in keys.items()
                if name not in here.names
            ]
        case _:
            return []
    return [Choice(name, kind, snippet=snippet) for name, snippet in table.items() if name not in here.names]


def _values(here: CursorContext, catalogue: Catalogue) -> list[Choice]:
    match here.path:
        case ("schemaVersion",):
            return [Choice("1")]
        case ("rules", int(), "access"):
            return [
                Choice("allow", "allows matching requests"),
                Choice("deny", "denies; takes precedence over allow"),
            ]
        case ("rules", int(), "operations", int()):
            return catalogue.operations(here.typed, patterns=True)
        case ("rules", int(), "targets", int()):
            return catalogue.targets(here.typed)
        case ("rules", int(), "constraints") if not here.quoted:
            return [
                Choice(f'{{ "{name}": … }}', note, snippet=f'{{ "{name}": {{ | }} }}')
                for name, note in OPERATORS.items()
            ]
        case ("rules", int(), "constraints", _, "frn:principalType"):
            return [Choice(kind) for kind in request.PRINCIPAL_TYPES]
    return []


def in_field(name: str, typed: str, catalogue: Catalogue) -> list[Choice]:
    """Return completions for the text `typed` in a field of the request."""
    match name:
        case "operation":
            candidates = catalogue.operations(typed, patterns=False)
        case "target":
            candidates = catalogue.targets(typed)
        case "principalType":
            candidates = [Choice(kind) for kind in request.PRINCIPAL_TYPES]
        case "requestTags" | "resourceTags":
            candidates = [Choice(request.NONE, "no tags")]
        case "currentTime":
            candidates = [Choice(request.UNKNOWN, "time unknown")]
        case "asAuthor":
            candidates = [Choice("on", "within your own permissions"), Choice("off", "only the draft")]
        case _:
            candidates = []
    candidates = [
        choice for choice in candidates if choice.text.startswith(typed) or (len(typed) > 1 and typed in choice.text)
    ]
    return [] if [choice.text for choice in candidates] == [typed] else candidates[:MOST]


def edit_for(offer: Offer, choice: Choice) -> tuple[Span, str, int]:
    """Return the edit for a choice: the span to replace, its new text, and the cursor's offset in that text."""
    here = offer.context
    assert here is not None
    if not choice.snippet or here.followed:
        if here.quoted:
            text, cursor = choice.text, len(choice.text)
            if not choice.more:
                # The string is complete: move the cursor behind its closing quote.
                return (
                    (Span(here.span.start, here.span.end + 1), f'{text}"', cursor + 1)
                    if here.closed
                    else (here.span, f'{text}"', cursor + 1)
                )
            return here.span, text if here.closed else f'{text}"', cursor
        return here.span, f'"{choice.text}"', len(choice.text) + (1 if choice.more else 2)
    before, bar, after = choice.snippet.partition("|")
    start = here.span.start - (1 if here.quoted else 0)
    end = here.span.end + (1 if here.quoted and here.closed else 0)
    return Span(start, end), before + after, len(before) if bar else len(before + after)
