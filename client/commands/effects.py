"""What a change would give and take, said before it is made (checklist R16, O12)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import click

from client.answers import foretold
from client.api import trials
from client.commands import asking
from client.commands.invocation import Invocation
from client.core import Call
from client.errors import FrostError
from client.text import safe

DRY_RUN = click.Option(
    ["--dry-run"], is_flag=True, help="Say what keys and identities would gain and lose; change nothing (frost)."
)
WIDE = 5
"""From so many keys and identities on, a change is confirmed by typing the name (design: Screens)."""
_CHANGES = (
    ("lost", "loses {}"),
    ("conditionalLost", "loses {} it had under conditions"),
    ("narrowed", "has {} under more conditions"),
    ("gained", "gains {}"),
    ("conditionalGained", "gains {} under conditions"),
    ("widened", "has {} under fewer conditions"),
    ("conditionsChanged", "has {} under other conditions"),
)
"""In the order of what must not be overlooked."""
_NOBODY = "no key and no identity gains or loses anything by it"


def preview(run: Invocation, calls: Callable[[str], Call]) -> Mapping[str, Any] | FrostError:
    """The platform's word on the effect of a change, or why there is none: the question is asked all the same."""
    try:
        found: Mapping[str, Any] = run.call_for_tenant(calls)
    except FrostError as error:
        return error
    return found


def confirm_deletion(
    run: Invocation, preview: Mapping[str, Any] | FrostError, what: str, name: str, beside: str
) -> None:
    """Say what a deletion takes with it, then ask.

    Args:
        preview: The platform's word on the effect, or why there is none.
        what: The object, `group "deployers" (id)`.
        name: What has to be typed where the effect is wide.
        beside: What else is lost, `2 memberships and 1 policy attachment`.

    Raises:
        FrostError: It was not confirmed, or would be refused.
    """
    run.talk.say(f"{what}: with it go {beside}")
    if isinstance(preview, FrostError):
        run.talk.say(f"its effect is not shown: {preview.message}")
        wide = True
    else:
        found = _concerned(preview)
        wide = len(found) >= WIDE
        for line in lines(found):
            run.talk.more(line)
        if not found:
            run.talk.say(_NOBODY)
        _end_if_refused(preview)
    asking.confirm(run.talk, "Delete it? It cannot be undone.", refused="", hint="", typed=name if wide else "")


def dry_run(run: Invocation, change: str, **names: str) -> None:
    """What a change would give and take, in place of making it; it ends as the change would.

    Args:
        change: As `client.api.trials.preview` calls it.
        names: What it is about, by member of the wire.

    Raises:
        FrostError: The change would be refused with this.
    """
    told(run, run.call_for_tenant(lambda tenant: trials.preview(tenant, change, **names)))


def told(run: Invocation, preview: Mapping[str, Any]) -> None:
    """Print an effect as the data of a dry run.

    Raises:
        FrostError: The change would be refused with this.
    """
    if run.output.structured:
        run.output.document({"dryRun": True, **preview})
    else:
        run.output.lines(lines(_concerned(preview)) or [_NOBODY])
        run.output.note("nothing was changed: this is a dry run")
    _end_if_refused(preview)


def noted(run: Invocation, preview: Mapping[str, Any] | FrostError) -> None:
    """Say beside the record of a change what it gave and took."""
    if isinstance(preview, FrostError):
        run.output.note(f"its effect is not shown: {preview.message}")
        return
    for line in lines(_concerned(preview)) or [_NOBODY]:
        run.output.note(line)


def _end_if_refused(preview: Mapping[str, Any]) -> None:
    if isinstance(refused := preview.get("refused"), Mapping):
        raise foretold(refused)


def lines(principals: Sequence[Mapping[str, Any]]) -> list[str]:
    """Each key and identity that a change gives something or takes something from, and what, a line each."""
    shown = []
    for one in principals:
        shown.append(f"  {one.get('type')} {safe(one.get('name') or one.get('id'), 60)}")
        shown += [f"    {effect}" for effect in _effects(one)]
    return shown


def _concerned(preview: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [one for one in preview["principals"] if _matters(one)]


def _matters(one: Mapping[str, Any]) -> bool:
    return any(one.get(f"{names}Count") for names, _ in _CHANGES) or _falls_silent(one)


def _falls_silent(one: Mapping[str, Any]) -> bool:
    return bool(one.get("inert") and one.get("policiesBefore"))


def _effects(one: Mapping[str, Any]) -> Iterator[str]:
    if _falls_silent(one):
        yield "has no grant left, its next request is denied"
    if one.get("type") == "api_key" and one.get("policiesBefore") and not one.get("policiesAfter"):
        yield "is back to its scopes and its creator's rights"
    for names, words in _CHANGES:
        if count := one.get(f"{names}Count"):
            yield f"{words.format(counted(count, 'operation'))}: {_first(count, one.get(names) or ())}"


def counted(number: int, what: str) -> str:
    """`1 version`, `3 versions`."""
    return f"{number} {what}{'s' if number != 1 else ''}"


def _first(count: int, names: Sequence[object]) -> str:
    """One operation by its name, the others by their number."""
    shown = safe(names[0], 80) if names else ""
    return f"{shown} and {count - 1} more" if count > 1 else shown
