"""`frost iam`: the catalogue of operations, and the commands of groups and policies."""

import click

from client.api import analysis
from client.commands.command import Group, Lazy
from client.commands.invocation import Invocation
from client.tables import iam as tables_iam

iam = Group(
    "iam",
    {
        "group": Lazy("client.commands.iam.groups:group", "Groups of API keys and workload identities.", ("groups",)),
        "policy": Lazy("client.commands.iam.policies:policy", "Access policies and their attachments.", ("policies",)),
        "simulate": Lazy("client.commands.iam.simulate:simulate", "Try a policy document on a request.", ("test",)),
        "access": Lazy("client.commands.iam.access:access", "Show everything a principal may do, and why.", ours=True),
        "who": Lazy("client.commands.iam.access:who", "List everybody who may do something, and why.", ours=True),
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
    found = run.call(analysis.operations(wanted or ""))["operations"]
    run.output.records(tables_iam.CATALOGUE, found)
