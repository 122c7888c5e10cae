"""A tenant's default tags as they are to be: edited here, stored only when they are saved. Pure.

design: Screens (default tags); checklist D10 to D22, D31
"""

from collections.abc import Iterable, Mapping
from typing import Any

from client.models import tags as rules
from client.tag_changes import TagChanges, difference

MARKS = {"added": "+", "changed": "~", "removed": "−"}
"""How a row differs from what is stored; nothing hangs on colour."""


class TagDraft:
    """A set of tags and the stored one it began with. Every edit can be taken back, one after another."""

    def __init__(self, tags: Mapping[str, str], version: int | None) -> None:
        """`version` is that of the stored set; None where the platform tells none."""
        self.base: Mapping[str, str] = dict(tags)
        self.version = version
        self.tags: dict[str, str] = dict(tags)
        self._before: list[dict[str, str]] = []

    # What it says

    @property
    def changes(self) -> TagChanges:
        """What saving would change."""
        return difference(self.base, self.tags)

    @property
    def dirty(self) -> bool:
        """Whether anything is not stored."""
        return self.tags != self.base

    @property
    def problem(self) -> rules.Problem | None:
        """Why the platform would refuse the set; None when it would not."""
        return rules.problem_of_set(self.tags)

    @property
    def words(self) -> str:
        """The changes counted, with their signs; empty when there are none."""
        changes = self.changes
        counts = (("+", changes.added, "added"), ("~", changes.changed, "changed"), ("−", changes.removed, "removed"))
        return "  ".join(f"{sign} {len(keys)} {what}" for sign, keys, what in counts if keys)

    def rows(self) -> list[dict[str, Any]]:
        """Every tag, and those that were removed, by key: `key`, `value`, `mark`, `was` (before) and `problem`."""
        return [self._row(key) for key in sorted({*self.base, *self.tags})]

    def _row(self, key: str) -> dict[str, Any]:
        was, value = self.base.get(key), self.tags.get(key)
        mark = "removed" if value is None else "added" if was is None else "changed" if was != value else ""
        shown = value if value is not None else was or ""
        problem = rules.problem_of_tag(key, shown) if value is not None else None
        return {
            "key": key,
            "value": shown,
            "mark": mark,
            "was": was if mark == "changed" else None,
            "problem": problem.message if problem else "",
        }

    def problem_of(self, key: str, value: str, instead_of: str = "") -> rules.Problem | str | None:
        """What is wrong with one tag among the others, in the words of its rule; None when it may be put."""
        if problem := rules.problem_of_tag(key, value):
            return problem
        if key != instead_of and key in self.tags:
            return f'"{key}" is in the set already: edit that one'
        if not instead_of and len(self.tags) >= rules.MOST:
            return f"a tenant has at most {rules.MOST} default tags"
        return None

    # Editing

    def put(self, key: str, value: str, instead_of: str = "") -> None:
        """Add a tag or give it a value; `instead_of` is the key it had before."""
        self._set({**{old: kept for old, kept in self.tags.items() if old != instead_of}, key: value})

    def remove(self, keys: Iterable[str]) -> None:
        """Take tags out of the set."""
        gone = set(keys)
        self._set({key: value for key, value in self.tags.items() if key not in gone})

    def restore(self, keys: Iterable[str]) -> None:
        """Have tags as they are stored, whatever became of them."""
        wanted = {key: self.base[key] for key in keys if key in self.base}
        self._set({**self.tags, **wanted})

    def discard(self) -> None:
        """Have the whole set as it is stored."""
        self._set(dict(self.base))

    @property
    def undoable(self) -> bool:
        """Whether there is an edit to take back."""
        return bool(self._before)

    def undo(self) -> None:
        """Take the last edit back."""
        if self._before:
            self.tags = self._before.pop()

    def _set(self, tags: dict[str, str]) -> None:
        if tags != self.tags:
            self._before.append(self.tags)
            self.tags = tags

    # Following what is stored

    def follow(self, tags: Mapping[str, str], version: int | None) -> None:
        """Take what is stored now where nothing would be lost by it: an edited set stays on what it began with."""
        if (tags, version) == (self.base, self.version):
            return  # what was edited can still be taken back, or a discard
        if tags == self.base:
            self.version = version  # changed and changed back: nothing of it is lost by what was edited
            return
        if not self.dirty or tags == self.tags:
            self.base, self.version, self.tags = dict(tags), version, dict(tags)
            self._before.clear()

    def saved(self, tags: Mapping[str, str], version: int | None) -> None:
        """It was stored like that: what was edited meanwhile is all that is left to save, and to take back here."""
        self.stand_on(tags, version)
        if not self.dirty:
            self._before.clear()

    def stand_on(self, tags: Mapping[str, str], version: int | None) -> None:
        """Begin with another stored set and keep the edited one whole: saving then replaces what others did."""
        self.base, self.version = dict(tags), version

    def merge(self, tags: Mapping[str, str], version: int | None) -> None:
        """Begin with another stored set and lay what was edited over it; where both changed a key, ours stays."""
        changes = self.changes
        kept = {key: value for key, value in tags.items() if key not in changes.removed}
        ours = {**changes.added, **{key: after for key, (_, after) in changes.changed.items()}}
        self.stand_on(tags, version)
        self._set({**kept, **ours})

    def conflicts(self, tags: Mapping[str, str]) -> list[str]:
        """The keys that both we and the newer stored set changed, each in another way."""
        theirs = difference(self.base, tags)
        touched = {*theirs.added, *theirs.changed, *theirs.removed}
        changes = self.changes
        ours = {*changes.added, *changes.changed, *changes.removed}
        return sorted(key for key in touched & ours if tags.get(key) != self.tags.get(key))
