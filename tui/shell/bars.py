"""The header above a screen; the footer with the keys below it; the navigation, and the notice on a small terminal."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from textual import events
from textual.content import Content
from textual.message import Message
from textual.widget import Widget

from client.operations import is_undo
from client.text import cut, safe, width
from tui.state.context_state import credential_words
from tui.state.workspace import Workspace

STATUS_SIGNS = {"active": ("●", "$text-success"), "provisioning": ("◐", "$text-warning")}


class HeaderState(NamedTuple):
    """Contents of the header, untrusted. `Header` makes control characters visible."""

    context: str = ""
    organization: str = ""
    tenant: str = ""
    status: str = ""
    who: str = ""
    how: str = ""
    """The kind of credential, in words."""
    note: str = ""
    """The source of the tenant."""
    read_only: bool = False
    link: str = ""
    link_tone: str = "$text-muted"
    running: str = ""


class Header(Widget):
    """Context, organization, tenant and status; identity and credential; connection; running operations."""

    DEFAULT_CSS = """
    Header {
        height: 2;
        background: $panel;
        color: $foreground;
        padding: 0 1;
    }
    """

    def __init__(self) -> None:
        super().__init__(id="header")
        self.header_state = HeaderState()

    def show(self, header_state: HeaderState) -> None:
        """Repaint only if the contents changed."""
        if header_state != self.header_state:
            self.header_state = header_state
            self.refresh()

    def render(self) -> Content:
        cells = self.content_size.width
        header_state = self.header_state
        who = " · ".join(safe(part) for part in (header_state.who, header_state.how) if part)
        path = self._where(header_state, cells)
        # If both do not fit, the identity replaces the note in the second line. The path is not cut for it.
        together = path.cell_length + width(who) + 2 <= cells
        first = _two_ends(path, Content(who) if together else Content(""), cells)
        left = Content.styled(safe(header_state.note), "$text-muted") if together else Content(who)
        if header_state.read_only:
            left = Content.assemble((" READ-ONLY ", "reverse bold"), " ") + left
        # The sign has its own segment: a picture places each segment, and a font without the sign shifts only that one.
        sign, blank, state = cut(safe(header_state.link), max(0, cells - 14)).partition(" ")
        link = Content.styled(sign + blank, header_state.link_tone) + Content.styled(state, header_state.link_tone)
        running = header_state.running
        if left.cell_length + link.cell_length + width(running) + 4 > cells:
            running = " ".join(running.split()[:2])
        right = Content.styled(running + "  ", "$text-accent") + link if running else link
        return first + "\n" + _two_ends(left, right, cells)

    @staticmethod
    def _where(state: HeaderState, cells: int) -> Content:
        """Return the path. The tenant is cut last."""
        sign, tone = STATUS_SIGNS.get(state.status, ("", ""))
        status = f"  {sign} {state.status}" if sign else (f"  {safe(state.status)}" if state.status else "")
        tenant = safe(state.tenant)
        before = [safe(part) for part in (state.context, state.organization) if part]
        room = cells - width(status) - width(tenant) - 3 * len(before)
        if before and room < sum(map(width, before)):
            each = max(4, room // len(before))
            before = [cut(part, each) for part in before]
        used = sum(width(part) + 3 for part in before) + width(status)
        parts: list[Content] = []
        for part in before:
            parts += [Content(part), Content.styled(" › ", "$text-muted")]
        parts.append(Content.styled(cut(tenant, max(6, cells - used)), "bold $text-accent"))
        if not tenant and parts:
            parts = parts[:-2]
        return Content("").join(parts) + Content.styled(status, tone)


def _two_ends(left: Content, right: Content, cells: int) -> Content:
    left = left.truncate(max(0, cells - right.cell_length - 1), ellipsis=True)
    return left.pad_right(max(0, cells - left.cell_length - right.cell_length)) + right


def header_state(workspace: Workspace, refresh_key: str = "") -> HeaderState:
    """Return the header of a workspace.

    Args:
        refresh_key: The key for refresh, if it works. The header names it when it helps.
    """
    tenant, credential, link = workspace.tenant, workspace.credential, workspace.link
    how = credential_words(credential.kind) if credential is not None else ""
    state, verb, tone = {
        "opening": ("○ connecting", "", "$text-muted"),
        "up": (f"● connected {link.latency}".rstrip(), "", "$text-muted"),
        "lost": ("", "", ""),
        "signed_out": ("! not signed in", "sign in", "$text-warning"),
    }[link.state]
    if link.state == "signed_out" and workspace.key_first:
        state, verb = "! API key rejected", "retry"
    elif link.state == "lost" and link.stopped:
        state, verb, tone = "○ stopped", "start", "$text-warning"
    elif link.state == "lost" and link.since is not None:
        state, verb = f"! no response since {link.since.astimezone():%H:%M:%S} · retrying", "retry now"
        tone = "$text-error"
    is_signed_out = link.state == "signed_out"  # the identity is no longer valid
    unnamed = workspace.tenant_id if workspace.tenants_state == "refused" else ""
    if workspace.without_tenants:
        unnamed = "no tenant"
    elif workspace.tenant_missing:
        unnamed = "unavailable: choose another"
    return HeaderState(
        context=workspace.context,
        organization=tenant.organization_name if tenant is not None else "",
        tenant=tenant.display_name if tenant is not None else unnamed,
        status=tenant.status if tenant is not None else "",
        who="" if is_signed_out else workspace.who,
        how="" if is_signed_out else how,
        note=HINT if workspace.first_run and workspace.tenant_source != "here" else _source(workspace),
        read_only=bool(workspace.read_only),
        link=f"{state} · {refresh_key} {verb}" if verb and refresh_key else state,
        link_tone=tone,
        running=_running(workspace),
    )


HINT = "Local platform · ? for help"
"""The note of the first run."""


def _running(workspace: Workspace) -> str:
    """Return the progress of an apply and the number of other running operations, of all tenants."""
    applies = workspace.applies.running
    others = len(workspace.provisioning.running) + len(applies[1:])
    if not applies:
        return f"◐ {others} running" if others else ""
    tenant_id, run = applies[0]
    verb = "undoing" if is_undo(run.operation.wire()) else "applying"
    elsewhere = f" in {workspace.name_of(tenant_id)}" if tenant_id != workspace.tenant_id else ""
    return f"◐ {verb} {run.operation.progress:.0f}%{elsewhere}{f' +{others}' if others else ''}"


def _source(workspace: Workspace) -> str:
    """Return why this tenant is in use, unless it is the stored choice."""
    return (
        {
            "flag": "tenant from --tenant",
            "variable": "tenant from FROST_TENANT",
            "default": "your default tenant",
            "here": "not stored",
        }.get(workspace.tenant_source, "")
        if workspace.tenant_id
        else ""
    )


class Key(NamedTuple):
    """A key in the footer, its label, and whether its action is enabled."""

    action: str
    key: str
    label: str
    enabled: bool = True
    always: bool = False
    """Whether it is shown at the end, however narrow the footer: help and quit."""


LEFT_OUT = "…"
GAP = 2


def _cells(key: Key) -> int:
    return len(key.key) + 1 + len(key.label)


def fitting(keys: Sequence[Key], room: int) -> list[Key | None]:
    """Return the keys that fit, those with `always` last; None marks omitted keys."""
    last = [key for key in keys if key.always]
    first = [key for key in keys if not key.always]
    room -= sum(_cells(key) + GAP for key in last) - GAP
    if sum(_cells(key) + GAP for key in first) <= room:
        return [*first, *last]
    room -= len(LEFT_OUT) + GAP
    visible: list[Key | None] = []
    for key in first:
        room -= _cells(key) + GAP
        if room < 0:
            break
        visible.append(key)
    return [*visible, None, *last]


class Footer(Widget):
    """The keys of the screen. Disabled ones are dimmed; pressing one shows the reason."""

    DEFAULT_CSS = """
    Footer {
        height: 1;
        background: $panel;
        color: $foreground;
        padding: 0 1;
    }
    """

    @dataclass(eq=False)
    class Pressed(Message):
        """An entry was clicked."""

        action: str

    def __init__(self) -> None:
        super().__init__(id="footer")
        self.keys: tuple[Key, ...] = ()
        self._spans: list[tuple[int, int, str]] = []

    def show(self, keys: Sequence[Key]) -> None:
        """Show the keys, the most important first. If they do not fit, the last ones without `always` are omitted."""
        if tuple(keys) != self.keys:
            self.keys = tuple(keys)
            self.refresh()

    def render(self) -> Content:
        parts: list[Content] = []
        self._spans = []
        left = 0
        for key in fitting(self.keys, self.content_size.width):
            if key is None:
                parts.append(Content.styled(LEFT_OUT, "$text-muted"))
                left += len(LEFT_OUT) + GAP
                continue
            cells = _cells(key)
            key_tone, word_tone = (
                ("bold $text-accent", "$foreground") if key.enabled else ("$text-disabled", "$text-disabled")
            )
            parts.append(Content.assemble((key.key, key_tone), " ", (key.label, word_tone)))
            self._spans.append((left, left + cells, key.action))
            left += cells + GAP
        return Content(" " * GAP).join(parts)

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        if offset is None:
            return
        for start, end, action in self._spans:
            if start <= offset.x < end:
                self.post_message(self.Pressed(action))


class Navigation(Widget):
    """The list of screens. A click opens one; the digits are bindings of the main screen."""

    DEFAULT_CSS = """
    Navigation {
        width: 14;
        height: 1fr;
        padding: 1 0 0 0;
        background: $panel;
        color: $foreground;
    }
    """

    @dataclass(eq=False)
    class Chosen(Message):
        """A screen was clicked."""

        screen: str

    def __init__(self, screens: Sequence[tuple[str, str]], current: str = "") -> None:
        """`screens` are (name, title), in the order of their digits."""
        super().__init__(id="navigation")
        self.screens = screens
        self.current = current

    def show(self, screen: str) -> None:
        """Mark the open screen."""
        if screen != self.current:
            self.current = screen
            self.refresh()

    def render(self) -> Content:
        lines = []
        for number, (name, title) in enumerate(self.screens, 1):
            here = name == self.current
            digit = str(number) if number < 10 else " "
            lines.append(
                Content.assemble(
                    ("▌" if here else " ", "$accent"),
                    (f"{digit} ", "$text-muted"),
                    (title, "bold $text-accent" if here else "$foreground"),
                )
            )
        return Content("\n").join(lines)

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        if offset is not None and offset.y < len(self.screens):
            self.post_message(self.Chosen(self.screens[offset.y][0]))


class TooSmall(Widget):
    """The notice below 60 by 16 cells. The styles of the main screen show it."""

    DEFAULT_CSS = """
    TooSmall {
        width: 1fr; height: 1fr;
        content-align: center middle;
        text-align: center;
        background: $background;
        color: $foreground;
        display: none;
    }
    """

    def render(self) -> Content:
        size = self.app.size
        return Content(f"frost needs 60 × 16\nthis is {size.width} × {size.height}")
