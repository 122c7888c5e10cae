"""Parses and validates policy documents.

Every unknown member, operator or key is an error: an ignored constraint would widen access.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Literal, cast
from unicodedata import is_normalized

from client.models.strict_json import Path, StrictJsonError, loads, walk
from client.policy.coverage import Catalogue
from client.policy.instants import InvalidTime, parse_instant, parse_stored_timestamp
from client.policy.matching import STAR, InvalidPattern, parse_operation_pattern, parse_target
from client.policy.model import (
    CURRENT_TIME,
    OPERATORS,
    SOURCE_IP,
    TAG_KEYS,
    TEXT_KEYS,
    TEXT_OPERATORS,
    TIME_OPERATORS,
    Constraint,
    Document,
    Effect,
    Operator,
    Rule,
    explain_invalid_block,
    parse_cidr_block,
)
from client.policy.problems import MAX_PROBLEMS, Finding, Problem, first_problems, json_problems, locate_findings

MAX_BYTES = 256 * 1024
MAX_DEPTH = 16
MAX_RULES = 500
MAX_OPERATIONS = 4_096
MAX_NAME_LENGTH = 128
MAX_TEXT_LENGTH = 1_024

MEMBERS = ("schemaVersion", "rules")
RULE_MEMBERS = ("name", "access", "operations", "targets", "constraints")
KEYS = (SOURCE_IP, CURRENT_TIME, *TEXT_KEYS, *(f"{key}<key>" for key in TAG_KEYS))

# Member names of other policy languages, in lower case and singular.
_FOREIGN_NAMES = {
    "version": "schemaVersion",
    "statement": "rules",
    "sid": "name",
    "effect": "access",
    "action": "operations",
    "permission": "operations",
    "resource": "targets",
    "condition": "constraints",
}

RegionTargets = Literal["accept", "refuse"]


class InvalidDocument(ValueError):
    """The document is invalid. `problems` has the first problems, in text order."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__(str(problems[0]))
        self.problems = problems


@dataclass(frozen=True, slots=True)
class ParsedDocument:
    """A valid document, with warnings about probably unintended content."""

    document: Document
    warnings: tuple[Problem, ...] = ()


def parse_document(
    text: str | bytes, catalogue: Catalogue, *, region_targets: RegionTargets = "accept"
) -> ParsedDocument:
    """Parse a document. Raises `InvalidDocument` with up to `MAX_PROBLEMS` problems."""
    repeated: list[StrictJsonError] = []
    try:
        value = loads(text, max_bytes=MAX_BYTES, max_depth=MAX_DEPTH, repeated=repeated)
    except StrictJsonError as error:
        raise InvalidDocument(first_problems([*json_problems(repeated), *json_problems([error])])) from None
    parser = _Parser(catalogue, region_targets)
    rules: tuple[Rule, ...] = ()
    with suppress(_TooManyProblems):
        rules = parser.document(value)
    if not parser.findings and not parser.warnings and not repeated:
        return ParsedDocument(Document(rules))
    source = (text if isinstance(text, str) else text.decode()).removeprefix("\ufeff")
    offsets = dict(walk(source, MAX_DEPTH, []))
    if parser.findings or repeated:
        raise InvalidDocument(
            first_problems(
                [*json_problems(repeated), *locate_findings(parser.findings, offsets, source, parser.unknown_names)]
            )
        )
    return ParsedDocument(Document(rules), first_problems(locate_findings(parser.warnings, offsets, source)))


def canonical(document: Document) -> dict[str, Any]:
    """Return the stored form: members in a fixed order, always a `name`, no empty `constraints`, arrays unchanged."""
    return {"schemaVersion": "1", "rules": [_canonical_rule(rule) for rule in document.rules]}


def canonical_text(document: Document) -> str:
    return json.dumps(canonical(document), ensure_ascii=False, separators=(",", ":"))


def _canonical_rule(rule: Rule) -> dict[str, Any]:
    members: dict[str, Any] = {
        "name": rule.name,
        "access": rule.effect,
        "operations": list(rule.operation_texts),
        "targets": list(rule.target_texts),
    }
    constraints: dict[str, dict[str, Any]] = {}
    for operator, key, values in rule.constraints:
        constraints.setdefault(operator, {})[key] = list(values) if operator == "ipInRange" else values[0]
    if constraints:
        members["constraints"] = constraints
    return members


class _TooManyProblems(Exception):
    """The maximum number of problems is reached."""


class _Parser:
    """Collects the problems of a decoded document. The result is valid only without problems."""

    def __init__(self, catalogue: Catalogue, region_targets: RegionTargets) -> None:
        self.catalogue = catalogue
        self.region_targets = region_targets
        self.findings: list[Finding] = []
        self.warnings: list[Finding] = []
        self.unknown_names: set[Path] = set()
        """Paths of findings about member names."""
        self.patterns = 0

    def add_problem(self, path: Path, reason: str, suggestions: tuple[str, ...] = ()) -> None:
        self.findings.append((path, reason, suggestions))
        if len(self.findings) == MAX_PROBLEMS:
            raise _TooManyProblems

    def add_warning(self, path: Path, reason: str) -> None:
        if len(self.warnings) < MAX_PROBLEMS:
            self.warnings.append((path, reason, ()))

    def _check_normal_form(self, path: Path, text: str) -> None:
        """Warn of a literal that most likely equals no text: programs send form C, and nothing is normalised."""
        if not text.isascii() and not is_normalized("NFC", text):
            self.add_warning(path, f"{_quote(text)} is not in Unicode normal form C; texts are compared by code point")

    def document(self, value: object) -> tuple[Rule, ...]:
        if not isinstance(value, dict):
            self.add_problem((), "a policy document must be an object with schemaVersion and rules")
            return ()
        self._check_members((), value, MEMBERS)
        if "schemaVersion" not in value:
            self.add_problem((), 'schemaVersion is missing: this platform supports version "1"')
        elif value["schemaVersion"] != "1" or not isinstance(value["schemaVersion"], str):
            self.add_problem(("schemaVersion",), 'this platform supports schemaVersion "1", as a string')
        if "rules" not in value:
            self.add_problem((), "rules is missing: expected a list of at least one rule")
            return ()
        rules = value["rules"]
        if not isinstance(rules, list) or not rules:
            self.add_problem(("rules",), "rules must be a list of at least one rule")
            return ()
        if len(rules) > MAX_RULES:
            self.add_problem(("rules", MAX_RULES), f"{len(rules)} rules are too many: at most {MAX_RULES}")
            return ()
        parsed = [self._rule(("rules", index), rule) for index, rule in enumerate(rules)]
        return tuple(rule for rule in parsed if rule is not None)

    def _check_members(self, path: Path, value: Mapping[str, object], allowed: tuple[str, ...]) -> None:
        for name in value:
            if name not in allowed:
                foreign = _FOREIGN_NAMES.get(name.casefold().removesuffix("s"))
                suggestions = [foreign] if foreign in allowed else get_close_matches(name, allowed, n=1)
                self.unknown_names.add((*path, name))
                self.add_problem(
                    (*path, name), f"unknown member {_quote(name)}; known: {', '.join(allowed)}", tuple(suggestions)
                )

    def _rule(self, path: Path, value: object) -> Rule | None:
        if not isinstance(value, dict):
            self.add_problem(path, "a rule must be an object")
            return None
        self._check_members(path, value, RULE_MEMBERS)
        name = value.get("name", "")
        if not isinstance(name, str):
            self.add_problem((*path, "name"), "the name of a rule must be a string")
            name = ""
        elif len(name) > MAX_NAME_LENGTH or not name.isprintable():
            self.add_problem(
                (*path, "name"), f"a rule's name has at most {MAX_NAME_LENGTH} characters, none of them invisible"
            )
        effect = value.get("access")
        if effect not in ("allow", "deny"):
            error_path = (*path, "access") if "access" in value else path
            self.add_problem(error_path, 'access must be "allow" or "deny"')
        operations = self._pattern_list(path, value, "operations")
        self.patterns += len(operations)
        if self.patterns > MAX_OPERATIONS:
            self.add_problem((*path, "operations"), f"more than {MAX_OPERATIONS} operation patterns in total")
            return None
        targets = self._pattern_list(path, value, "targets")
        constraints = self._constraints((*path, "constraints"), value.get("constraints", {}))
        parsed_operations = [
            self._operation((*path, "operations", index), text) for index, text in enumerate(operations)
        ]
        parsed_targets = [self._target((*path, "targets", index), text) for index, text in enumerate(targets)]
        if self.findings:
            return None
        return Rule(
            name=name,
            effect=cast(Effect, effect),
            operations=tuple(pattern for pattern in parsed_operations if pattern is not None),
            operation_texts=tuple(operations),
            targets=tuple(target for target in parsed_targets if target is not None),
            target_texts=tuple(targets),
            constraints=tuple(constraints),
        )

    def _pattern_list(self, path: Path, rule: Mapping[str, object], member: str) -> list[str]:
        value = rule.get(member)
        if member not in rule:
            self.add_problem(path, f"{member} is missing: expected a list of at least one pattern")
            return []
        if not isinstance(value, list) or not value:
            self.add_problem((*path, member), f"{member} must be a list of at least one pattern")
            return []
        for index, text in enumerate(value):
            if not isinstance(text, str):
                self.add_problem((*path, member, index), "a pattern must be a string")
                return []
        return value

    def _operation(self, path: Path, text: str) -> Any:
        try:
            pattern = parse_operation_pattern(text)
        except InvalidPattern as error:
            suggestions = self.catalogue.expand(text) if STAR in text else []
            self.add_problem(path, f"{_quote(text)} is not a valid operation pattern: {error}", tuple(suggestions[:5]))
            return None
        if not self.catalogue.has_match(pattern):
            nearest = tuple(self.catalogue.suggest(pattern))
            self.add_problem(path, f"{_quote(text)} matches no operation of the catalogue", nearest)
        return pattern

    def _target(self, path: Path, text: str) -> Any:
        try:
            target = parse_target(text)
        except InvalidPattern as error:
            self.add_problem(path, f"{_quote(text)} is not a valid target: {error}")
            return None
        self._check_normal_form(path, text)
        if self.region_targets == "refuse" and target.region != STAR:
            self.add_problem(path, "the region of a target must be * on this platform")
        return target

    def _constraints(self, path: Path, value: object) -> list[Constraint]:
        constraints: list[Constraint] = []
        if not isinstance(value, dict):
            self.add_problem(path, "constraints must be an object: operator, then key, then value")
            return constraints
        for operator, keys in value.items():
            if operator not in OPERATORS:
                suggestions = tuple(get_close_matches(operator, OPERATORS, n=1, cutoff=0.5))
                self.unknown_names.add((*path, operator))
                self.add_problem((*path, operator), f"unknown operator; known: {', '.join(OPERATORS)}", suggestions)
                continue
            if not isinstance(keys, dict) or not keys:
                self.add_problem((*path, operator), "an operator takes an object with at least one key and its value")
                continue
            for key, operand in keys.items():
                constraint = self._constraint((*path, operator, key), operator, key, operand)
                if constraint is not None:
                    constraints.append(constraint)
        return constraints

    def _constraint(self, path: Path, operator: Operator, key: str, value: object) -> Constraint | None:
        if not _is_known_key(key):
            suggestions = tuple(get_close_matches(key, KEYS, n=1, cutoff=0.5))
            self.unknown_names.add(path)
            self.add_problem(path, f"unknown key; known: {', '.join(KEYS)}", suggestions)
            return None
        if not _is_compatible(operator, key):
            self.add_problem(path, _incompatible_reason(operator))
            return None
        if operator == "ipInRange":
            return self._blocks(path, key, value)
        if not isinstance(value, str) or len(value) > MAX_TEXT_LENGTH:
            self.add_problem(path, f"{operator} takes one string of at most {MAX_TEXT_LENGTH} characters")
            return None
        if operator in TIME_OPERATORS and not self._is_time(path, value):
            return None
        for literal in (key, value):
            self._check_normal_form(path, literal)
        return Constraint(operator, key, (value,))

    def _is_time(self, path: Path, text: str) -> bool:
        """Check a time. One that only earlier versions accepted stays valid, with a warning."""
        try:
            parse_stored_timestamp(text)
        except InvalidTime as error:
            self.add_problem(path, f"{_quote(text)} {error}")
            return False
        try:
            parse_instant(text)
        except InvalidTime as error:
            self.add_warning(path, f"{_quote(text)} {error}")
        return True

    def _blocks(self, path: Path, key: str, value: object) -> Constraint | None:
        if not isinstance(value, list) or not value:
            self.add_problem(path, "ipInRange takes a list of at least one CIDR block")
            return None
        for index, text in enumerate(value):
            if not isinstance(text, str):
                self.add_problem((*path, index), "a CIDR block must be a string")
                return None
            try:
                _, first, last = parse_cidr_block(text)
            except ValueError:
                reason, suggestions = explain_invalid_block(text)
                self.add_problem((*path, index), f"{_quote(text)} is not a valid CIDR block: {reason}", suggestions)
                return None
            if text.endswith("/0") and first == 0:
                self.add_warning((*path, index), f"{text} is every address of its IP version ({last - first + 1:,})")
        return Constraint("ipInRange", key, tuple(value))


def _is_known_key(key: str) -> bool:
    if key in (SOURCE_IP, CURRENT_TIME, *TEXT_KEYS):
        return True
    prefix = next((prefix for prefix in TAG_KEYS if key.startswith(prefix)), None)
    if prefix is None:
        return False
    name = key.removeprefix(prefix)
    return 0 < len(name) <= 255 and name.isprintable() and name == name.strip()


def _is_compatible(operator: str, key: str) -> bool:
    if key == SOURCE_IP:
        return operator == "ipInRange"
    if key == CURRENT_TIME:
        return operator in TIME_OPERATORS
    return operator in TEXT_OPERATORS


def _incompatible_reason(operator: str) -> str:
    if operator == "ipInRange":
        return f"ipInRange can only be used with {SOURCE_IP}"
    if operator in TIME_OPERATORS:
        return f"{operator} can only be used with {CURRENT_TIME}"
    return f"{operator} is only for text keys, not for {SOURCE_IP} (ipInRange) or {CURRENT_TIME} (before, after)"


def _quote(text: str) -> str:
    """Quote a text that is empty, long, or has spaces or characters that a terminal does not show."""
    if not text.isprintable() or len(text) > 80:
        return ascii(text[:80])
    return text if text and " " not in text else repr(text)
