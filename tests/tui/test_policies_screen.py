"""The policies screen on the real platform: rules, attachments and versions."""

import json

import pytest

from client.tables.columns import json_of
from tests.acceptance.iam import KEYS, Desk, allow, document, text
from tests.homes import Home
from tests.people import VIEWER
from tests.tui.screens import SIGNALS_ONLY, Ui, opened

DEPLOYMENTS = "de1b1471-320a-48ea-b7a7-88d106762832"
LOOK = "43f2f193-6e85-4f08-b592-7b0fe339d309"
EVERYTHING = {"name": "all", "access": "allow", "operations": ["compute:*"], "targets": ["*"]}


@pytest.mark.slow
async def test_rules_and_orphaned_policies_are_shown_and_columns_filtered(ui: Ui) -> None:
    await ui.press("2", shows=("7 policies", "Sam Okafor (left)"))
    await ui.cursor_on("deployments")
    await ui.expect("3 rules", "1  roll-out · allow", "may  compute:instances:*", "frn:region equals se-sto-1")
    await ui.press("f", shows=("3 rules, folded", "compute:instances:* and 6 more"))
    await ui.press("f", shows="compute:launch-templates:*")
    await ui.press("d", "end", shows=DEPLOYMENTS)  # an ID fits next to the scrollbar
    await ui.press("d")
    await ui.press("x", shows=("Actions", "Del  Delete policy"))
    await ui.press("delete", shows="Delete policy?")
    await ui.press("escape", gone="Delete policy?")
    await ui.cursor_on("contractor access")
    await ui.expect("Effect", "the author has no", "contractors  (group)")
    await ui.press("enter", on="look at compute", shows=('"schemaVersion": "1"', "compute:instances:read"))
    await ui.press("escape", "q", shows="7 policies", cursor="look at compute")
    view = ui.screen.table.view
    for line, column, words in (
        ("author:jonas", "author", "Jonas Berg"),
        ("author:admin@aurora", "author", "Jonas Berg"),
        ("version:3", "version", "3"),
        ("attached:1", "attachmentCount", "1"),
    ):
        ui.screen.set_filter(line)
        cell = next(one for one in view.columns if one.key == column)
        assert 0 < len(view) < view.total, line
        assert all(words in cell.text(json_of(policy)) for policy in view), line


@pytest.mark.slow
async def test_a_policy_is_attached_to_several_and_one_is_deleted(demo: Home, ui: Ui) -> None:
    await ui.policy("look at compute")
    await ui.press("t")
    await ui.expect("Attachments of look at compute", "Not attached: the policy has no effect. n: Attach policy")
    await ui.press("n", shows=("Attach look at compute to", "deployers", "backup-runner"))
    await ui.type("tenant-")
    await ui.press("tab", "tab", shows="2 marked")
    await ui.press("enter", shows=("Attach policy?", "2 keys and identities"))
    await ui.agree(shows=("2 attachments", "tenant-reader", "tenant-writer"))
    assert len(Desk(demo).attached(LOOK)) == 2
    await ui.press("g", "space", "space", "delete")
    await ui.expect("Detach policy?", "tenant-reader (API key), tenant-writer (API key)")
    await ui.agree(shows="Not attached: the policy has no effect. n: Attach policy")
    await ui.press("z", shows="2 attachments")
    await ui.press("escape", shows="7 policies", cursor="look at compute")
    effect = ("Delete policy?", "1 attachment and all versions, permanently", "Web Shop", "shop/checkout")
    await ui.press("delete", on="checkout service", shows=effect)
    assert "active" in ui.row("shop/checkout")  # as among the members of a group
    await ui.answer("enter", gone="Delete policy?")
    await ui.press("delete", shows="Delete policy?")
    await ui.agree(toast="Deleted policy checkout service", shows="6 policies")


@pytest.mark.slow
async def test_keys_of_one_name_have_the_start_of_their_id(demo: Home, ui: Ui) -> None:
    for _ in range(2):
        created = demo.json("account", "api-key", "create", "--name", "twin", "--scopes", "dns:read")["apiKey"]
    twin = f"twin ({created['id'][:8]})"
    await ui.policy("look at compute")
    await ui.press("a", shows="Attach look at compute to")
    await ui.type(created["id"][:8])
    await ui.expect(twin)
    await ui.press("tab", shows="1 marked")
    await ui.press("enter", shows=("Attach policy?", twin))
    await ui.agree(toast=f"Attached look at compute to {twin}")
    assert Desk(demo).attached(LOOK) == {("api_key", created["id"])}


@pytest.mark.slow
async def test_a_version_is_compared_and_rolled_back_to(demo: Home, ui: Ui) -> None:
    await ui.policy("deployments")
    await ui.press("v", shows=("Versions of deployments", "3 versions", "► 3", "Jonas Berg"))
    await ui.press("b", toast="Roll back to this version: this is the current version")
    await ui.press("G", "enter", shows=("Version 1 to 3", "+32 gained, −64 lost", "− compute:instances:delete"))
    await ui.press("end", shows='"keep-production"')
    await ui.press("escape", "b", shows=("Roll back to version 1?", "as version 4", "3 keys and identities", "lost"))
    await ui.heard()
    assert ui.focus == "cancel"
    await ui.agree(shows=("4 versions", "► 4", "rollback to 1"))
    assert len(Desk(demo).done("policy", "get", DEPLOYMENTS)["document"]["rules"]) == 1


@pytest.mark.slow
async def test_an_open_editor_names_a_newer_version(demo: Home, ui: Ui) -> None:
    await ui.policy("look at compute")
    await ui.press("enter", shows="version 1  ")
    Desk(demo).done("policy", "update", LOOK, "--description", "changed elsewhere")
    await ui.expect("version 1  (newest is 2)")


@pytest.mark.slow
async def test_a_policy_from_elsewhere_appears_and_effects_name_conditions_and_inert_principals(
    demo: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    def office(block: str) -> dict[str, object]:
        return allow("organizations:tenants:read") | {"constraints": {"ipInRange": {"frn:sourceIp": [block]}}}

    desk = Desk(demo)
    async with opened(demo, monkeypatch, limits=SIGNALS_ONLY) as ui:
        await ui.policy("from the office")
        made = desk.policy(office("10.0.0.0/8"), name="from elsewhere")
        await ui.see(shows=("from elsewhere", "8 policies"), cursor="from the office")
        desk.done("policy", "update", made, "--document", text(office("10.0.0.0/9")))
        desk.attach(made, "api_key", KEYS["terraform"])
        await ui.press("v", on="from elsewhere", shows="2 versions")
        await ui.press("G", "b")
        await ui.expect("Roll back to version 1?", "1 key or identity: ~1 conditional change", "  ~  ", " ~1 ")
        await ui.expect("~ organizations:tenants:read  changed conditions")
        await ui.gone("whose", "PgDn", "nothing gained", "No change")
        await ui.press("escape", gone="Roll back to version 1?")
        checkout = ("--type", "workload_identity", "--id", "47eaa099-2cb6-416d-86dc-283cf0480ff9")
        desk.done("policy", "detach", "627bf322-5fac-4cb6-a34a-cb115ee347dd", *checkout)
        await ui.policy("deployments")
        await ui.press("delete", shows=("1 left inert", "active    inert"))


@pytest.mark.slow
async def test_a_viewer_is_refused_with_a_counterexample(demo: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    demo.start()
    policy = Desk(demo).policy(EVERYTHING, name="a lot")
    demo.sign_in(VIEWER)
    async with opened(demo, monkeypatch) as ui:
        await ui.policy("a lot")
        await ui.press("a", shows=("Attach a lot to", "deployers"))
        await ui.enter("deployers", shows=("Attach policy?", "a policy cannot grant more than its author"))
        await ui.agree(toast="for example compute:")
    assert Desk(demo).attached(policy) == set()


@pytest.mark.slow
async def test_a_version_near_the_limit_is_compared_and_previewed(demo: Home, ui: Ui) -> None:
    """Indented, its document is over the limit of 256 KiB."""
    targets = tuple(f"frn:compute:*:*:instances/machine-{number:04}" for number in range(560))
    rules = [allow("compute:instances:read", targets=targets) for _ in range(10)]
    large = demo.path / "large.json"
    large.write_text(json.dumps(document(*rules), separators=(",", ":")))
    desk = Desk(demo)
    desk.done("policy", "update", LOOK, "--document", f"@{large.name}")
    desk.done("policy", "update", LOOK, "--document", text(allow("compute:instances:read")))
    await ui.policy("look at compute")
    await ui.press("v", shows="► 3")
    await ui.press("j", "enter", shows=("Version 2 to 3", "gained"))
    await ui.press("escape", "b", shows=("Roll back to version 2?", "no key or identity gains or loses"))
