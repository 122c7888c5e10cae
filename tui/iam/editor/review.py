"""Review of a document before it is saved: name, description, effect and text difference."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, TypeVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Input, Static

from client.api import analysis
from client.errors import Exit, FrostError
from client.models import strict_json
from client.models.analysis import PrincipalEffect, TargetCoverage
from client.models.iam import Policy
from client.text import safe
from client.texts.effects import Effect
from tui.iam import effects
from tui.iam.editor import document as formatter
from tui.iam.editor.lists import Line, LineList
from tui.iam.effects import difference_lines
from tui.state.context_state import Limits, Requests
from tui.widgets.dialog import Dialog, hint
from tui.widgets.lines import LineInput
from tui.widgets.policy_text import document_text, type_text

if TYPE_CHECKING:
    from client.transport.call import Call

WIDTH = 100
"""Maximum width of the dialog, in cells."""
FRAME = 7
"""Cells of the dialog for borders, padding and the scroll bar."""
MIN_CELLS = 16
"""Minimum width of a line, in cells. With much fewer, `folded` would not terminate."""
MAX_NAMES = 8
"""Maximum number of operations on each side, and of principals, that are listed by name."""

Answer = TypeVar("Answer")


class Review(Dialog[Mapping[str, str] | None]):
    """Returns the name and description to save, or None if cancelled. Without `names`, it is read-only.

    `effect` is the coverage of `after` compared with `before`, or the error if it is unknown.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "save", show=False, priority=True),
        Binding("tab", "hop(1)", show=False, priority=True),
        Binding("shift+tab", "hop(-1)", show=False, priority=True),
    ]
    DEFAULT_CSS = """
    Review {
        & > .dialog { width: 100; height: 90%; padding: 0 2; }
        .review--field { height: 1; }
        .review--label { width: 14; color: $text-muted; }
        .review--caution { color: $text-warning; height: auto; margin-bottom: 1; }
        .review--problem { color: $text-error; height: auto; }
        LineList { height: 1fr; margin-top: 1; background: $surface; }
        .dialog--hint { margin-top: 0; }
    }
    """
    LISTENS_AT_ONCE = True

    _difference: Sequence[Content] = ()

    def __init__(
        self,
        title: str,
        before: str,
        after: str,
        effect: TargetCoverage | FrostError,
        names: Mapping[str, str] | None,
        *,
        stored: Policy | None = None,
        new_names: Mapping[str, str] | None = None,
        affected: Effect | None = None,
        caution: str = "",
        problem: str = "",
        most: int = MAX_NAMES,
    ) -> None:
        """`stored` is the policy to replace, `affected` the effect of that on principals.

        `new_names` are the name and description of `after` in a read-only review, compared with those of `stored`.
        `caution` is a warning above the fields, `problem` why the last save failed. At most `most` operations are
        listed on each side.
        """
        super().__init__()
        self._title = title
        self.before, self.after = before, after
        self.effect = effect
        self.names = names
        self.stored = stored
        self.new_names = new_names
        self.affected = affected
        self._caution = caution
        self._problem = problem
        self.most = most

    def title_text(self) -> str:
        return self._title

    def content(self) -> ComposeResult:
        if self._caution:
            yield Static(Content(safe(self._caution)), classes="review--caution", markup=False)
        if self.names is not None:
            for name, placeholder in (("name", "name of the policy"), ("description", "purpose")):
                entry = LineInput(placeholder=placeholder, id=f"review-{name}")
                entry.value = self.names.get(name, "")
                yield Horizontal(
                    Static(name.capitalize(), classes="review--label", markup=False), entry, classes="review--field"
                )
            problem = Static(Content(safe(self._problem)), classes="review--problem", markup=False)
            problem.display = bool(self._problem)
            yield problem
        yield LineList(id="review-lines")
        save = "Enter save · Tab name, difference · ↑ ↓ scroll · Esc keep editing"
        yield hint("↑ ↓ scroll · Esc close" if self.names is None else save)

    def on_mount(self) -> None:
        principals = list(principal_lines(self.affected)) if self.affected is not None else []
        self._difference = [*principals, *difference_lines(self.before, self.after, self.effect, self.most)]
        self._show()

    @on(Input.Changed)
    def _edited(self) -> None:
        """Show the differences of the edited names, without the problem of the former ones."""
        before, self.names = self.names, self._entered_names()
        if before != self.names and self.names["name"]:
            self._show_problem("")
        self._show()

    def _show(self) -> None:
        """Show changes of name and description, then the difference."""
        names = self.names if self.names is not None else self.new_names
        name_difference = [] if self.stored is None or names is None else list(name_lines(self.stored, names))
        # Computed, because the list has no size before the first layout.
        cells = min(WIDTH, self.app.size.width) - FRAME
        self.query_one(LineList).show(
            [Line(line) for content in (*name_difference, *self._difference) for line in folded(content, cells)]
        )

    def on_resize(self) -> None:
        self._show()

    def _entered_names(self) -> dict[str, str]:
        return {name: self.query_one(f"#review-{name}", LineInput).value.strip() for name in self.names or ()}

    def first_focus(self) -> Widget:
        if self.names is not None and (self._problem or self.stored is None):
            name = self.query_one("#review-name", LineInput)
            if not self._problem:
                name.select_all()
            return name
        return self.query_one(LineList)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return self.names is not None if action == "save" else super().check_action(action, parameters)

    def action_hop(self, by: int) -> None:
        stops = [*self.query(LineInput), self.query_one(LineList)]
        at = next((place for place, stop in enumerate(stops) if stop.has_focus), 0)
        self.set_focus(stops[(at + by) % len(stops)])

    @on(Input.Submitted)
    def action_save(self) -> None:
        if self.names is None:
            return
        names = self._entered_names()
        if not names["name"]:
            self._show_problem("a name is required")
            self.set_focus(self.query_one("#review-name"))
            return
        self.dismiss(names)

    def on_key(self, event: events.Key) -> None:
        # The list has no choices, so Enter saves, as in the fields.
        if event.key == "enter" and self.names is not None and self.query_one(LineList).has_focus:
            event.stop()
            self.action_save()

    def _show_problem(self, text: str) -> None:
        problem = self.query_one(".review--problem", Static)
        problem.display = bool(text)
        problem.update(Content(safe(text)))


def name_lines(stored: Policy, names: Mapping[str, str]) -> Iterator[Content]:
    """Yield the differences of name and description."""
    for member, before in (("name", stored.name), ("description", stored.description)):
        value = names[member]
        if value != before:
            yield Content.styled(f"Change of {member}", "bold $text-accent")
            yield Content.styled(f"  − {safe(before) or '(none)'}", "$text-error")
            yield Content.styled(f"  + {safe(value) or '(none)'}", "$text-success")
            yield Content("")


def principal_lines(affected: Effect) -> Iterator[Content]:
    """Yield the effect on the principals that the policy is attached to, those with most changes first."""
    yield Content.styled("Effect on keys and identities", "bold $text-accent")
    yield Content.styled(f"  {safe(affected.summary)}", "$text-warning" if affected.problem else "$text-muted")
    changed = [(principal, signed) for principal in affected.principals if (signed := list(_signed(principal)))]
    for principal, signed in changed[:MAX_NAMES]:
        status = f", {principal.status}" if principal.status not in ("", "active") else ""
        kind = f"{type_text(principal.type)}{status}"
        counts = Content(" ").join(Content.styled(*each) for each in signed)
        yield (
            Content.assemble("  ", safe(principal.name or principal.id), (f"  {safe(kind)}  ", "$text-muted")) + counts
        )
    if len(changed) > MAX_NAMES:
        yield Content.styled(f"  and {len(changed) - MAX_NAMES:,} more", "$text-muted")
    yield Content("")


def _signed(principal: PrincipalEffect) -> Iterator[tuple[str, str]]:
    """Yield (text, tone) for operations gained, lost and conditionally changed; zeros are omitted."""
    for sign, count, tone in (
        ("+", principal.gained_count, "$text-success"),
        ("−", principal.lost_count, "$text-error"),
        ("~", principal.conditional_count, "$text-warning"),
    ):
        if count:
            yield f"{sign}{count:,}", tone
    if principal.inert:
        yield "left inert", "$text-error"


def folded(content: Content, cells: int) -> Iterator[Content]:
    """Yield a line as wrapped lines with a hanging indent."""
    indent, cells = 4, max(MIN_CELLS, cells)
    rest = content
    while rest.cell_length > cells:
        # With double-width characters, half as many are certain to fit.
        end = cells if len(rest) == rest.cell_length else cells // 2
        yield rest[:end]
        rest = Content(" " * indent) + rest[end:]
    yield rest


class Comparison:
    """Compares the document of a tenant's policy with a stored version, in text and in effect."""

    def __init__(self, requests: Requests, tenant_id: str, limits: Limits) -> None:
        self._requests = requests
        self._limits = limits
        self.tenant_id = tenant_id

    async def ask_within(self, seconds: float, call: "Call[Answer]") -> Answer:
        """Send a request with a timeout.

        Raises:
            FrostError: No response within `seconds` (UNREACHABLE), or an error of the request.
        """
        try:
            async with asyncio.timeout(seconds):
                return await self._requests.ask(call)
        except TimeoutError as error:
            message = f"no response within {seconds:.0f} s"
            raise FrostError(message, code="UNREACHABLE", exit_code=Exit.UNREACHABLE) from error

    async def effect(self, text: str, stored: Policy | None) -> TargetCoverage:
        """Return the coverage of a text on any target, compared with a stored policy or, with None, with nothing."""
        compare = {"documentText": formatter.text_of(stored.document)} if stored is not None else None
        answer = await self.ask_within(
            self._limits.effect_seconds,
            analysis.coverage(
                self.tenant_id, text, compare=compare, facts={"currentTime": None}, operations=compare is None
            ),
        )
        coverage = answer.targets[0]
        return coverage.compared_with_nothing() if compare is None else coverage

    async def principal_effect(self, policy_id: str, text: str) -> Effect | None:
        """Return the effect of a text on the principals that the policy is attached to; None for a new policy."""
        if not policy_id:
            return None
        change = {"change": "updatePolicy", "policyId": policy_id, "documentText": text}
        seconds = self._limits.effect_seconds
        try:
            async with asyncio.timeout(seconds):
                return await effects.effect(self._requests, self.tenant_id, [change])
        except TimeoutError:
            return Effect(problem=f"no response within {seconds:.0f} s")


def compared_texts(stored: Policy | None, text: str) -> tuple[str, str]:
    """Return the stored and the new text in the same format, because formatting is not stored."""
    if stored is None:
        return "", text
    before = document_text(stored.document)
    try:
        return before, document_text(formatter.as_stored(strict_json.loads(text)))
    except strict_json.StrictJsonError:
        return before, text
