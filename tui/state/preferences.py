"""State of the screens between two runs: `$HOME/.cli/state.json`, versioned, written atomically.

It contains the open screen and its principal, recent tenants, sort order, theme, lines of the `:` prompt and the last
rows of the tenants, for a fast start. It never contains secrets: only the members listed here are stored.

Several programs share the file. Each merges its own changes into it, under a lock.
"""

import contextlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from client.errors import FrostError
from client.paths import home, make_private

if TYPE_CHECKING:
    from client.models.tenants import Tenant

T = TypeVar("T")

VERSION = 1
ROWS = 300
RECENT = 20
LINES = 100
LARGEST = 4 * 1024 * 1024
LOCK_SECONDS = 0.5
"""How long a save waits for another program. The save is skipped then: it must not delay the end of this program."""


@dataclass(frozen=True, slots=True)
class RememberedQuota:
    """The attributes of a `TightestQuota`."""

    resource_type: str
    title: str
    used: int | None
    limit: int | None
    unit: str

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> "RememberedQuota":
        """Return the quota of a JSON object."""
        resource_type, title, unit = (str(row.get(key) or "") for key in ("resourceType", "title", "unit"))
        return cls(resource_type, title, row.get("used"), row.get("limit"), unit)

    def wire(self) -> Mapping[str, Any]:
        """Return the JSON object."""
        texts = {"resourceType": self.resource_type, "title": self.title, "unit": self.unit}
        return {"used": self.used, "limit": self.limit, **{name: text for name, text in texts.items() if text}}


@dataclass(frozen=True)
class RememberedTenant:
    """A tenant of an earlier run, with attributes of `Tenant`. The first frame shows it without pydantic."""

    id: str
    display_name: str = ""
    slug: str = ""
    status: str = ""
    organization_id: str = ""
    organization_name: str = ""
    role: str = ""
    default_tag_count: int | None = None
    created_at: str = ""
    updated_at: str = ""
    tightest_quota: RememberedQuota | None = None

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> "RememberedTenant":
        """Return the tenant of a JSON object. Other members, which may be secret, are left out."""
        count, quota = row.get("defaultTagCount"), row.get("tightestQuota")

        def text(key: str) -> str:
            return str(row.get(key) or "")

        return cls(
            id=text("id"),
            display_name=text("displayName"),
            slug=text("slug"),
            status=text("status"),
            organization_id=text("organizationId"),
            organization_name=text("organizationName"),
            role=text("role"),
            default_tag_count=count if isinstance(count, int) else None,
            created_at=text("createdAt"),
            updated_at=text("updatedAt"),
            tightest_quota=RememberedQuota.of_row(quota) if quota else None,
        )

    def wire(self) -> Mapping[str, Any]:
        """Return the JSON object, which the columns read and the file contains."""
        return self._wire

    @cached_property
    def _wire(self) -> Mapping[str, Any]:
        row = {
            "id": self.id,
            "displayName": self.display_name,
            "slug": self.slug,
            "status": self.status,
            "organizationId": self.organization_id,
            "organizationName": self.organization_name,
            "role": self.role,
            "defaultTagCount": self.default_tag_count,
            "createdAt": self.created_at,
            "updatedAt": self.updated_at,
            "tightestQuota": self.tightest_quota.wire() if self.tightest_quota is not None else None,
        }
        return {key: value for key, value in row.items() if value not in (None, "")}


TenantRecord: TypeAlias = "Tenant | RememberedTenant"
"""A tenant as the platform sent it, or as an earlier run stored it."""


@dataclass(slots=True)
class ContextMemory:
    """State of one context. Its rows must not be shown for another."""

    endpoint: str = ""
    """The endpoint of the rows. They are not shown for another endpoint."""
    tenants: list[RememberedTenant] = field(default_factory=list)
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
    screen_of: str = ""
    """The principal who opened `screen`. Another one starts on the first screen."""

    def of(self, context: str, endpoint: str) -> ContextMemory:
        """Return the state of a context; empty if its endpoint has changed."""
        memory = self.contexts.get(context)
        if memory is None or memory.endpoint != endpoint:
            memory = self.contexts[context] = ContextMemory(endpoint)
        return memory

    def copy(self) -> "State":
        """Return a copy that later changes of this state do not change."""
        memories = {name: replace(memory, recent=[*memory.recent]) for name, memory in self.contexts.items()}
        return replace(self, sort=dict(self.sort), lines=[*self.lines], contexts=memories)


def remembered(tenants: Sequence[TenantRecord]) -> list[RememberedTenant]:
    """Return the first tenants, to be stored."""
    return [RememberedTenant.of_row(tenant.wire()) for tenant in tenants[:ROWS]]


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
        tenants = [RememberedTenant.of_row(row) for row in memory.get("tenants", []) if _is_row(row)]
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


def save(path: Path, state: State, base: State, *, lock_seconds: float = LOCK_SECONDS) -> bool:
    """Merge the changes between `base` and `state` into the file, atomically. Return whether they were saved.

    Ignore errors and skip the save if another program holds the lock: the state is not essential.
    """
    from client.config.file import locked

    with contextlib.suppress(OSError, FrostError):
        make_private(str(path.parent))
        with locked(str(path), seconds=lock_seconds):
            _write(path, merge(base, state, load(path)))
            return True
    return False


def _write(path: Path, state: State) -> None:
    import tempfile

    memories = {
        name: {**asdict(replace(memory, tenants=[])), "tenants": [tenant.wire() for tenant in memory.tenants]}
        for name, memory in state.contexts.items()
    }
    document = {"version": VERSION, **asdict(replace(state, contexts={})), "contexts": memories}
    handle, name = tempfile.mkstemp(prefix=".state-", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(document, file, ensure_ascii=False, separators=(",", ":"))
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def merge(base: State, own: State, stored: State) -> State:
    """Return the stored state with the changes that this program made since it loaded `base`."""
    screen, screen_of = _own_if_changed(*((one.screen, one.screen_of) for one in (base, own, stored)))
    return State(
        screen=screen,
        screen_of=screen_of,
        theme=_own_if_changed(base.theme, own.theme, stored.theme),
        sort={**stored.sort, **{key: sort for key, sort in own.sort.items() if sort != base.sort.get(key)}},
        lines=_merge_recent(base.lines[::-1], own.lines[::-1], stored.lines[::-1], LINES)[::-1],
        contexts={
            name: _merge_memory(base.contexts.get(name), own.contexts.get(name), stored.contexts.get(name))
            for name in {**stored.contexts, **own.contexts}
        },
        hinted=own.hinted or stored.hinted,
    )


def _own_if_changed(base: T, own: T, stored: T) -> T:
    return own if own != base else stored


def _merge_memory(base: ContextMemory | None, own: ContextMemory | None, stored: ContextMemory | None) -> ContextMemory:
    if own is None or stored is None or own.endpoint != stored.endpoint:
        # Rows and tenants of one endpoint must not be shown for another.
        return _own_if_changed(base, own, stored) or own or stored or ContextMemory()
    if base is None or base.endpoint != own.endpoint:
        base = ContextMemory(own.endpoint)
    return ContextMemory(
        own.endpoint,
        tenants=_own_if_changed(base.tenants, own.tenants, stored.tenants),
        recent=_merge_recent(base.recent, own.recent, stored.recent, RECENT),
        who=_own_if_changed(base.who, own.who, stored.who),
    )


def _merge_recent(base: Sequence[str], own: Sequence[str], stored: Sequence[str], most: int) -> list[str]:
    """Merge lists without duplicates, the latest first: the entries that this program used, then the stored ones."""
    rest = len(own)
    while rest > 0 and [*own[rest - 1 :]] == [old for old in base if old not in own[: rest - 1]][: len(own) - rest + 1]:
        rest -= 1
    removed = set(base) - set(own)
    return [entry for entry in dict.fromkeys((*own[:rest], *stored)) if entry not in removed][:most]
