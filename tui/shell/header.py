"""The two header lines, and the state of the workspace that they show."""

from typing import NamedTuple

from textual.content import Content
from textual.widget import Widget

from client.tables.columns import Record
from client.text import cut, safe, width
from client.texts.apply import is_undo
from tui.state.contexts import credential_words
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
    tenant: Record = workspace.tenant or {}
    credential = (workspace.me or {}).get("credential", {})
    how = credential_words(str(credential["kind"])) if credential else ""
    link = workspace.link
    state, verb, tone = {
        "opening": ("○ connecting", "", "$text-muted"),
        "up": (f"● connected {link.latency}".rstrip(), "", "$text-muted"),
        "lost": ("", "", ""),
        "signed_out": ("! not signed in", "sign in", "$text-warning"),
    }[link.state]
    if link.state == "signed_out" and workspace.key_first:
        state, verb = "! API key refused", "retry"
    elif link.state == "lost" and link.stopped:
        state, verb, tone = "○ stopped", "start", "$text-warning"
    elif link.state == "lost" and link.since is not None:
        state, verb = f"! no answer since {link.since.astimezone():%H:%M:%S} · trying again", "retry now"
        tone = "$text-error"
    nobody = link.state == "signed_out"  # the identity is no longer valid
    missing = workspace.tenant_id and not tenant and workspace.tenants_state == "fresh"
    return HeaderState(
        context=workspace.context,
        organization=str(tenant.get("organizationName", "")),
        tenant=str(tenant.get("displayName", "")) or ("not available: choose another" if missing else ""),
        status=str(tenant.get("status", "")),
        who="" if nobody else workspace.who,
        how="" if nobody else how,
        note=HINT if workspace.first_run and workspace.tenant_source != "here" else _source(workspace),
        read_only=bool(workspace.read_only),
        link=f"{state} · {refresh_key} {verb}" if verb and refresh_key else state,
        link_tone=tone,
        running=_running(workspace),
    )


HINT = "A platform of your own · ? for help"
"""The note of the first run."""


def _running(workspace: Workspace) -> str:
    """Return the progress of an apply and the number of other running operations, of all tenants."""
    applies = workspace.applies.running
    others = len(workspace.provisioning.running) + len(applies[1:])
    if not applies:
        return f"◐ {others} running" if others else ""
    tenant_id, run = applies[0]
    verb = "undoing" if is_undo(run.operation) else "applying"
    elsewhere = f" in {workspace.name_of(tenant_id)}" if tenant_id != workspace.tenant_id else ""
    return f"◐ {verb} {run.operation.get('progress') or 0:.0f}%{elsewhere}{f' +{others}' if others else ''}"


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
