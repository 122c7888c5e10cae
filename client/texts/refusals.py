"""Format errors of the platform: policy documents, counterexamples, concurrent changes, and API key requests.

Text from the platform is escaped for a terminal.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from client import times
from client.errors import Exit, FrostError
from client.tables.columns import parse_time, time_text
from client.tables.iam import rule_text
from client.text import safe
from client.transport.call import NOT_LISTENING

_REASON_CELLS = 600
_LABELS = {
    "sourceIp": "source ip",
    "currentTime": "time",
    "region": "region",
    "principalType": "principal type",
    "tenant": "tenant",
    "requestTags": "request tag",
    "resourceTags": "resource tag",
}


def locate_problems(error: FrostError, source: str) -> None:
    """Add the position in the author's text, named by `source`, to the problems of a document."""
    problems = _problems(error)
    if not problems:
        return
    error.details = {**(error.details or {}), "source": source}
    if len(problems) == 1:
        error.message = safe(problem_text(source, problems[0]), _REASON_CELLS)
    else:
        from client.policy.problems import MAX_PROBLEMS  # commands that only import this module start sooner

        at_least = "at least " if len(problems) >= MAX_PROBLEMS else ""
        error.message = f"the policy document has {at_least}{len(problems)} problems"
    error.hint = "fix the document and run the command again"


def problem_lines(error: FrostError) -> Iterator[str]:
    """Yield the problems of a document with several; a single problem is in the message."""
    problems = _problems(error)
    source = str((error.details or {}).get("source", ""))
    if source and len(problems) > 1:
        for problem in problems:
            yield f"  {safe(problem_text(source, problem), _REASON_CELLS)}"


def problem_text(source: str, problem: Mapping[str, Any]) -> str:
    """Format a problem: `policy.json:4:21: reason; did you mean this? ($.rules[0].operations[0])`."""
    suggestions = " or ".join(str(suggestion) for suggestion in problem.get("suggestions") or ())
    reason = f"{problem.get('reason')}; did you mean {suggestions}?" if suggestions else str(problem.get("reason"))
    where = problem.get("path")
    inside = f" ({where})" if where not in (None, "$") else ""
    return f"{source}:{problem.get('line')}:{problem.get('column')}: {reason}{inside}"


def beyond_lines(error: FrostError) -> Iterator[str]:
    """Yield requests that the policy allows but its author may not make, and the principals concerned."""
    details = error.details or {}
    principals = details.get("principals")
    if isinstance(principals, list) and principals:
        concerned = ", ".join(
            f"{principal.get('type')} {principal.get('name') or principal.get('id')}" for principal in principals
        )
        yield f"  affected: {safe(concerned, 400)}"
    yield from example_lines(details.get("counterexamples") or ())


def example_lines(examples: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield lines for counterexamples: operation and target, request context, policy rule, missing permission."""
    for example in examples:
        yield f"  {safe(example.get('operation'), 200)} on {safe(example.get('target'), 300)}"
        if facts := facts_text(example.get("facts") or {}):
            yield f"    with {safe(facts, 300)}"
        yield f"    {safe(_source_of(example), 300)} it; {safe(example.get('why'), 300)}"


def _source_of(example: Mapping[str, Any]) -> str:
    """Return the source of a permission: a policy rule, a role or scopes."""
    if role := example.get("role"):
        return f"role {role} allows"
    if scopes := example.get("scopes"):
        return f"scope {', '.join(map(str, scopes))} allows"
    policy = f" of policy {example['policyName']}" if example.get("policyName") else ""
    return f"{rule_text(example.get('ruleIndex'), example.get('ruleName'))}{policy} allows"


def facts_text(facts: Mapping[str, Any]) -> str:
    """Format a request context: `source ip 192.0.2.7, resource tags env=prod`; `no request tags` for an empty set."""
    parts = []
    for name, value in facts.items():
        label = _LABELS.get(name, name)
        if isinstance(value, Mapping):
            tags = " ".join(f"{key}={text}" for key, text in value.items())
            parts.append(f"{label}s {tags}" if tags else f"no {label}s")
        else:
            parts.append(f"{label} {'unknown' if value is None else value}")
    return ", ".join(parts)


def stale_lines(error: FrostError) -> Iterator[str]:
    """Yield the changes since the version that a write was based on, with their authors."""
    details = error.details or {}
    versions = details.get("versions")
    if isinstance(versions, list):
        for version in versions:
            what = ", ".join(str(name) for name in version.get("changed") or ())
            who = safe(version.get("changedByName") or version.get("changedBy"), 80)
            when = safe(time_text(version.get("changedAt")), 40)
            yield f"  version {safe(version.get('version'), 12)}, {when}, by {who}: {safe(what, 100)}"
        return
    now = details.get("resource")
    if isinstance(now, Mapping):
        when = safe(time_text(now.get("updatedAt")), 40)
        yield f"  changed {when}; its name is {safe(now.get('name'), 130)} now"


def _problems(error: FrostError) -> list[Mapping[str, Any]]:
    problems = (error.details or {}).get("problems")
    return [problem for problem in problems if isinstance(problem, Mapping)] if isinstance(problems, list) else []


_CELLS = 100
_MEMBERS = {
    "INVALID_API_KEY_NAME": "name",
    "WILDCARD_SCOPE_NOT_ALLOWED": "scopes",
    "INVALID_SCOPE": "scopes",
    "SCOPE_EXCEEDS_AUTHOR": "scopes",
    "API_KEY_LIFETIME_EXCEEDS_MAX": "expiresAt",
    "API_KEY_EXPIRY_IN_PAST": "expiresAt",
}


class KeyProblem(NamedTuple):
    """The problem of a request to create or change a key. `member` is the member of the body at fault, "" for none."""

    member: str
    message: str


def key_problem(error: FrostError) -> KeyProblem:
    details = error.details or {}
    member = _MEMBERS.get(error.code) or str(details.get("member") or "")
    scope = safe(details.get("scope"), _CELLS)
    match error.code:
        case "SCOPE_EXCEEDS_AUTHOR":
            lacks = details.get("lacks")
            missing = [safe(operation, _CELLS) for operation in lacks] if isinstance(lacks, list) else []
            more = " and more" if len(missing) > 1 else ""
            message = f"your role does not grant {missing[0]}{more}" if missing else error.message
            return KeyProblem(member, f"{scope}: {message}")
        case "WILDCARD_SCOPE_NOT_ALLOWED" | "INVALID_SCOPE":
            return KeyProblem(member, f'"{scope}": {error.message}')
        case "API_KEY_LIFETIME_EXCEEDS_MAX":
            return KeyProblem(member, f"a key is valid for at most 2 years: until {_latest(details.get('latest'))}")
        case "API_KEY_EXPIRY_IN_PAST":
            now = _second(details.get("now"))
            return KeyProblem(member, f"the expiry is in the past: the platform's time is {now}")
        case "SECRET_ALREADY_SHOWN":
            key_id = safe(details.get("apiKeyId"), _CELLS)
            return KeyProblem(
                "", f"key {key_id} was created, but its secret was lost: delete the key and create another"
            )
    return KeyProblem(member, error.message)


def may_exist(error: FrostError) -> bool:
    """Return whether the resource may have been created although the request failed."""
    return error.exit_code is Exit.UNREACHABLE and error.code != NOT_LISTENING


def _latest(value: object) -> str:
    """Return the latest permitted time and the last local day that ends before it."""
    latest = parse_time(value)
    return safe(value, _CELLS) if latest is None else f"{_second(value)}, or {times.last_day(latest).isoformat()}"


def _second(value: object) -> str:
    """Return a time to the second, in the form that users type."""
    moment = parse_time(value)
    return safe(value, _CELLS) if moment is None else times.wire(moment.replace(microsecond=0))
