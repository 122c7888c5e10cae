"""Details of an audit entry.

Values are plain text. The detail pane makes them safe and renders no markup.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime

from client.tables.activity import MACHINES, value_text, who_text
from client.tables.columns import Record, exact, parse_time
from client.tables.default_tags import difference
from tui.widgets.detail import Section

_CREDENTIALS = {"session": "a session", "api_key": "API key", "workload": "workload identity", "staff": "the socket"}
ID = 36
MOST = 40
"""Maximum number of facts shown."""


def of_entry(entry: Record, now: datetime) -> tuple[str, Sequence[Section]]:
    """Return the title and sections of an audit entry."""
    actor = entry.get("actor")
    actor = actor if isinstance(actor, Mapping) else {}
    kind = str(actor.get("kind") or "")
    facts = [("Who", who_text(entry))]
    if kind == "session" and not actor.get("email"):
        left = "no longer a member of the organization"
        facts.append((" ", left if actor.get("name") else "no member of the organization (any more)"))
    if kind in MACHINES and actor.get("name"):
        facts.append(("Made by", str(actor["name"])))
    if actor.get("email"):
        facts.append(("E-mail", str(actor["email"])))
    facts += [
        ("With", _CREDENTIALS.get(kind, kind) or "—"),
        *_when(entry, now),
        ("Outcome", str(entry.get("outcome") or "—")),
    ]
    return str(entry.get("operation") or entry["id"]), [
        ("", facts),
        ("About", _target(entry)),
        ("Facts", facts_of(entry.get("details"))),
        ("Request id", [("", str(entry.get("requestId") or "—"))]),
        *((heading, [("", str(value))]) for heading, value in _ids(entry, actor) if value),
    ]


def _when(entry: Record, now: datetime) -> Sequence[tuple[str, str]]:
    instant, _, ago = exact(entry.get("at"), now).partition(", ")
    return [("When", instant), *([(" ", ago)] if ago else [])]


def _target(entry: Record) -> Sequence[tuple[str, str]]:
    kind, called = entry.get("targetKind"), entry.get("targetName")
    if not kind:
        return [("", str(entry.get("target") or "—"))]
    facts = [(label(str(kind)), str(called or "no longer there")), ("", str(entry.get("targetId") or ""))]
    target = str(entry.get("target") or "")
    return [*facts, ("", target)] if target.startswith("/") else facts


def _ids(entry: Record, actor: Mapping[str, object]) -> Sequence[tuple[str, object]]:
    return (("Who's id", actor.get("id")), ("Credential", entry.get("credentialId")), ("Entry", entry.get("id")))


def facts_of(details: object) -> list[tuple[str, str]]:
    """Return the details of an entry as labels and values.

    `{"from": …, "to": …}`, at the top or as a member, is a change. `status` and `code` are those of a refusal.
    """
    if not isinstance(details, Mapping) or not details:
        return [("", "none were written")]
    rest = dict(details)
    facts: list[tuple[str, str]] = []
    if "from" in rest and "to" in rest:
        facts.append(("Change", change(rest.pop("from"), rest.pop("to"))))
    if "code" in rest and "status" in rest:
        facts.append(("Refused", f"{value_text(rest.pop('code'))} ({value_text(rest.pop('status'))})"))
    for name, value in rest.items():
        if isinstance(value, Mapping) and set(value) == {"from", "to"}:
            facts.append((label(name), change(value["from"], value["to"])))
        else:
            facts.append((label(name), value_text(value)))
    left = len(facts) - MOST
    visible = facts if left <= 0 else [*facts[:MOST], ("", f"and {left:,} more: y copies all as JSON")]
    return [line for name, value in visible for line in _lines(name, value)]


def _lines(name: str, value: str) -> Sequence[tuple[str, str]]:
    """Put an id on a line of its own, where it is not wrapped."""
    return [(name, ""), ("", value)] if len(value) == ID and " " not in value else [(name, value)]


def change(before: object, after: object) -> str:
    """Return a change: `Web Shop → Web Shop 2`; of lists, `+ compute:write, − storage:read`.

    Tags are formatted as in the commands: `~ env=dev (was prod)`.
    """
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        return ", ".join(difference(_texts(before), _texts(after)).lines()) or "the same"
    if isinstance(before, list) and isinstance(after, list):
        came = [f"+ {value_text(one)}" for one in after if one not in before]
        went = [f"− {value_text(one)}" for one in before if one not in after]
        return ", ".join((*came, *went)) or "the same"
    return f"{value_text(before)} → {value_text(after)}"


def _texts(members: Mapping[str, object]) -> dict[str, str]:
    return {name: value_text(value) for name, value in members.items()}


def label(name: str) -> str:
    """Return the label of a member: `Display name` for `displayName`, `API key` for `api_key`."""
    text = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name).replace("_", " ").lower()
    return re.sub(r"\bapi\b", "API", f"{text[:1].upper()}{text[1:]}", flags=re.IGNORECASE)


def short_time(value: object, now: datetime) -> str:
    """Return a UTC time in few cells: `10:05:12` today, `11-20 10:05` this year, otherwise the date."""
    moment = parse_time(value)
    if moment is None:
        return str(value or "—")
    if moment.date() == now.date():
        return f"{moment:%H:%M:%S}"
    return f"{moment:%m-%d %H:%M}" if moment.year == now.year else f"{moment:%Y-%m-%d}"
