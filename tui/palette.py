"""The palette: everything that can be done, by name, with its key; what cannot be done now says why."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, cast

from textual.command import CommandPalette, DiscoveryHit, Hit, Hits, Provider
from textual.content import Content
from textual.widgets import Input

from client.text import cut, safe
from tui import actions, places

if TYPE_CHECKING:
    from tui.screens.frame import FrameScreen

TENANTS = 200
"""As many tenants are matched letter by letter at most: the matcher takes 50 µs for each."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the palette."""

    title: str
    key: str
    words: str
    run: Callable[[], None]
    enabled: bool = True

    def label(self, title: Content) -> Content:
        """The title with its key at the end; dimmed when it cannot be done."""
        tone = "" if self.enabled else "$text-disabled"
        parts = [title.stylize(tone) if tone else title]
        return Content("  ").join([*parts, Content.styled(self.key, "bold $text-accent")]) if self.key else parts[0]


def entries(frame: "FrameScreen", words: str = "") -> Iterator[Entry]:
    """The actions of the place, the places, the actions of the app, and for a search the tenants it finds."""
    situation = frame.situation()

    def of(*scopes: str) -> Iterator[Entry]:
        for action in actions.of_scope(*scopes):
            if action.id != "app.palette":
                reason = action.reason(situation)
                run = partial(frame.perform, action.id)
                yield Entry(action.title, frame.keys.label(action.id), reason or action.help, run, not reason)

    yield from of(situation.place)
    for number, door in enumerate(places.DOORS, 1):
        yield Entry(f"Go to {door.title.lower()}", str(number), "", partial(frame.go, door.name))
    yield from of(actions.LIST, actions.ANYWHERE)
    if words:
        folded = words.casefold().split()
        found = [
            tenant
            for tenant in frame.workspace.tenants
            if any(word in str(tenant.get("displayName", "")).casefold() for word in folded)
        ]
        for tenant in found[:TENANTS]:
            title = f"Use tenant {cut(safe(tenant['displayName']), 40)}"
            organization = cut(safe(tenant.get("organizationName", "")), 40)
            yield Entry(title, "", organization, partial(frame.use_tenant, str(tenant["id"])))


class Everything(Provider):
    """Gives Textual's palette the entries of the frame below it."""

    @property
    def frame(self) -> "FrameScreen":
        """The screen the palette was opened over."""
        return cast("FrameScreen", self.screen)

    async def discover(self) -> Hits:
        for entry in entries(self.frame):
            yield DiscoveryHit(entry.label(Content(entry.title)), entry.run, entry.title, _plain(entry.words))

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for entry in entries(self.frame, query):
            score, places_found = matcher.fuzzy_search.match(query, entry.title)
            if score > 0:
                # The matcher's own highlighting reads the title as markup, and a tenant's name may hold any.
                title = Content(entry.title)
                for place in places_found:
                    title = title.stylize(matcher.match_style, place, place + 1)
                yield Hit(score, entry.label(title), entry.run, entry.title, _plain(entry.words))


def _plain(words: str) -> str | None:
    """Help text that the palette does not parse: it takes markup as `str`, and leaves Content as it is."""
    return cast(str, Content(words)) if words else None


class Palette(CommandPalette):
    """Textual's palette with a cursor that does not blink: idle is 0 bytes a second."""

    DEFAULT_CSS = "Palette SearchIcon { display: none; }"

    def __init__(self) -> None:
        super().__init__(providers=[Everything], placeholder="What do you want to do?")

    def on_mount(self) -> None:
        self.query_one(Input).cursor_blink = False
