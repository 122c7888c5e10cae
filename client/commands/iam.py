"""`frost iam`: the catalogue, groups, policies and their trial (contract: iam; checklist C, R, M, O, H, S)."""

import click

from client import records_iam
from client.api import catalogue as calls
from client.commands.frame import Group, Lazy
from client.commands.invocation import Invocation

iam = Group(
    "iam",
    {
        "group": Lazy("client.commands.iam_group:group", "Groups of API keys and workload identities.", ("groups",)),
        "policy": Lazy("client.commands.iam_policy:policy", "Access policies and their attachments.", ("policies",)),
        "simulate": Lazy("client.commands.iam_simulate:simulate", "Try a policy document on a request.", ("test",)),
        "access": Lazy("client.commands.iam_access:access", "Show everything a principal may do, and why.", ours=True),
        "who": Lazy("client.commands.iam_access:who", "List everybody who may do something, and why.", ours=True),
    },
    help="Access policies, groups, and who may do what.",
)


@iam.leaf(
    "catalog",
    click.Option(["--filter", "wanted"], metavar="TEXT", help="Only operations that hold this text, in any case."),
    examples=("frost iam catalog --filter instances", "frost iam catalog --filter :delete -o wide"),
)
def catalog(run: Invocation, wanted: str | None) -> None:
    """List the operations a policy can name, `svc:resource:action`.

    The platform serves the list and only ever adds to it. -o wide tells how far each operation reaches and what it
    does. An API key may read it too.
    """
    found = run.call(calls.operations(wanted or ""))["operations"]
    run.output.records(records_iam.CATALOGUE, found)
