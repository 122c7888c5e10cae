"""Format the details of errors: problems of a policy document, counterexamples, and concurrent changes.

Lines are escaped for a terminal.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from client.errors import FrostError
from client.tables.columns import time_text
from client.tables.iam import rule_text
from client.text import safe

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
        error.message = f"the policy document has {len(problems)} problems"
    error.hint = "fix the document and run the command again"


def problem_lines(error: FrostError) -> Iterator[str]:
    """Yield the problems of a document if there are several; a single one is in the message."""
    problems = _problems(error)
    source = str((error.details or {}).get("source", ""))
    if source and len(problems) > 1:
        for problem in problems:
            yield f"  {safe(problem_text(source, problem), _REASON_CELLS)}"


def problem_text(source: str, problem: Mapping[str, Any]) -> str:
    """Format a problem: `policy.json:4:21: reason; did you mean this? ($.rules[0].operations[0])`."""
    suggestions = " or ".join(str(one) for one in problem.get("suggestions") or ())
    reason = f"{problem.get('reason')}; did you mean {suggestions}?" if suggestions else str(problem.get("reason"))
    where = problem.get("path")
    inside = f" ({where})" if where not in (None, "$") else ""
    return f"{source}:{problem.get('line')}:{problem.get('column')}: {reason}{inside}"


def beyond_lines(error: FrostError) -> Iterator[str]:
    """Yield requests that the policy allows but its author may not make, and the principals concerned."""
    details = error.details or {}
    principals = details.get("principals")
    if isinstance(principals, list) and principals:
        concerned = ", ".join(f"{one.get('type')} {one.get('name') or one.get('id')}" for one in principals)
        yield f"  concerned: {safe(concerned, 400)}"
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
        return f"role {role} gives"
    if scopes := example.get("scopes"):
        return f"scope {', '.join(map(str, scopes))} gives"
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
        for one in versions:
            what = ", ".join(str(name) for name in one.get("changed") or ())
            who = safe(one.get("changedByName") or one.get("changedBy"), 80)
            when = safe(time_text(one.get("changedAt")), 40)
            yield f"  version {safe(one.get('version'), 12)}, {when}, by {who}: {safe(what, 100)}"
        return
    now = details.get("resource")
    if isinstance(now, Mapping):
        when = safe(time_text(now.get("updatedAt")), 40)
        yield f"  changed {when}; its name is {safe(now.get('name'), 130)} now"


def _problems(error: FrostError) -> list[Mapping[str, Any]]:
    problems = (error.details or {}).get("problems")
    return [one for one in problems if isinstance(one, Mapping)] if isinstance(problems, list) else []
