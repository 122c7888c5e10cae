"""What the screens remember between two runs: `$HOME/.cli/state.json`, versioned, written whole or not at all.

Only what was on the screen and how it was looked at: tenants used lately, sort, filter, theme, lines of the
`:` prompt, and the last rows so that the next start has something to show at once. Never a secret: the
members of a row are named here, anything else of a record stays out.
"""

import contextlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from client.folders import make_private

VERSION = 1
ROWS = 300
RECENT = 20
LARGEST = 4 * 1024 * 1024
REMEMBERED_OF_A_TENANT = (
    "id",
    "displayName",
    "slug",
    "status",
    "organizationId",
    "organizationName",
    "role",
    "defaultTagCount",
    "createdAt",
    "updatedAt",
    "tightestQuota",
)


@dataclass(slots=True)
class ContextMemory:
    """What belongs to one context: its rows must never be shown under another."""

    endpoint: str = ""
    """The endpoint the rows came from; with another one they are not shown."""
    tenants: list[dict[str, Any]] = field(default_factory=list)
    recent: list[str] = field(default_factory=list)
    """Ids of tenants used, the latest first."""
    who: str = ""


@dataclass(slots=True)
class State:
    """Everything remembered."""

    place: str = ""
    theme: str = ""
    sort: dict[str, list[Any]] = field(default_factory=dict)
    """Place -> [column, reverse]."""
    lines: list[str] = field(default_factory=list)
    contexts: dict[str, ContextMemory] = field(default_factory=dict)
    hinted: bool = False
    """Whether the hint of the first run was shown."""

    def of(self, context: str, endpoint: str) -> ContextMemory:
        """The memory of a context; empty when it spoke to another endpoint the last time."""
        memory = self.contexts.get(context)
        if memory is None or memory.endpoint != endpoint:
            memory = self.contexts[context] = ContextMemory(endpoint)
        return memory


def remembered(tenants: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows cut to what may be kept."""
    return [{key: row[key] for key in REMEMBERED_OF_A_TENANT if key in row} for row in tenants[:ROWS]]


def path_of(environ: Mapping[str, str]) -> Path:
    """Where the state of this person lives."""
    return Path(environ.get("HOME") or Path("~").expanduser()) / ".cli" / "state.json"


def load(path: Path) -> State:
    """The state, or a fresh one when there is none, when it is damaged, foreign, or of another version."""
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            if status.st_uid != os.getuid() or status.st_size > LARGEST:
                return State()
            document = json.load(file)
        return _state(document)
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return State()


def _state(document: Any) -> State:
    if not isinstance(document, dict) or document.get("version") != VERSION:
        return State()
    state = State()
    for member in fields(State):
        value = document.get(member.name)
        if member.name != "contexts" and isinstance(value, type(getattr(state, member.name))):
            setattr(state, member.name, value)
    state.lines = [line for line in state.lines if isinstance(line, str)]
    state.sort = {place: sort for place, sort in state.sort.items() if isinstance(sort, list)}
    for name, memory in (document.get("contexts") or {}).items():
        tenants = [row for row in memory.get("tenants", []) if _is_row(row)]
        recent = [tenant for tenant in memory.get("recent", []) if isinstance(tenant, str)]
        state.contexts[name] = ContextMemory(
            str(memory.get("endpoint", "")), tenants, recent, str(memory.get("who", ""))
        )
    return state


def _is_row(row: Any) -> bool:
    """Whether a row has the shape it was written with: a place computes with it."""
    if not isinstance(row, dict) or not isinstance(row.get("id"), str):
        return False
    quota = row.get("tightestQuota") or {"limit": 0}
    figures = (quota.get("used"), quota.get("limit")) if isinstance(quota, dict) else ("",)
    return all(figure is None or isinstance(figure, int) for figure in figures)


def save(path: Path, state: State) -> None:
    """Write the state beside itself and put it in place; a failure is no reason to disturb anybody."""
    document = {"version": VERSION, **asdict(state)}
    import tempfile

    with contextlib.suppress(OSError):
        make_private(str(path.parent))
        handle, name = tempfile.mkstemp(prefix=".state-", suffix=".tmp", dir=path.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(document, file, ensure_ascii=False, separators=(",", ":"))
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
