"""A cache of bounded size that evicts the least recently used entry."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class LruCache(Generic[K, V]):
    """A thread-safe mapping of at most `max_size` entries and, unless it has a single entry, at most `max_weight`.

    Args:
        weigh: the weight of an entry.
    """

    def __init__(self, max_size: int, max_weight: int = 0, weigh: Callable[[V], int] = lambda _: 0) -> None:
        self.max_size = max_size
        self.max_weight = max_weight
        self.weight = 0
        self._weigh = weigh
        self._lock = threading.Lock()
        self._entries: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K) -> V | None:
        with self._lock:
            value = self._entries.get(key)
            if value is not None:
                self._entries.move_to_end(key)
            return value

    def peek(self, key: K) -> V | None:
        """Return an entry without marking it as used."""
        return self._entries.get(key)

    def discard(self, key: K) -> None:
        """Remove an entry, if it exists."""
        with self._lock:
            if (value := self._entries.pop(key, None)) is not None:
                self.weight -= self._weigh(value)

    def __setitem__(self, key: K, value: V) -> None:
        weight = self._weigh(value)
        with self._lock:
            if key in self._entries:
                self.weight -= self._weigh(self._entries[key])
            self._entries[key] = value
            self._entries.move_to_end(key)
            self.weight += weight
            while len(self._entries) > self.max_size or (self.weight > self.max_weight and len(self._entries) > 1):
                _, evicted = self._entries.popitem(last=False)
                self.weight -= self._weigh(evicted)

    def clear(self) -> None:
        with self._lock:
            self._entries.clear()
            self.weight = 0

    def __len__(self) -> int:
        return len(self._entries)
