"""The places there are, in the order of their digits. The frame knows no place by name beyond this table."""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tui.screens.place import Place
    from tui.workspace import Workspace


class Door(NamedTuple):
    """How a place is named and opened; the place's module is imported when it is opened first."""

    name: str
    title: str
    open: Callable[["Workspace"], "Place"]


def _tenants(workspace: "Workspace") -> "Place":
    from tui.screens.tenants import Tenants

    return Tenants(workspace)


def _contexts(workspace: "Workspace") -> "Place":
    from tui.screens.contexts import Contexts

    return Contexts(workspace)


DOORS = (Door("tenants", "Tenants", _tenants), Door("contexts", "Contexts", _contexts))
NAMES = tuple(door.name for door in DOORS)
