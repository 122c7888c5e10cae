"""The two lines at the top: where one is and as whom, and how the platform is doing."""

from typing import NamedTuple

from textual.content import Content
from textual.widget import Widget

from client.text import cut, safe, width

STATUS_SIGNS = {"active": ("●", "$text-success"), "provisioning": ("◐", "$text-warning")}


class Facts(NamedTuple):
    """What the header says. Foreign text is made safe here, when it is painted."""

    context: str = ""
    organization: str = ""
    tenant: str = ""
    status: str = ""
    who: str = ""
    how: str = ""
    """The kind of credential in words, or what is missing."""
    note: str = ""
    """Where the tenant comes from."""
    read_only: bool = False
    link: str = ""
    link_tone: str = "$text-muted"
    running: str = ""


class Header(Widget):
    """Context › organization › tenant and status; who and how; connection and latency; what runs."""

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
        self.facts = Facts()

    def show(self, facts: Facts) -> None:
        """Paint again only when something changed."""
        if facts != self.facts:
            self.facts = facts
            self.refresh()

    def render(self) -> Content:
        cells = self.content_size.width
        facts = self.facts
        who = " · ".join(safe(part) for part in (facts.who, facts.how) if part)
        path = self._where(facts, cells)
        # Where both do not fit in one line, who goes below in place of the note: the path is never cut for it.
        together = path.cell_length + width(who) + 2 <= cells
        first = _two_ends(path, Content(who) if together else Content(""), cells)
        left = Content.styled(safe(facts.note), "$text-muted") if together else Content(who)
        if facts.read_only:
            left = Content.assemble((" READ-ONLY ", "reverse bold"), " ") + left
        # The sign by itself: a picture places each piece, and where its font lacks the sign only that one is off.
        sign, blank, words = cut(safe(facts.link), max(0, cells - 14)).partition(" ")
        link = Content.styled(sign + blank, facts.link_tone) + Content.styled(words, facts.link_tone)
        running = facts.running
        if left.cell_length + link.cell_length + width(running) + 4 > cells:
            running = " ".join(running.split()[:2])
        right = Content.styled(running + "  ", "$text-accent") + link if running else link
        return first + "\n" + _two_ends(left, right, cells)

    @staticmethod
    def _where(facts: Facts, cells: int) -> Content:
        """The path, each part cut so that the tenant is the last to give way."""
        sign, tone = STATUS_SIGNS.get(facts.status, ("", ""))
        status = f"  {sign} {facts.status}" if sign else (f"  {safe(facts.status)}" if facts.status else "")
        tenant = safe(facts.tenant)
        before = [safe(part) for part in (facts.context, facts.organization) if part]
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
