"""The operations that a document may name, and suggestions for misspelt names."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from functools import cached_property

from client.policy.coverage import CatalogueMasks
from client.policy.matching import STAR, OperationPattern, compile_glob

MAX_SUGGESTIONS = 3


class Catalogue:
    def __init__(self, names: Iterable[str]) -> None:
        self.names = tuple(names)

    @cached_property
    def masks(self) -> CatalogueMasks:
        return CatalogueMasks(self.names)

    def has_match(self, pattern: OperationPattern) -> bool:
        return bool(self.masks.for_pattern(pattern))

    @cached_property
    def _names_by_part(self) -> dict[str, dict[str, list[str]]]:
        tree: dict[str, dict[str, list[str]]] = {}
        for name in self.names:
            service, resource, action = name.split(":")
            tree.setdefault(service, {}).setdefault(resource, []).append(action)
        return tree

    def suggest(self, pattern: OperationPattern) -> list[str]:
        """Return the names closest to a pattern without a match, compared part by part for speed."""
        suggestions: list[str] = []
        for service in _close_matches(pattern.service, list(self._names_by_part)):
            resources = self._names_by_part[service]
            for resource in _close_matches(pattern.resource, list(resources)):
                actions = resources[resource]
                for action in _close_matches(pattern.action, actions):
                    parts = (service, resource, action)
                    # Keep the * of the pattern.
                    corrected = [
                        STAR if written == STAR else known for written, known in zip(pattern, parts, strict=True)
                    ]
                    suggestions.append(":".join(corrected))
        return list(dict.fromkeys(suggestions))[:MAX_SUGGESTIONS]

    def expand(self, text: str) -> list[str]:
        """Return the operations that match a pattern with `*` inside a part."""
        parts = text.split(":")
        if len(parts) != 3:
            return []
        tests = [compile_glob(part) for part in parts]
        return [
            name for name in self.names if all(test(part) for test, part in zip(tests, name.split(":"), strict=True))
        ]


def _close_matches(part: str, values: Sequence[str]) -> list[str]:
    if part == STAR or part in values:
        return [part] if part in values else list(values)[:MAX_SUGGESTIONS]
    return get_close_matches(part, values, n=2, cutoff=0.6)
