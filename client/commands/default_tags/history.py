"""`frost tenant default-tags history|undo`.

The undo of a change writes the former set, unless another user wrote the newest one. The undo of an apply removes the
tags that the run added and that have not changed since.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import click

from client.api import default_tags as calls
from client.commands import options, output
from client.commands.command import leaf
from client.commands.completers import apply_run_ids
from client.commands.default_tags import apply_job
from client.commands.default_tags.apply import NO_WAIT, ended, reported
from client.commands.default_tags.tags import print_changes, tenant_name
from client.commands.invocation import Invocation
from client.commands.options import an_id
from client.commands.parameters import YES, Argument, Option
from client.commands.tenants import WITHIN_ORGANIZATION, check_within
from client.errors import Exit, FrostError, usage
from client.tables import default_tags
from client.tables.columns import person_text, time_text
from client.tables.default_tags import difference
from client.text import safe
from client.transport.call import MAX_PAGE_SIZE


@leaf(
    "history",
    *options.PAGE_FLAGS,
    WITHIN_ORGANIZATION,
    examples=("frost tenant default-tags history", "frost tenant default-tags history -o wide"),
)
def history(run: Invocation, limit: int | None, cursor: str | None, everything: bool, organization: str | None) -> None:
    """List the versions of the default tags, newest first, and the last ten applies.

    Shows the author and time of each version, and the result of each run. `frost tenant default-tags undo` undoes
    both.
    """
    check_within(run, organization)
    runs = run.call_for_tenant(calls.runs)["runs"]
    options.listed(
        run,
        default_tags.TAG_VERSION,
        lambda tenant, limit, cursor: calls.history_page(tenant, limit=limit, cursor=cursor),
        limit=limit,
        cursor=cursor,
        everything=everything,
        more_members={"runs": runs},
    )
    if not run.output.structured and runs and not cursor:
        run.output.lines([""])
        run.output.records(default_tags.RUN, runs)


@leaf(
    "undo",
    Argument(
        ["run_id"],
        metavar="RUN_ID",
        required=False,
        callback=an_id,
        help="Apply run to undo; default: your last change of the default tags.",
        shell_complete=apply_run_ids,
    ),
    Option(
        ["--version", "number"],
        type=click.IntRange(min=1),
        metavar="N",
        help="Restore this version, even if later versions are by other users.",
    ),
    Option(["--preview"], is_flag=True, help="Show the result without changing anything."),
    YES,
    NO_WAIT,
    WITHIN_ORGANIZATION,
    examples=(
        "frost tenant default-tags undo",
        "frost tenant default-tags undo --version 3",
        "frost tenant default-tags undo 0192f7c1-5a3e-7b60-9d2f-3c5a8e7b1d04 --preview",
    ),
)
def undo(
    run: Invocation,
    run_id: str | None,
    number: int | None,
    preview: bool,
    yes: bool,
    no_wait: bool,
    organization: str | None,
) -> None:
    """Undo your last change of the default tags, or the tags added by an apply.

    Without RUN_ID, the previous version is restored if you wrote the latest version. There is no confirmation, as all
    versions are kept. With the RUN_ID of an apply, the tags are removed that the run added and that did not change
    since. This asks for confirmation and runs in the background.
    """
    if run_id is None:
        if no_wait:
            raise usage("--no-wait requires the RUN_ID of an apply (frost tenant default-tags undo)", "add RUN_ID")
        check_within(run, organization)
        _put_back(run, number, preview)
        return
    if number is not None:
        raise usage("RUN_ID and --version exclude each other (frost tenant default-tags undo)", "use one of them")
    if not yes and not preview:
        output.needs_terminal("this removes tags from resources", "use --yes to skip the confirmation")
    check_within(run, organization)
    with _name_run_in_errors(run_id):
        if preview:
            _print_preview(run, run_id)
            return
        if not yes:
            _confirm(run, run_id)
        if no_wait:
            reported(run, apply_job.begin(run, lambda tenant: calls.undo(tenant, run_id), "undo"), "undo")
        else:
            ended(run, apply_job.finish(run, lambda tenant: calls.undo(tenant, run_id), "undo"), "undo")


# --- the set ---------------------------------------------------------------------------------------------------------


def _put_back(run: Invocation, number: int | None, preview: bool) -> None:
    """Replace the newest set with a former one. Fails if the newest set changes before the write."""
    versions = _versions(run)
    newest = next(versions, None)
    former = next((version for version in versions if number in (None, version["version"])), None)
    if newest is None or (number is None and former is None):
        raise FrostError("the default tags were never changed; there is nothing to undo", code="NOTHING_TO_UNDO")
    if former is None and number != newest["version"]:
        raise FrostError(
            f"the default tags have no version {number}",
            code="NOT_FOUND",
            hint="frost tenant default-tags history",
            exit_code=Exit.NOT_FOUND,
        )
    former = former or newest
    if number is None:
        _check_own(run, newest, former)
    before, after = newest["tags"], former["tags"]
    if preview:
        print_changes(run, after, difference(before, after), dry_run=True)
        return
    change = run.change_for_tenant(lambda tenant: calls.put(tenant, after, newest["version"]))
    print_changes(run, change.record["tags"], difference(before, change.record["tags"]))


def _versions(run: Invocation) -> Iterator[dict[str, Any]]:
    """Yield the versions of the set, newest first. Pages are requested as needed."""
    trail = run.page_trail()
    while trail.cursor is not None:
        answer = run.call_for_tenant(partial(calls.history_page, limit=MAX_PAGE_SIZE, cursor=trail.cursor))
        yield from answer["versions"]
        trail.advance(answer, "versions")


def _check_own(run: Invocation, newest: dict[str, Any], former: dict[str, Any]) -> None:
    """Refuse to undo a change by another user. Raises FrostError (exit 6)."""
    who = newest.get("changedBy")
    if isinstance(who, dict) and who.get("id") == run.me.get("id"):
        return
    name = safe(person_text(who) or "an unknown user", 80)
    raise FrostError(
        f"the latest version is by {name}, {time_text(newest.get('changedAt'))}; nothing was changed",
        code="CHANGED_SINCE",
        hint=f"frost tenant default-tags undo --version {former['version']} restores the version before it anyway",
        exit_code=Exit.CONFLICT,
    )


# --- an apply --------------------------------------------------------------------------------------------------------


@contextmanager
def _name_run_in_errors(run_id: str) -> Iterator[None]:
    """Name the run in the error if the tenant does not have it. The platform's error does not name it."""
    try:
        yield
    except FrostError as error:
        if error.gone:
            error.message = f"the tenant has no apply {safe(run_id, 80)} among its last ten"
            error.hint = "list the runs: frost tenant default-tags history"
        raise


def _print_preview(run: Invocation, run_id: str) -> None:
    result = run.call_for_tenant(lambda tenant: calls.undo_preview(tenant, run_id))
    if run.output.structured:
        run.output.document({"preview": True, **result})
    else:
        apply_job.show(run, result, would="Would lose tags")
    run.output.note("nothing was changed: this is a preview")


def _confirm(run: Invocation, run_id: str) -> None:
    result = run.call_for_tenant(lambda tenant: calls.undo_preview(tenant, run_id))
    tags = default_tags.tags_text(result.get("appliedTags"))
    run.talk.say(f'tags added by run {safe(run_id, 60)} in tenant "{tenant_name(run)}": {tags}')
    for line in apply_job.preview_lines(result, "would lose tags"):
        run.talk.more(line)
    output.confirm(run.talk, f"Remove them from {apply_job.would_change(result)}?", refused="", hint="")
