"""Previews of a change: the operations that keys and identities gain and lose."""

from collections.abc import Callable, Mapping
from typing import Any

from client.api import analysis
from client.commands import output
from client.commands.invocation import Invocation
from client.commands.parameters import Option
from client.errors import FrostError
from client.texts.effects import NO_EFFECT, Effect, effect_lines, is_affected
from client.transport.call import Call
from client.transport.responses import predicted_error

DRY_RUN = Option(
    ["--dry-run"],
    is_flag=True,
    help="Show the operations that keys and identities would gain and lose, without changing anything.",
)
WIDE = 5
"""From this number of affected keys and identities, a deletion is confirmed by typing the name."""


def preview(run: Invocation, calls: Callable[[str], Call[object]]) -> Mapping[str, Any] | FrostError:
    """Return the preview of a change, or the error if there is none: the user can still confirm the change."""
    try:
        response: Mapping[str, Any] = run.call_for_tenant(calls)
    except FrostError as error:
        return error
    return response


def confirm_deletion(
    run: Invocation, preview: Mapping[str, Any] | FrostError, what: str, name: str, others: str
) -> None:
    """Show the effects of a deletion and ask for confirmation.

    Args:
        run: The command.
        preview: The preview, or the error if there is none.
        what: The object, `group "deployers"`.
        name: Text to type if the effect is wide or unknown.
        others: Further losses, `2 memberships and 1 policy attachment`.

    Raises:
        FrostError: The user did not confirm, or the platform would refuse the deletion.
    """
    run.talk.say(f"{what} has {others}, which are deleted too")
    if isinstance(preview, FrostError):
        run.talk.say(f"effect {Effect(problem=preview.message).summary}")
        wide = True
    else:
        affected = _affected_principals(preview)
        wide = len(affected) >= WIDE
        for line in effect_lines(affected):
            run.talk.more(line)
        if not affected:
            run.talk.say(NO_EFFECT)
        _end_if_refused(preview)
    output.confirm(run.talk, "Delete? This cannot be undone.", refused="", hint="", typed=name if wide else "")


def dry_run(run: Invocation, change: str, **names: str) -> None:
    """Print the effects of a change without making it.

    Args:
        run: The command.
        change: Its name in `client.api.analysis.preview`.
        names: Its parameters, by their names in the request.

    Raises:
        FrostError: The change would fail with this error.
    """
    show(run, run.call_for_tenant(lambda tenant: analysis.preview(tenant, change, **names)))


def show(run: Invocation, preview: Mapping[str, Any]) -> None:
    """Print a preview as the data of a dry run.

    Raises:
        FrostError: The change would fail with this error.
    """
    if run.output.structured:
        run.output.document({"dryRun": True, **preview})
    else:
        run.output.lines(effect_lines(preview["principals"]) or [NO_EFFECT])
        run.output.note("nothing was changed: this is a dry run")
    _end_if_refused(preview)


def note(run: Invocation, preview: Mapping[str, Any] | FrostError) -> None:
    """Print the effects of a completed change as notes."""
    if isinstance(preview, FrostError):
        run.output.note(f"effect {Effect(problem=preview.message).summary}")
        return
    for line in effect_lines(preview["principals"]) or [NO_EFFECT]:
        run.output.note(line)


def _end_if_refused(preview: Mapping[str, Any]) -> None:
    if isinstance(refused := preview.get("refused"), Mapping):
        raise predicted_error(refused)


def _affected_principals(preview: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [principal for principal in preview["principals"] if is_affected(principal)]
