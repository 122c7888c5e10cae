"""Who did something, as records name them."""

from __future__ import annotations

from client.models.base import Wire


class Person(Wire):
    """A person, or what calls for one: a key has no e-mail."""

    id: str
    name: str = ""
    email: str = ""
