"""Entries of the audit log as sentences: who did what to which object. No I/O.

Operations are an open set: an unknown one is shown as sent. Sentences are unescaped text from the platform.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple, cast

from client.models.apply_counts import separate_unlisted
from client.tables.columns import Record, parse_time
from client.tables.default_tags import difference

FOLDED_WITHIN = timedelta(minutes=10)
"""Entries of one kind that follow each other within this time are one sentence."""
MAX_NAMES = 3
"""Names in a sentence about several objects; the others are counted."""


class Phrase(NamedTuple):
    """The words for an operation: `created`, `create`, and what follows.

    `{target}` is the target; `{other}` the object that the details name; `{name}` any member of the details.
    """

    past: str
    base: str
    rest: str = "{target}"
    without_other: str = "{target}"
    """The rest, if the details do not name the other object, as those of a refusal."""


_PHRASES = {
    "account.delete": Phrase("deleted", "delete", "{account}"),
    "account.restore": Phrase("restored", "restore", "{account}"),
    "api_key.create": Phrase("created", "create"),
    "api_key.delete": Phrase("deleted", "delete"),
    "api_key.revoke": Phrase("revoked", "revoke"),
    "api_key.rotate": Phrase("rotated", "rotate"),
    "api_key.update": Phrase("changed", "change", "{target}{changed}"),
    "audit.chain.accept": Phrase("accepted", "accept", "another audit log"),
    "audit.chain.adopt": Phrase("adopted", "adopt", "an audit log without a mark"),
    "audit.drop": Phrase("dropped", "drop", "exported entries of the audit log"),
    "default_tags.apply": Phrase("started", "start", "to apply the default tags to {target}"),
    "default_tags.apply.complete": Phrase("applied", "apply", "default tags to {target}{summary}"),
    "default_tags.undo": Phrase("started", "start", "to undo an apply of default tags to {target}"),
    "default_tags.undo.complete": Phrase("undid", "undo", "an apply of default tags to {target}{summary}"),
    "default_tags.update": Phrase("changed", "change", "the default tags of {target}{tags}"),
    "device.approve": Phrase("approved", "approve", "a sign-in{device}"),
    "group.create": Phrase("created", "create"),
    "group.delete": Phrase("deleted", "delete"),
    "group.member.add": Phrase("added", "add", "{other} to {target}", "a member to {target}"),
    "group.member.remove": Phrase("removed", "remove", "{other} from {target}", "a member from {target}"),
    "group.update": Phrase("changed", "change", "{target}{changed}"),
    "identity.link": Phrase("linked", "link", "an identity provider to {target}"),
    "interactive.open": Phrase("opened", "open", "a session on {target}"),
    "operation.cancel": Phrase("cancelled", "cancel", "an operation"),
    "platform.stop": Phrase("stopped", "stop", "the platform"),
    "policy.attach": Phrase("attached", "attach", "{target} to {other}"),
    "policy.create": Phrase("created", "create"),
    "policy.delete": Phrase("deleted", "delete"),
    "policy.detach": Phrase("detached", "detach", "{target} from {other}"),
    "policy.rollback": Phrase("rolled back", "roll back", "{target}{rollback}"),
    "policy.update": Phrase("changed", "change", "{target}{changed}"),
    "quota_request.create": Phrase("requested", "request", "{quota}"),
    "quota_request.create_organization": Phrase("requested", "request", "{quota} for the organization"),
    "quota_request.review": Phrase("reviewed", "review", "a request for {quota}{status}"),
    "resource.create": Phrase("created", "create"),
    "resource.delete": Phrase("deleted", "delete"),
    "resource.restart": Phrase("restarted", "restart"),
    "resource.start": Phrase("started", "start"),
    "resource.stop": Phrase("stopped", "stop"),
    "resource.update": Phrase("changed", "change", "{target}{changed}"),
    "session.end": Phrase("signed out", "sign out", ""),
    "session.revoke_all": Phrase("ended", "end", "{sessions}"),
    "session.start": Phrase("signed in", "sign in", ""),
    "tenant.create": Phrase("created", "create"),
    "tenant.provision": Phrase("provisioned", "provision"),
    "tenant.rename": Phrase("renamed", "rename", "{target}{former_name}"),
    "workload_identity.create": Phrase("created", "create"),
    "workload_identity.delete": Phrase("deleted", "delete"),
    "workload_identity.exchange": Phrase("exchanged", "exchange", "a token for {target}"),
    "workload_identity.issuer.remove": Phrase("removed", "remove", "the issuer of {target}"),
    "workload_identity.issuer.set": Phrase("set", "set", "the issuer of {target}"),
    "workload_identity.update": Phrase("changed", "change", "{target}{changed}"),
}
"""By audit event of the platform."""

_REFERENCES = (("memberType", "memberId"), ("attacheeType", "attacheeId"))
"""Members of the details with the kind and id of the other object."""


MACHINES = {"api_key": "key", "workload": "identity"}
SHORT = 8
"""Characters shown of an id without a name, in narrow columns."""


def who_text(record: Record) -> str:
    """Return the actor's best name: `Astrid Lindqvist`, `key terraform`; `key 0192f7c1…` if it no longer exists."""
    actor = record.get("actor")
    if not isinstance(actor, Mapping):
        return ""
    kind, identifier = str(actor.get("kind") or ""), str(actor.get("id") or "")
    if kind in MACHINES:
        called = record.get("credentialName") or f"{str(record.get('credentialId') or identifier)[:SHORT]}…"
        return f"{MACHINES[kind]} {called}"
    if kind == "session":
        return str(actor.get("name") or actor.get("email") or f"{identifier[:SHORT]}…")
    return kind if identifier in ("", kind) else f"{kind} {identifier}"


def target_text(record: Record) -> str:
    """Return the target: `policy deployments`, `group 0192f7c1…`; without a kind, the text as recorded."""
    kind, identifier = record.get("targetKind"), str(record.get("targetId") or "")
    if not kind:
        return str(record.get("target") or "")
    return f"{str(kind).replace('_', ' ')} {record.get('targetName') or f'{identifier[:SHORT]}…'}"


def value_text(value: object) -> str:
    """Format a value for users; mappings and lists on one line."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={value_text(one)}" for name, one in value.items()) or "none"
    if isinstance(value, list | tuple):
        return ", ".join(value_text(one) for one in value) or "none"
    return str(value) if value != "" else "empty"


def sentence(entries: Sequence[Record]) -> str:
    """Return the sentence for an entry, or for entries that `fold` has put together.

    `Mateo García added 3 API keys to group deployers: ci, nightly, deploy-pipeline`.
    """
    newest = entries[0]
    operation = str(newest.get("operation") or "")
    phrase = _PHRASES.get(operation, Phrase(operation, operation))
    rest, names = _object(phrase, entries)
    words = " ".join(part for part in (_who_and_verb(newest, phrase), rest) if part)
    listed = f": {_listing(names)}" if names else ""
    return f"{words}{listed}{_reason(newest)}{_repeats(entries)}"


def fold(entries: Iterable[Record]) -> list[Sequence[Record]]:
    """Group entries of one kind, principal and outcome that follow each other, newest first."""
    groups: list[list[Record]] = []
    targets: set[tuple[object, object]] = set()
    for entry in entries:
        if groups and _belongs(entry, groups[-1], targets):
            groups[-1].append(entry)
        else:
            groups.append([entry])
            targets = set()
        targets.add(_target(entry))
    return list(groups)


def _belongs(entry: Record, group: Sequence[Record], targets: set[tuple[object, object]]) -> bool:
    """Return whether an entry belongs to a group of entries on these targets."""
    newest = group[0]
    if _kind_of(entry) != _kind_of(newest):
        return False
    first, last = parse_time(newest.get("at")), parse_time(entry.get("at"))
    if first is None or last is None or abs(first - last) > FOLDED_WITHIN:
        return False
    if targets == {_target(entry)}:
        # Changes of one object differ in what they change, except its members.
        return all(_other(one) for one in (entry, newest)) or entry.get("outcome") == "refused"
    return _is_plain(str(entry.get("operation"))) and _target(entry) not in targets and len(targets) == len(group)


def _is_plain(operation: str) -> bool:
    """Whether the sentence of an operation has nothing besides the target."""
    return operation in _PHRASES and _PHRASES[operation].rest == "{target}"


def _kind_of(entry: Record) -> tuple[object, ...]:
    details = _details(entry)
    other = _other(entry)
    target = entry.get("targetKind") if _target(entry)[1] else entry.get("target")
    outcome = (entry.get("outcome"), details.get("code"), details.get("reason"))
    return (who_text(entry), entry.get("operation"), *outcome, target, other[0] if other else None)


def _target(entry: Record) -> tuple[object, object]:
    return entry.get("targetKind"), entry.get("targetId")


def _details(entry: Record) -> Mapping[str, object]:
    details = entry.get("details")
    return details if isinstance(details, Mapping) else {}


def _other(entry: Record) -> tuple[str, str] | None:
    """Return the kind and id of the object that the details name besides the target."""
    details = _details(entry)
    for kind, identifier in _REFERENCES:
        if details.get(kind) and details.get(identifier):
            return str(details[kind]), str(details[identifier])
    return None


def _who_and_verb(entry: Record, phrase: Phrase) -> str:
    who, outcome, code = who_text(entry) or "someone", entry.get("outcome"), _details(entry).get("code")
    if outcome == "refused":
        return (
            f"{who} was not allowed to {phrase.base}"
            if code == "PERMISSION_DENIED"
            else f"{who} could not {phrase.base}"
        )
    if outcome == "failed":
        return f"{who} failed to {phrase.base}"
    return f"{who} {phrase.past}"


def _object(phrase: Phrase, entries: Sequence[Record]) -> tuple[str, Sequence[str]]:
    """Return what follows the verb, and the names to list after it."""
    newest, names = entries[0], list[str]()
    is_own, target = _is_own(newest), _target_name(newest)
    members = {
        "target": target,
        "other": _other_name(newest),
        "account": "their account" if is_own else f"the account of {target}",
        "sessions": "all their sessions" if is_own else f"all sessions of {target}",
    }
    if len(entries) > 1:
        if len({_target(entry) for entry in entries}) > 1:
            members["target"] = _count_of(str(newest.get("targetKind")), len(entries))
            names = [_name(entry) for entry in entries]
        elif (others := list(dict.fromkeys(other for entry in entries if (other := _other(entry))))) and len(
            others
        ) > 1:
            members["other"] = _count_of(others[0][0], len(others))
            named = {other: _other_name(entry, kind=False) for entry in entries if (other := _other(entry))}
            names = [named[other] for other in others]
    if phrase.rest == "{target}" and (scope := _scope(newest)):
        return scope, names
    rest = phrase.without_other if "{other}" in phrase.rest and not members["other"] else phrase.rest
    return _fill(rest, members, newest), names


def _scope(entry: Record) -> str:
    """Return the object of a refusal that names only where it would be: `a policy in tenant Web Shop`."""
    noun, kind = str(entry.get("operation")).partition(".")[0], str(entry.get("targetKind"))
    if kind not in ("tenant", "organization") or noun == kind:
        return ""
    text = _noun(noun)
    return f"{'an' if text[0] in 'Aaeiou' else 'a'} {text} in {_target_name(entry)}"


def _fill(rest: str, members: Mapping[str, str], entry: Record) -> str:
    """Replace the names in braces in one pass, because a value may have braces."""

    def value(match: re.Match[str]) -> str:
        name = match[1]
        return members[name] if name in members else _DETAILS[name](_details(entry))

    return re.sub(r"\{(\w+)\}", value, rest)


def _target_name(entry: Record) -> str:
    """Return the target with its kind, by the name that the details keep if it no longer exists."""
    kind = entry.get("targetKind")
    if not kind:
        return str(entry.get("target") or "")
    return f"{_noun(str(kind))} {_name(entry)}"


def _is_own(entry: Record) -> bool:
    """Whether the target is the actor."""
    actor = entry.get("actor")
    return isinstance(actor, Mapping) and entry.get("targetId") == actor.get("id")


def _name(entry: Record) -> str:
    details = _details(entry)
    known = entry.get("targetName") or details.get("name") or details.get("displayName")
    if not known and details.get("namespace"):
        known = f"{details['namespace']}/{details.get('serviceAccount', '')}"
    return str(known or f"{str(entry.get('targetId') or '')[:SHORT]}…")


def _other_name(entry: Record, *, kind: bool = True) -> str:
    other, names = _other(entry), entry.get("detailNames")
    if other is None:
        return ""
    name = names.get(other[1]) if isinstance(names, Mapping) else None
    text = str(name or f"{other[1][:SHORT]}…")
    return f"{_noun(other[0])} {text}" if kind else text


def _noun(kind: str) -> str:
    return "API key" if kind == "api_key" else kind.replace("_", " ")


def _count_of(kind: str, number: int) -> str:
    noun = _noun(kind)
    plural = f"{noun[:-1]}ies" if noun.endswith("y") and not noun.endswith("ey") else f"{noun}s"
    return f"{number:,} {plural}"


def _listing(names: Sequence[str]) -> str:
    rest = len(names) - MAX_NAMES
    listed = ", ".join(names[: MAX_NAMES if rest > 0 else None])
    return f"{listed} and {rest:,} more" if rest > 0 else listed


def _reason(entry: Record) -> str:
    details = _details(entry)
    reason = details.get("code") or details.get("reason")
    if entry.get("outcome") not in ("refused", "failed") or reason in (None, "", "PERMISSION_DENIED"):
        return ""
    return f" ({value_text(reason)})"


def _repeats(entries: Sequence[Record]) -> str:
    """Return how often a refusal was repeated; entries with different objects name them instead."""
    refused = [entry for entry in entries if entry.get("outcome") == "refused"]
    counts = [details.get("repeated") for entry in refused if (details := _details(entry))]
    number = sum(count if isinstance(count, int) else 1 for count in counts)
    one_object = len({_target(entry) for entry in entries}) == 1 and not any(map(_other, entries))
    return f" ({number:,} times)" if number > 1 and one_object else ""


# --- what the details say ------------------------------------------------------------------------------------------


def _changed(details: Mapping[str, object]) -> str:
    changed = details.get("changed")
    if isinstance(changed, list):
        return f": {', '.join(map(str, changed))}" if changed else ""
    names = [
        str(name) for name, value in details.items() if isinstance(value, Mapping) and set(value) == {"from", "to"}
    ]
    return f": {', '.join(map(_words, names))}" if names else ""


def _words(member: str) -> str:
    return "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in member).replace("_", " ")


def _former_name(details: Mapping[str, object]) -> str:
    return f" (was {value_text(details['from'])})" if "from" in details else ""


def _tags(details: Mapping[str, object]) -> str:
    before, after = details.get("from"), details.get("to")
    if not isinstance(before, Mapping) or not isinstance(after, Mapping):
        return ""
    changes = difference(
        {name: value_text(value) for name, value in before.items()},
        {name: value_text(value) for name, value in after.items()},
    )
    return f": {_listing(list(changes.lines()))}"


def _summary(details: Mapping[str, object]) -> str:
    if not isinstance(details.get("summary"), Mapping):
        return ""
    summary = separate_unlisted(cast("Mapping[str, Any]", details["summary"]))
    counts = [
        f"{summary[word]:,} {text}" for word, text in _COUNTS if isinstance(summary.get(word), int) and summary[word]
    ]
    return f": {', '.join(counts) or 'nothing to change'}"


_COUNTS = (("updated", "changed"), ("skipped", "skipped"), ("failed", "failed"), ("unlisted", "types not listed"))


def _quota(details: Mapping[str, object]) -> str:
    if not details.get("resourceType"):
        return "a quota"
    noun = str(details["resourceType"]).replace("_", " ")
    return f"{noun}: {value_text(details.get('from'))} → {value_text(details.get('to'))}"


def _status(details: Mapping[str, object]) -> str:
    return f" ({value_text(details['status'])})" if details.get("status") else ""


def _device(details: Mapping[str, object]) -> str:
    return f" on {value_text(details['device'])}" if details.get("device") else ""


def _rollback(details: Mapping[str, object]) -> str:
    return f" to version {value_text(details['rolledBackTo'])}" if details.get("rolledBackTo") else ""


_DETAILS: Mapping[str, Callable[[Mapping[str, object]], str]] = {
    "changed": _changed,
    "device": _device,
    "former_name": _former_name,
    "quota": _quota,
    "rollback": _rollback,
    "status": _status,
    "summary": _summary,
    "tags": _tags,
}
