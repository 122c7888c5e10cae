"""The catalogue screen: filter, principals of an operation and API keys."""

from functools import partial

import pytest

from client.tables.iam import CATALOGUE
from tests.effort import effort
from tests.tui.screens import Ui, with_key
from tui.widgets.record_view import RecordView


@pytest.mark.slow
async def test_principals_of_an_operation_are_listed_with_their_path(ui: Ui) -> None:
    await ui.press("4", shows=("528 operations", "audit:events:list", "Export audit events"))
    await ui.press("slash")
    await ui.type("key-pairs", shows=("5 of 528", "compute:key-pairs:import"), gone="audit:events:list")
    await ui.press("escape")
    await ui.command("catalogue.who compute:launch-templates:create")
    await ui.expect("Who may compute:launch-templates:create?", "Target")
    await ui.replace("everything", shows="Target: * or frn:service:region:tenant:type/id")
    await ui.replace("*", shows=("Who may compute:launch-templates:create on *", "deploy-pipeline"))
    await ui.expect("Astrid Lindqvist", "● allowed", "◐ conditional")
    await ui.cursor_on("deploy-pipeline")
    await ui.expect("deployments", "via group deployers")
    assert ui.text.count("Allowed by") == 1  # one heading for scope, role and policy
    await ui.press("enter", shows=("Access of deploy-pipeline", "compute:launch-templates:create"))
    await ui.press("escape", shows="Who may compute:launch-templates:create on *")
    await ui.press("escape", shows="528 operations")


@with_key("tenant-reader")
async def test_an_api_key_reads_the_catalogue_only(ui: Ui) -> None:
    await ui.expect_head("API key")
    await ui.press("4", shows="528 operations")
    for digit in "23":
        await ui.press(digit, shows=("groups and policies need a", "signed-in user."))
    await ui.press("n", toast="New group: this context works with an API key")


@pytest.mark.slow
def test_twenty_thousand_operations_are_filtered_with_little_work() -> None:
    """The benchmarks show the time of a frame on this machine."""
    rows = [
        {"name": f"svc{n % 97}:res{n % 1313}:act{n}", "accessLevel": "read", "description": f"Do thing {n} on a res"}
        for n in range(20_000)
    ]
    view = RecordView(CATALOGUE, [column._replace(wide=False) for column in CATALOGUE.columns])
    view.replace(rows)
    while view.prepare(1_000):
        pass
    typed = "res131:act13"
    best = dict.fromkeys((typed[:end] for end in range(1, len(typed) + 1)), 1e9)
    for _ in range(5):
        for line in best:
            best[line] = min(best[line], effort(partial(view.set_filter, line))[1])
        view.set_filter("")
    assert max(best.values()) < 2, best
    view.set_filter(typed)
    assert [record["name"] for record in view] == [row["name"] for row in rows if typed in str(row["name"])]
