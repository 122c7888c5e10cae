"""`frost iam`: the catalogue of operations, and the commands of groups and policies."""

from client.api import analysis
from client.commands.command import Group, Lazy
from client.commands.invocation import Invocation
from client.commands.parameters import Option
from client.tables import iam as tables_iam

iam = Group(
    "iam",
    {
        "group": Lazy(
            "client.commands.iam.groups:group", "Manage groups of API keys and workload identities.", ("groups",)
        ),
        "policy": Lazy(
            "client.commands.iam.policies:policy", "Manage access policies and their attachments.", ("policies",)
        ),
        "simulate": Lazy(
            "client.commands.iam.simulate:simulate", "Test a policy document against a request.", ("test",)
        ),
        "access": Lazy(
            "client.commands.iam.access:access", "List the operations that a principal may perform, and why."
        ),
        "who": Lazy("client.commands.iam.access:who", "List the principals that may perform an operation, and why."),
    },
    help="Manage access policies and groups, and check access.",
)


@iam.leaf(
    "catalog",
    Option(
        ["--filter", "text"], metavar="TEXT", help="Only operations that contain this text; letter case is ignored."
    ),
    examples=("frost iam catalog --filter instances", "frost iam catalog --filter :delete -o wide"),
)
def catalog(run: Invocation, text: str | None) -> None:
    """List the operations a policy can name, `svc:resource:action`.

    The platform serves the list and only adds to it. -o wide shows the scope and the description of each operation.
    API keys may read it too.
    """
    operations = run.call(analysis.operations(text or ""))["operations"]
    run.output.records(tables_iam.CATALOGUE, operations)
