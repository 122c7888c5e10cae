"""`frost iam simulate` and `frost iam policy check`: the decision of a document, and whether it is accepted."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from client.api import analysis
from client.commands.command import leaf
from client.commands.completers import operation_names
from client.commands.iam import inputs
from client.commands.invocation import Invocation
from client.commands.options import PRINCIPAL_TYPES, text_of
from client.commands.parameters import Option
from client.errors import Exit
from client.tables.columns import Column, Kind, Record
from client.tables.iam import constraint_text, mismatch_text, rule_text, unsure_text
from client.text import safe
from client.texts.refusals import example_lines

_TRUTH = {"true": "yes", "false": "no", "unknown": "unknown"}


def _rule(record: Record) -> str:
    """Return number and name, `3 keep-production`. Rules are numbered from 1."""
    index = record.get("index")
    return f"{index + 1 if isinstance(index, int) else ''} {record.get('name') or ''}".strip()


def _not_met(record: Record) -> str:
    """Return the false and the unknown parts; only `operation` if the rule is about another operation."""
    if record.get("operation") == "false":
        return "operation"
    parts = [("target", record.get("target"))]
    parts += [(constraint_text(constraint), constraint.get("result")) for constraint in record.get("constraints") or ()]
    failed = [text for text, result in parts if result == "false"]
    unknown = [text for text, result in parts if result == "unknown"]
    return "; ".join([*failed, *(["unknown: " + ", ".join(unknown)] if unknown else [])])


def _constraints(record: Record) -> str:
    """Return each constraint with its result."""
    parts = record.get("constraints") or ()
    return ", ".join(f"{constraint_text(part)}: {_TRUTH.get(part.get('result'), part.get('result'))}" for part in parts)


def _outcome(record: Record) -> str:
    """Return the effect of the rule on this request."""
    if record.get("fires"):
        return "denies" if record.get("access") == "deny" else "allows"
    if record.get("withinAuthor") is False and record.get("result") == "true":
        return "no permission"
    return "unknown" if record.get("result") == "unknown" else "no match"


def _part(key: str, title: str) -> Column:
    return Column(
        key, title, wide=True, cell=lambda record: _TRUTH.get(str(record.get(key)), str(record.get(key))), whole=True
    )


_TRACE = (
    Column("rule", "Rule", cell=_rule),
    Column("access", "Access", whole=True),
    Column("outcome", "Outcome", cell=_outcome, whole=True),
    Column("notMet", "Not met", cell=_not_met),
    _part("operation", "Operation"),
    _part("target", "Target"),
    Column("constraints", "Constraints", wide=True, cell=_constraints),
)
TRACE = Kind("rule", "rules", "index", _TRACE, {}, "name")


@leaf(
    "simulate",
    inputs.document_flag(required=True),
    Option(
        ["--operation"], required=True, metavar="OPERATION", help="svc:resource:action.", shell_complete=operation_names
    ),
    Option(["--target"], required=True, metavar="TARGET", help="A resource's name (FRN), or * for any."),
    Option(
        ["--principal-type"],
        type=click.Choice(PRINCIPAL_TYPES),
        help=f"Type of the principal: {', '.join(PRINCIPAL_TYPES)}.",
    ),
    *inputs.REQUEST_FLAGS,
    Option(["--tenant"], metavar="TENANT", help="Tenant of the request; the tenant to operate on is the selected one."),
    Option(["--as-author"], is_flag=True, help="Limit the decision to your own permissions."),
    Option(["--fail-on-deny"], is_flag=True, help="Exit with code 1 if the request is denied."),
    person=True,
    examples=(
        "frost iam simulate --document @p.json --operation compute:instances:delete --target '*'",
        "frost iam test --document @p.json --operation compute:instances:read --target '*' --source-ip 203.0.113.7",
    ),
)
def simulate(
    run: Invocation,
    document_: str,
    operation: str,
    target: str,
    principal_type: str | None,
    tenant: str | None,
    as_author: bool,
    fail_on_deny: bool,
    **facts: Any,
) -> None:
    """Test a policy document against a request.

    Prints allowed or denied and the deciding rule. Nothing is stored or enforced. Omitted values are unknown: an
    allow rule that needs one does not match, a deny rule does. Both decisions exit with code 0.
    """
    operation, target = inputs.operation(operation), inputs.target(target)
    known = inputs.facts(principalType=principal_type, tenant=text_of(tenant, "--tenant"), **facts)
    draft = inputs.read_document(run, document_)
    with inputs.locate_errors(draft):
        answer: dict[str, Any] = run.call_for_tenant(
            lambda tenant_id: analysis.simulate(tenant_id, draft.text, operation, target, known, as_author=as_author)
        )
    if run.output.structured:
        run.output.document(answer)
    else:
        run.output.lines(verdict_lines(answer, operation, target))
        run.output.lines([""])
        run.output.records(TRACE, answer["rules"])
    draft.warn(run, answer.get("warnings", ()))
    if not as_author:
        run.output.note("your own permissions were not considered; add --as-author to limit the decision to them")
    if fail_on_deny and answer["decision"] != "allowed":
        from click.exceptions import Exit as End

        raise End(Exit.REFUSED)


def verdict_lines(answer: Mapping[str, Any], operation: str, target: str) -> Iterator[str]:
    """Yield the decision, the reason, and the facts that could change the decision."""
    yield f"{str(answer['decision']).upper()}  {operation} on {target}"
    yield f"  {_because(answer)}"
    if missing := _missing(answer.get("missing") or ()):
        yield f"  unknown: {missing}"
    if answer.get("decision") != "allowed" and answer.get("someTarget"):
        yield "  the operation is allowed on some targets; select one with --target frn:…"


def _because(answer: Mapping[str, Any]) -> str:
    if because := answer.get("because"):
        return safe(because)
    deciding, nearest = answer.get("decidingRule"), answer.get("nearestRule")
    reason = answer.get("reason")
    if isinstance(deciding, Mapping):
        rule = rule_text(deciding.get("index"), deciding.get("name"))
        if reason == "explicit_deny":
            unsure = any(
                one["index"] == deciding.get("index") and one.get("result") == "unknown" for one in answer["rules"]
            )
            because = ", because it may match" if unsure else ""
            return f"{rule} denies it{because}"
        return f"{rule} allows it, and no rule denies it"
    if not isinstance(nearest, Mapping):
        return "no rule allows anything"
    rule = rule_text(nearest.get("index"), nearest.get("name"))
    failed = str(nearest.get("failed"))
    if reason == "unknown_context":
        return f"not enough is known for {rule}: {unsure_text(failed)}"
    return f"no rule matched; nearest is {rule}: {mismatch_text(failed)}"


def _missing(missing: Sequence[Mapping[str, Any]]) -> str:
    return ", ".join(f"{one.get('key')} (set it with {one.get('flag')})" for one in missing)


_ANSWERS = {
    "within": "within your own permissions: you may save it",
    "beyond": "grants more than you have: saving would be refused",
    "undecided": "too complex to compare with your permissions: saving would be refused",
}


@leaf(
    "check",
    inputs.document_flag(required=True),
    examples=("frost iam policy check --document @readers.json",),
)
def check(run: Invocation, document_: str) -> None:
    """Check a policy document without saving it.

    The exit code is that of saving it: 0 if you may save it, 4 if it grants more than your own permissions, 2 if it
    is not a valid policy.
    """
    from click.exceptions import Exit as End

    draft = inputs.read_document(run, document_)
    with inputs.locate_errors(draft):
        answer: dict[str, Any] = run.call_for_tenant(lambda tenant: analysis.check(tenant, draft.text))
    if run.output.structured:
        run.output.document(answer)
    else:
        lines = [_ANSWERS.get(answer["answer"], str(answer["answer"])), *example_lines(answer["counterexamples"])]
        run.output.lines(lines)
    draft.warn(run, answer.get("warnings", ()))
    if answer["answer"] != "within":
        from client.policy.problems import REMEDIES  # only a refused document needs it

        if remedy := REMEDIES.get(answer["answer"]):
            run.output.note(remedy)
        raise End(Exit.NOT_ALLOWED)
