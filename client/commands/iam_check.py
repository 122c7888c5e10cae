"""`frost iam policy check`: would a document be accepted from you? (ours; checklist O31)"""

from typing import Any

from client.api import trials
from client.commands import document
from client.commands.frame import leaf
from client.commands.invocation import Invocation
from client.commands.refusals import example_lines
from client.errors import Exit

_ANSWERS = {
    "within": "within your rights: you could save it",
    "beyond": "beyond your rights: it would grant what you do not hold",
    "undecided": "too entangled to be compared with your rights: it would be refused",
}


@leaf(
    "check",
    document.flag(required=True),
    ours=True,
    examples=("frost iam policy check --document @readers.json",),
)
def check(run: Invocation, document_: str) -> None:
    """Check a document as saving it would, without saving it.

    It exits as saving it would: 0 when you could, 4 when it would grant more than you hold, 2 when it is no policy.
    """
    from click.exceptions import Exit as End

    draft = document.given(run, document_)
    with document.named(draft):
        answer: dict[str, Any] = run.call_for_tenant(lambda tenant: trials.check(tenant, draft.text))
    if run.output.structured:
        run.output.document(answer)
    else:
        said = [_ANSWERS.get(answer["answer"], str(answer["answer"])), *example_lines(answer["counterexamples"])]
        run.output.lines(said)
    draft.warn(run, answer.get("warnings", ()))
    if answer["answer"] != "within":
        raise End(Exit.NOT_ALLOWED)
