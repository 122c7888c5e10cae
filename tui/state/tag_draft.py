"""A draft of a tenant's default tags, stored only on save. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from client.models import validation as rules
from client.tables.default_tags import TagChanges, difference

MARKS = {"added": "+", "changed": "~", "removed": "−"}
"""Signs of changed rows; colour alone has no meaning."""


@dataclass(frozen=True)
class StoredTags:
    """The stored default tags of a tenant and their version; None if the platform returns no version."""

    tenant_id: str
    tags: Mapping[str, str]
    version: int | None

    def wire(self) -> Mapping[str, Any]:
        """Return the JSON object."""
        return {"id": self.tenant_id, "tags": self.tags, "version": self.version}


@dataclass(frozen=True)
class TagRow:
    """A tag of a draft, or a stored tag that the draft removes."""

    key: str
    value: str
    mark: str
    """`added`, `changed` or `removed`; empty if it equals the stored tag."""
    was: str | None
    """The stored value of a changed tag."""
    problem: str
    """Why the tag is invalid; empty if it is valid."""

    def wire(self) -> Mapping[str, Any]:
        """Return the JSON object, which the columns read."""
        return asdict(self)


class TagDraft:
    """A set of tags and the stored set it is based on. Every edit can be undone."""

    def __init__(self, tags: Mapping[str, str], version: int | None) -> None:
        """`version` is the version of the stored set; None if the platform returns none."""
        self.base: Mapping[str, str] = dict(tags)
        self.version = version
        self.tags: dict[str, str] = dict(tags)
        self._before: list[dict[str, str]] = []
        self._checked: Mapping[str, str] | None = None
        self._problem: rules.Problem | None = None

    # State

    @property
    def changes(self) -> TagChanges:
        """The changes that a save would make."""
        return difference(self.base, self.tags)

    @property
    def dirty(self) -> bool:
        """Whether the draft has unsaved changes."""
        return self.tags != self.base

    @property
    def problem(self) -> rules.Problem | None:
        """Why the platform would refuse the set; None if it is valid."""
        if self._checked is not self.tags:  # an edit replaces the set
            self._checked, self._problem = self.tags, rules.problem_of_set(self.tags)
        return self._problem

    @property
    def words(self) -> str:
        """The number of changes with their signs; empty without changes."""
        changes = self.changes
        counts = (("+", changes.added, "added"), ("~", changes.changed, "changed"), ("−", changes.removed, "removed"))
        return "  ".join(f"{sign} {len(keys)} {what}" for sign, keys, what in counts if keys)

    def rows(self) -> list[TagRow]:
        """Return current and removed tags by key."""
        return [self._row(key) for key in sorted({*self.base, *self.tags})]

    def _row(self, key: str) -> TagRow:
        was, value = self.base.get(key), self.tags.get(key)
        mark = "removed" if value is None else "added" if was is None else "changed" if was != value else ""
        shown = value if value is not None else was or ""
        problem = rules.problem_of_tag(key, shown) if value is not None else None
        message = problem.message if problem else ""
        return TagRow(key, shown, mark, was if mark == "changed" else None, message)

    def problem_of(self, key: str, value: str, instead_of: str = "") -> rules.Problem | str | None:
        """Return why a tag is invalid in this set; None if it is valid."""
        if problem := rules.problem_of_tag(key, value):
            return problem
        if key != instead_of and key in self.tags:
            return f'"{key}" exists already: edit that tag'
        if not instead_of and len(self.tags) >= rules.MOST:
            return f"a tenant has at most {rules.MOST} default tags"
        return None

    # Editing

    def put(self, key: str, value: str, instead_of: str = "") -> None:
        """Add or change a tag. `instead_of` is its previous key."""
        self._set({**{old: other for old, other in self.tags.items() if old != instead_of}, key: value})

    def put_all(self, tags: Mapping[str, str]) -> None:
        """Add or change several tags, in one edit."""
        self._set({**self.tags, **tags})

    def remove(self, keys: Iterable[str]) -> None:
        """Remove tags."""
        gone = set(keys)
        self._set({key: value for key, value in self.tags.items() if key not in gone})

    def restore(self, keys: Iterable[str]) -> None:
        """Restore tags to their stored values."""
        stored = {key: self.base[key] for key in keys if key in self.base}
        self._set({**self.tags, **stored})

    def discard(self) -> None:
        """Restore the stored set."""
        self._set(dict(self.base))

    @property
    def undoable(self) -> bool:
        """Whether there is an edit to undo."""
        return bool(self._before)

    def undo(self) -> None:
        """Undo the last edit."""
        if self._before:
            self.tags = self._before.pop()

    def _set(self, tags: dict[str, str]) -> None:
        if tags != self.tags:
            self._before.append(self.tags)
            self.tags = tags

    # Updates of the stored set

    def follow(self, tags: Mapping[str, str], version: int | None) -> None:
        """Take over the stored set if the draft loses no edits. A draft with changes keeps its base."""
        if (tags, version) == (self.base, self.version):
            return  # edits, or a discard, can still be undone
        if tags == self.base:
            self.version = version  # the stored set has the same tags in a newer version
            return
        if not self.dirty or tags == self.tags:
            self.base, self.version, self.tags = dict(tags), version, dict(tags)
            self._before.clear()

    def saved(self, tags: Mapping[str, str], version: int | None) -> None:
        """Record a save. Edits made during the save remain unsaved."""
        self.rebase(tags, version)
        if not self.dirty:
            self._before.clear()

    def rebase(self, tags: Mapping[str, str], version: int | None) -> None:
        """Base the draft on another stored set without changing it. A save then overwrites the changes of others."""
        self.base, self.version = dict(tags), version

    def merge(self, tags: Mapping[str, str], version: int | None) -> None:
        """Base the draft on another stored set and keep its tags. A save then overwrites the changes of others."""
        changes = self.changes
        remaining = {key: value for key, value in tags.items() if key not in changes.removed}
        ours = {**changes.added, **{key: after for key, (_, after) in changes.changed.items()}}
        self.rebase(tags, version)
        self._set({**remaining, **ours})

    def conflicts(self, tags: Mapping[str, str]) -> list[str]:
        """Return the keys that both the draft and the newer stored set changed differently."""
        theirs = difference(self.base, tags)
        touched = {*theirs.added, *theirs.changed, *theirs.removed}
        changes = self.changes
        ours = {*changes.added, *changes.changed, *changes.removed}
        return sorted(key for key in touched & ours if tags.get(key) != self.tags.get(key))
