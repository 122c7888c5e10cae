"""`frost iam policy history|diff|rollback`."""

from typing import Any

import click

from client.api import analysis, policies
from client.commands import options
from client.commands.command import leaf
from client.commands.formats import json_text
from client.commands.iam import effects
from client.commands.iam.policies import ID
from client.commands.invocation import Invocation
from client.commands.options import find_id, missing, missing_version
from client.commands.parameters import Option
from client.errors import usage
from client.tables import iam
from client.tables.columns import time_text
from client.texts.effects import UNDER, changes, counted

_NUMBER = click.IntRange(min=1)


@leaf("history", ID, *options.PAGE_FLAGS, examples=("frost iam policy history readers",))
def history(run: Invocation, policy_id: str, limit: int | None, cursor: str | None, everything: bool) -> None:
    """List the versions of a policy, newest first.

    Shows who changed each version, and when.
    """
    policy_id = find_id(run, "policy", policy_id)
    with missing(run, ("policy", policy_id)):
        options.listed(
            run,
            iam.VERSION,
            lambda tenant, limit, cursor: policies.version_page(tenant, policy_id, limit=limit, cursor=cursor),
            limit=limit,
            cursor=cursor,
            everything=everything,
        )


@leaf(
    "rollback",
    ID,
    Option(["--version", "number"], required=True, type=_NUMBER, metavar="N", help="Version to restore."),
    effects.DRY_RUN,
    examples=("frost iam policy rollback readers --version 3",),
)
def rollback(run: Invocation, policy_id: str, number: int, dry_run: bool) -> None:
    """Restore the document of an earlier version.

    The document becomes the newest version. Name and description do not change.

    You become the author of the version: it must stay within your own permissions. There is no confirmation, as all
    versions are kept.
    """
    policy_id = find_id(run, "policy", policy_id)
    text = policies.compact_text(_version(run, policy_id, number)["document"])
    if dry_run:
        effects.dry_run(run, "updatePolicy", policyId=policy_id, documentText=text)
        return
    preview = effects.preview(
        run, lambda tenant: analysis.preview(tenant, "updatePolicy", policyId=policy_id, documentText=text)
    )
    with missing_version(run, policy_id, number):
        change = run.change_for_tenant(lambda tenant: policies.roll_back(tenant, policy_id, number))
    run.output.record(iam.POLICY, change.record)
    if not change.changed:
        run.output.note(f"nothing changed: the document is the same as in version {number}")
    else:
        effects.note(run, preview)


@leaf(
    "diff",
    ID,
    Option(["--from", "first"], type=_NUMBER, metavar="N", help="Older version; default: the one before --to."),
    Option(["--to", "second"], type=_NUMBER, metavar="N", help="Newer version; default: the latest."),
    examples=("frost iam policy diff readers", "frost iam policy diff readers --from 2 --to 5"),
)
def diff(run: Invocation, policy_id: str, first: int | None, second: int | None) -> None:
    """Compare two versions of a policy, as text and by effect.

    The effect covers all targets at once and a request with an unknown context. Operations that depend on a constraint
    or on a part of the target are listed as conditional, separately from operations gained and lost in any case.
    """
    policy_id = find_id(run, "policy", policy_id)
    if second is None:
        with missing(run, ("policy", policy_id)):
            second = int(run.call_for_tenant(lambda tenant: policies.get(tenant, policy_id))["version"])
    if first is None:
        first = second - 1
    if first < 1:
        raise usage(f"version {second} of policy {policy_id} is the first; there is no earlier version to compare with")
    newer, older = _version(run, policy_id, second), _version(run, policy_id, first)
    compared = run.call_for_tenant(
        lambda tenant: analysis.coverage(
            tenant,
            policies.compact_text(newer["document"]),
            facts={"currentTime": None},
            compare={"policyId": policy_id, "version": first},
        )
    )["targets"][0]
    text = _text_difference(older, newer)
    effect = {name: compared[name] for name in ("gained", "lost", "nowUnconditional", "nowConditional", *UNDER)}
    if run.output.structured:
        run.output.document({"policyId": policy_id, "from": first, "to": second, "text": text, **effect})
    else:
        run.output.lines([*text, *([""] if text else []), *_effect_lines(effect)])
    if not text:
        run.output.note("the documents are equal")


def _version(run: Invocation, policy_id: str, number: int) -> dict[str, Any]:
    with missing_version(run, policy_id, number):
        version: dict[str, Any] = run.call_for_tenant(lambda tenant: policies.version(tenant, policy_id, number))
    return version


def _text_difference(older: dict[str, Any], newer: dict[str, Any]) -> list[str]:
    """Return the lines of a unified diff; empty if the documents are equal."""
    from difflib import unified_diff

    before, after = (json_text(one["document"]).splitlines() for one in (older, newer))
    then, now = (
        f"version {one['version']}, {time_text(one['changedAt'])}, {one['changedByName']}" for one in (older, newer)
    )
    return list(unified_diff(before, after, then, now, lineterm=""))


def _effect_lines(effect: dict[str, list[str]]) -> list[str]:
    effects_by_kind = changes(effect)
    groups = [("gained {}", "+", effects_by_kind.gained), ("lost {}", "-", effects_by_kind.lost)]
    if effects_by_kind.under:
        groups.append(("conditional changes for {}", "~", effects_by_kind.under))
    lines = []
    for title, sign, operations in groups:
        number = counted(len(operations), "operation")
        lines.append(f"{title.format(number)}{':' if operations else ''}")
        lines += [f"  {sign} {name}{f' ({note})' if note else ''}" for name, note in operations.items()]
    return lines
