"""The operations a document may speak of, and the nearest names for one that is misspelt."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from functools import cached_property

from client.policy.coverage import CatalogueMasks
from client.policy.matching import STAR, OperationPattern, compile_glob

MAX_SUGGESTIONS = 3


class Catalogue:
    """Names in the order of the catalogue; immutable, a larger catalogue is a new one."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = tuple(names)

    @cached_property
    def masks(self) -> CatalogueMasks:
        """The names as bit masks."""
        return CatalogueMasks(self.names)

    def has(self, pattern: OperationPattern) -> bool:
        """Whether at least one operation is of the pattern."""
        return bool(self.masks.of(pattern))

    @cached_property
    def _tree(self) -> dict[str, dict[str, list[str]]]:
        tree: dict[str, dict[str, list[str]]] = {}
        for name in self.names:
            service, resource, action = name.split(":")
            tree.setdefault(service, {}).setdefault(resource, []).append(action)
        return tree

    def nearest(self, pattern: OperationPattern) -> list[str]:
        """The likeliest names meant by a pattern that has no operation; it goes part by part, so it is quick."""
        found: list[str] = []
        for service in _close(pattern.service, list(self._tree)):
            resources = self._tree[service]
            for resource in _close(pattern.resource, list(resources)):
                actions = resources[resource]
                for action in _close(pattern.action, actions):
                    parts = (service, resource, action)
                    # A * that was written stays: only the misspelt part is put right.
                    shown = [STAR if mine == STAR else other for mine, other in zip(pattern, parts, strict=True)]
                    found.append(":".join(shown))
        return list(dict.fromkeys(found))[:MAX_SUGGESTIONS]

    def expansion(self, text: str) -> list[str]:
        """The operations a pattern with `*` inside a part would mean, if that were allowed."""
        parts = text.split(":")
        if len(parts) != 3:
            return []
        tests = [compile_glob(part) for part in parts]
        return [
            name for name in self.names if all(test(part) for test, part in zip(tests, name.split(":"), strict=True))
        ]


def _close(part: str, values: Sequence[str]) -> list[str]:
    if part == STAR or part in values:
        return [part] if part in values else list(values)[:MAX_SUGGESTIONS]
    return get_close_matches(part, values, n=2, cutoff=0.6)
