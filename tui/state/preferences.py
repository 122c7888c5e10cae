"""State of the screens between two runs: `$HOME/.cli/state.json`, versioned, written atomically.

It contains the open screen, recent tenants, sort order, theme, lines of the `:` prompt and the last rows of the
tenants, for a fast start. It never contains secrets: only the members listed here are stored.
"""

import contextlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from client.paths import home, make_private

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
    """State of one context. Its rows must not be shown for another."""

    endpoint: str = ""
    """The endpoint of the rows. They are not shown for another endpoint."""
    tenants: list[dict[str, Any]] = field(default_factory=list)
    recent: list[str] = field(default_factory=list)
    """Ids of recent tenants, the latest first."""
    who: str = ""


@dataclass(slots=True)
class State:
    """The stored state."""

    screen: str = ""
    theme: str = ""
    sort: dict[str, list[Any]] = field(default_factory=dict)
    """Screen -> [column, reverse]."""
    lines: list[str] = field(default_factory=list)
    contexts: dict[str, ContextMemory] = field(default_factory=dict)
    hinted: bool = False
    """Whether the note of the first run was shown."""

    def of(self, context: str, endpoint: str) -> ContextMemory:
        """Return the state of a context; empty if its endpoint has changed."""
        memory = self.contexts.get(context)
        if memory is None or memory.endpoint != endpoint:
            memory = self.contexts[context] = ContextMemory(endpoint)
        return memory


def remembered(tenants: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return rows with only the stored members."""
    return [{key: row[key] for key in REMEMBERED_OF_A_TENANT if key in row} for row in tenants[:ROWS]]


def path_of(environ: Mapping[str, str]) -> Path:
    """Return the path of the user's state file."""
    return Path(home(environ)) / ".cli" / "state.json"


def load(path: Path) -> State:
    """Read the state; a new one if the file is missing, damaged, owned by another user, or of another version."""
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
    state.sort = {screen: sort for screen, sort in state.sort.items() if isinstance(sort, list)}
    for name, memory in (document.get("contexts") or {}).items():
        tenants = [row for row in memory.get("tenants", []) if _is_row(row)]
        recent = [tenant for tenant in memory.get("recent", []) if isinstance(tenant, str)]
        state.contexts[name] = ContextMemory(
            str(memory.get("endpoint", "")), tenants, recent, str(memory.get("who", ""))
        )
    return state


def _is_row(row: Any) -> bool:
    """Return whether a stored row has a valid shape."""
    if not isinstance(row, dict) or not isinstance(row.get("id"), str):
        return False
    quota = row.get("tightestQuota") or {"limit": 0}
    figures = (quota.get("used"), quota.get("limit")) if isinstance(quota, dict) else ("",)
    return all(figure is None or isinstance(figure, int) for figure in figures)


def save(path: Path, state: State) -> None:
    """Write the state atomically. Ignore errors: the state is not essential."""
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
