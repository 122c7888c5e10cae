"""Find a record by its name: which texts are ids, how names compare, and the error for an ambiguous name."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from client.errors import FrostError
from client.text import safe, width

AMBIGUOUS = "AMBIGUOUS_NAME"
T = TypeVar("T")
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII | re.IGNORECASE)
_MAX_LISTED = 10
_CELLS = {"id": 40, "slug": 80}
_OTHER_CELLS = 60
_NAME_CELLS = 130


class NamedKind(NamedTuple):
    """A type of records that have names.

    Attributes:
        noun: The type in messages, in the singular.
        plural: The same in the plural.
        member: The member of an error's details with the candidates of an ambiguous name.
        names: Returns the names of a record. Each of them selects it.
        details: The members of a candidate in the details of the error.
        columns: The members of a candidate in its line.
        relation: The words between a name and the number of its records.
        exact_first: Whether a name in exactly this spelling wins over others. For tenants all spellings count alike.
    """

    noun: str
    plural: str
    member: str
    names: Callable[[Mapping[str, Any]], tuple[str, ...]]
    details: tuple[str, ...]
    columns: tuple[str, ...]
    relation: str = "is the name of"
    exact_first: bool = True


def _name(record: Mapping[str, Any]) -> tuple[str, ...]:
    return (str(record["name"]),)


def _name_and_slug(record: Mapping[str, Any]) -> tuple[str, ...]:
    return (str(record["name"]), str(record["slug"]))


def _display_name_and_slug(record: Mapping[str, Any]) -> tuple[str, ...]:
    return (str(record["displayName"]), str(record["slug"]))


def _service_account(record: Mapping[str, Any]) -> tuple[str, ...]:
    return (f"{record['namespace']}/{record['serviceAccount']}",)


_EITHER = "is the name or slug of"
_KEY = ("id", "name", "status", "tenantName")
_IDENTITY = ("id", "namespace", "serviceAccount", "clusterId")
_TENANT = ("id", "displayName", "slug", "organizationId", "organizationName")
_SLUG = ("id", "slug", "organizationName")
TENANT = NamedKind("tenant", "tenants", "tenants", _display_name_and_slug, _TENANT, _SLUG, _EITHER, exact_first=False)
ORGANIZATION = NamedKind(
    "organization", "organizations", "organizations", _name_and_slug, ("id", "name", "slug"), ("id", "slug"), _EITHER
)
POLICY = NamedKind("policy", "policies", "policies", _name, ("id", "name"), ("id", "name"))
GROUP = NamedKind("group", "groups", "groups", _name, ("id", "name"), ("id", "name"))
API_KEY = NamedKind("API key", "API keys", "apiKeys", _name, _KEY, _KEY)
WORKLOAD_IDENTITY = NamedKind(
    "workload identity", "workload identities", "workloadIdentities", _service_account, _IDENTITY, _IDENTITY
)
_KINDS = {kind.member: kind for kind in (TENANT, ORGANIZATION, POLICY, GROUP, API_KEY, WORKLOAD_IDENTITY)}


def is_id(text: str) -> bool:
    """Return whether a text has the form of the platform's ids. Such a text is always an id, never a name."""
    return _UUID.fullmatch(text) is not None


def normalize_name(text: str) -> str:
    """Return a name as the platform stores it: in normal form C, without surrounding whitespace."""
    return unicodedata.normalize("NFC", text).strip()


def folded(text: str) -> str:
    """Return the canonical caseless form of a stored name (Unicode 3.13, D145)."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", normalize_name(text)).casefold())


def find_by_name(
    records: Iterable[T], name: str, names_of: Callable[[T], Iterable[str]], *, exact_first: bool = True
) -> list[T]:
    """Return the records with a name in exactly this spelling; without any, those with the name in any letter case.

    With `exact_first` false, all spellings count alike.
    """
    exact, folded_name = normalize_name(name), folded(name)
    matches = [record for record in records if folded_name in map(folded, names_of(record))]
    if not exact_first:
        return matches
    return [record for record in matches if exact in map(normalize_name, names_of(record))] or matches


def match(
    kind: NamedKind,
    records: Iterable[Mapping[str, Any]],
    name: str,
    *,
    prefer: Callable[[Mapping[str, Any]], bool] | None = None,
) -> dict[str, Any] | None:
    """Return the only record with a name, in any letter case; None if there is none.

    A name in exactly this spelling wins over other letter cases, except for tenants. Otherwise names are compared in
    canonical caseless form, so that every encoding of `É` matches, but not similar letters of another script.

    Args:
        kind: The type of the records.
        records: JSON objects of the platform.
        name: The user's input.
        prefer: Returns whether a record wins over others with the name in the same spelling.

    Raises:
        FrostError: Several records have the name (exit 1). Its details have the candidates.
    """
    matches = find_by_name(records, name, kind.names, exact_first=kind.exact_first)
    if prefer is not None:
        matches = [record for record in matches if prefer(record)] or matches
    if len(matches) > 1:
        raise FrostError(
            f"{safe(name, _NAME_CELLS)!r} {kind.relation} {len(matches)} {kind.plural}",
            code=AMBIGUOUS,
            hint="use one of the IDs",
            details={"count": len(matches), kind.member: _candidates(kind, matches[:_MAX_LISTED])},
        )
    return dict(matches[0]) if matches else None


def _candidates(kind: NamedKind, matches: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{member: record.get(member) for member in kind.details} for record in matches]


def ambiguous_lines(error: FrostError) -> list[str]:
    """Return a line for each candidate of an ambiguous name, with its id and the columns of its type."""
    details = error.details or {}
    for member, kind in _KINDS.items():
        if member in details:
            rows = [_cells(kind, record) for record in details[member]]
            more = details["count"] - len(rows)
            return [*_align(rows), *([f"  and {more} more"] if more > 0 else [])]
    return []


def _cells(kind: NamedKind, record: Mapping[str, Any]) -> list[str]:
    return [safe(record.get(column) or "", _CELLS.get(column, _OTHER_CELLS)) for column in kind.columns]


def _align(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(width, column)) for column in zip(*rows, strict=True)]
    return [
        "  "
        + "  ".join(f"{cell}{' ' * (cells - width(cell))}" for cell, cells in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
