"""Previews of a change: the operations that keys and identities gain and lose."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import click

from client.api import analysis
from client.commands import output
from client.commands.invocation import Invocation
from client.errors import FrostError
from client.text import safe
from client.transport.call import Call
from client.transport.responses import predicted_error

DRY_RUN = click.Option(
    ["--dry-run"],
    is_flag=True,
    help="Show the operations that keys and identities would gain and lose, without changing anything.",
)
WIDE = 5
"""From this number of affected keys and identities, a deletion is confirmed by typing the name."""
_CHANGES = (
    ("lost", "loses {}"),
    ("conditionalLost", "loses {} it had under conditions"),
    ("narrowed", "has {} under more conditions"),
    ("gained", "gains {}"),
    ("conditionalGained", "gains {} under conditions"),
    ("widened", "has {} under fewer conditions"),
    ("conditionsChanged", "has {} under other conditions"),
)
"""Most important first."""
_NOBODY = "no key or identity gains or loses an operation"


def preview(run: Invocation, calls: Callable[[str], Call[object]]) -> Mapping[str, Any] | FrostError:
    """Return the preview of a change, or the error if there is none: the user can still confirm the change."""
    try:
        found: Mapping[str, Any] = run.call_for_tenant(calls)
    except FrostError as error:
        return error
    return found


def confirm_deletion(
    run: Invocation, preview: Mapping[str, Any] | FrostError, what: str, name: str, beside: str
) -> None:
    """Show the effects of a deletion and ask for confirmation.

    Args:
        run: The command.
        preview: The preview, or the error if there is none.
        what: The object, `group "deployers"`.
        name: Text to type if the effect is wide or unknown.
        beside: Further losses, `2 memberships and 1 policy attachment`.

    Raises:
        FrostError: The user did not confirm, or the platform would refuse the deletion.
    """
    run.talk.say(f"{what} has {beside}, which are deleted too")
    if isinstance(preview, FrostError):
        run.talk.say(f"its effect is unknown: {preview.message}")
        wide = True
    else:
        found = _concerned(preview)
        wide = len(found) >= WIDE
        for line in lines(found):
            run.talk.more(line)
        if not found:
            run.talk.say(_NOBODY)
        _end_if_refused(preview)
    output.confirm(run.talk, "Delete it? It cannot be undone.", refused="", hint="", typed=name if wide else "")


def dry_run(run: Invocation, change: str, **names: str) -> None:
    """Print the effects of a change without making it.

    Args:
        run: The command.
        change: Its name in `client.api.analysis.preview`.
        names: Its parameters, by their names in the request.

    Raises:
        FrostError: The change would fail with this error.
    """
    told(run, run.call_for_tenant(lambda tenant: analysis.preview(tenant, change, **names)))


def told(run: Invocation, preview: Mapping[str, Any]) -> None:
    """Print a preview as the data of a dry run.

    Raises:
        FrostError: The change would fail with this error.
    """
    if run.output.structured:
        run.output.document({"dryRun": True, **preview})
    else:
        run.output.lines(lines(_concerned(preview)) or [_NOBODY])
        run.output.note("nothing was changed: this is a dry run")
    _end_if_refused(preview)


def noted(run: Invocation, preview: Mapping[str, Any] | FrostError) -> None:
    """Print the effects of a completed change as notes."""
    if isinstance(preview, FrostError):
        run.output.note(f"its effect is unknown: {preview.message}")
        return
    for line in lines(_concerned(preview)) or [_NOBODY]:
        run.output.note(line)


def _end_if_refused(preview: Mapping[str, Any]) -> None:
    if isinstance(refused := preview.get("refused"), Mapping):
        raise predicted_error(refused)


def lines(principals: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return each affected key or identity, followed by a line for each effect."""
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
        yield "has no permission left; its next request is denied"
    if one.get("type") == "api_key" and one.get("policiesBefore") and not one.get("policiesAfter"):
        yield "is limited only by its scopes and its creator's permissions"
    for names, words in _CHANGES:
        if count := one.get(f"{names}Count"):
            yield f"{words.format(counted(count, 'operation'))}: {_first(count, one.get(names) or ())}"


def counted(number: int, what: str) -> str:
    """Return `1 version`, `3 versions`."""
    return f"{number} {what}{'s' if number != 1 else ''}"


def _first(count: int, names: Sequence[object]) -> str:
    """Return the name of the first operation and the number of others."""
    shown = safe(names[0], 80) if names else ""
    return f"{shown} and {count - 1} more" if count > 1 else shown
