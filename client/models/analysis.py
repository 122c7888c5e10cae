"""The operations of the catalogue."""

from __future__ import annotations

from client.models.base import Wire


class CatalogueOperation(Wire):
    """An operation of a service, such as `compute:instances:start`.

    `access_level` is read, write, list or permission.
    """

    name: str
    access_level: str = ""
    description: str = ""
