"""`frost tenant default-tags apply`."""

from typing import Any

from client.api import default_tags as calls
from client.commands import output
from client.commands.command import leaf
from client.commands.default_tags import apply_job
from client.commands.default_tags.tags import tenant_name
from client.commands.invocation import Invocation
from client.commands.parameters import YES, Option
from client.commands.tenants import WITHIN_ORGANIZATION, check_within
from client.errors import FrostError
from client.tables import default_tags
from client.texts.effects import counted

_NO_PREVIEWS = (404, 405, 501)
"""Statuses of a platform without previews, which are an addition of frost."""
NO_WAIT = Option(["--no-wait"], is_flag=True, help="Return after the start, with the operation ID.")


@leaf(
    "apply",
    YES,
    NO_WAIT,
    Option(["--preview"], is_flag=True, help="Show the result without changing anything."),
    WITHIN_ORGANIZATION,
    examples=(
        "frost tenant default-tags apply --preview",
        "frost tenant default-tags apply --yes",
        "frost tenant default-tags apply --yes --no-wait",
    ),
)
def apply(run: Invocation, yes: bool, no_wait: bool, preview: bool, organization: str | None) -> None:
    """Add the default tags to existing resources.

    Adds each missing key; existing keys keep their values, and no tag is removed. The apply runs in the background:
    Ctrl-C stops the waiting, not the apply. Resources that fail are listed and do not make the command fail; repeat
    the command to retry them.

    examined is the sum of updated, unchanged, skipped and failed. A type whose resources could not be listed is not in
    these numbers: `unlisted` counts such types, and `failures` has an entry without a resource for each.

    A tenant has one apply at a time: the command first waits for a running one. Requires the role admin or owner.
    """
    if not yes and not preview:
        output.needs_terminal("this adds tags to existing resources", "use --yes to skip the confirmation")
    check_within(run, organization)
    tags = _tags(run)
    if tags == {}:
        _nothing(run)
        return
    if preview:
        _print_preview(run)
        return
    if not yes:
        _confirm(run, tags or {})
    try:
        if no_wait:
            reported(run, apply_job.begin(run, calls.apply, "apply"), "apply")
        else:
            ended(run, apply_job.finish(run, calls.apply, "apply"), "apply")
    except FrostError as error:
        if error.code != calls.NOTHING_TO_APPLY:
            raise
        _nothing(run)


def reported(run: Invocation, started: dict[str, Any], what: str) -> None:
    """Print a run that has started, or the run already in progress."""
    if run.output.structured:
        run.output.document(started)
    else:
        run.output.lines([str(started.get("operationId") or started.get("runId"))])
    if started["started"]:
        run.output.note(f"{what} started; frost tenant default-tags history shows the result")
    else:
        run.output.note(f"a run is already in progress; no {what} was started")


def ended(run: Invocation, operation: dict[str, Any], what: str) -> None:
    """Print a completed run."""
    if run.output.structured:
        run.output.document(operation)
    else:
        apply_job.show(run, operation["result"])
    run.output.note(apply_job.sentence(operation))


def _tags(run: Invocation) -> dict[str, str] | None:
    """Return the default tags; None if the credential may apply but not read them."""
    try:
        tags: dict[str, str] = run.call_for_tenant(calls.get)["tags"]
    except FrostError as error:
        if error.code != "INSUFFICIENT_SCOPE":
            raise
        return None
    return tags


def _nothing(run: Invocation) -> None:
    run.output.done("nothing to apply: the tenant has no default tags", {"status": "nothing_to_apply"})


def _print_preview(run: Invocation) -> None:
    result = run.call_for_tenant(calls.preview)
    if run.output.structured:
        run.output.document({"preview": True, **result})
    else:
        apply_job.show(run, result, would="Would change")
    run.output.note("nothing was changed: this is a preview")


def _confirm(run: Invocation, tags: dict[str, str]) -> None:
    """Show the preview of the platform and ask for confirmation."""
    where = f'tenant "{tenant_name(run)}"'
    run.talk.say(f"{counted(len(tags), 'default tag')} of {where}: {default_tags.tags_text(tags)}")
    try:
        result = run.call_for_tenant(calls.preview)
    except FrostError as error:
        if error.status not in _NO_PREVIEWS:
            raise
        run.talk.say(f"the preview is not available: {error.message}")
        output.confirm(run.talk, f"Add them to the existing resources of {where}?", refused="", hint="")
        return
    for line in apply_job.preview_lines(result):
        run.talk.more(line)
    output.confirm(run.talk, f"Add missing tags to {apply_job.would_change(result)}?", refused="", hint="")
