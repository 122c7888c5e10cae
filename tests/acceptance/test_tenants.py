"""Tenants, from the command to the database and back."""

import time
import unicodedata

import pytest
import yaml

from tests.acceptance.people import (
    ADMIN,
    AURORA,
    BOREALIS,
    DATA_LAKE,
    MEMBER,
    NEWSROOM,
    NOBODYS,
    OTHER_OWNER,
    OUTSIDER,
    REGIONAL,
    SANDBOX,
    STAGING,
    VIEWER,
    WEB_SHOP,
    current,
    listed,
    wait_active,
)
from tests.homes import Home


def create(home: Home, name: str, organization: str = AURORA) -> dict[str, object]:
    record: dict[str, object] = home.json("tenant", "create", "--name", name, "--organization", organization)
    return record


def test_a_tenant_is_returned_at_once_and_becomes_active_with_nothing_else_changed(demo: Home) -> None:
    made = create(demo, "Night Shift")
    assert made["status"] == "provisioning"
    assert made["displayName"] == "Night Shift"
    assert made["slug"] == "night-shift"
    assert made["organizationId"] == AURORA
    done = wait_active(demo, str(made["id"]))
    assert done["status"] == "active"
    for member in ("id", "displayName", "slug", "organizationId", "createdAt"):
        assert done[member] == made[member]


def test_a_name_is_needed(shared: Home) -> None:
    for words in (["tenant", "create"], ["tenant", "rename", WEB_SHOP]):
        result = shared.frost(*words)
        assert result.code == 2
        assert "--name" in result.err


@pytest.mark.parametrize("person", [MEMBER, VIEWER, REGIONAL, OTHER_OWNER])
def test_creating_needs_the_right_in_that_organization(demo: Home, person: str) -> None:
    demo.sign_in(person)
    result = demo.frost("tenant", "create", "--name", "Not Mine", "--organization", AURORA)
    assert result.code == 4
    demo.sign_in()
    assert "Not Mine" not in [item["displayName"] for item in listed(demo, "--all")]


def test_equal_names_are_accepted_and_get_their_own_slugs(demo: Home) -> None:
    first, second = create(demo, "Web Shop"), create(demo, "Web Shop")
    assert [first["slug"], second["slug"]] == ["web-shop-2", "web-shop-3"]
    assert first["id"] != second["id"]
    assert create(demo, "Ärger & Größe!")["slug"] == "arger-grosse"
    assert len(str(create(demo, "long " * 24)["slug"])) <= 48
    assert create(demo, "日本語")["slug"]


def test_provisioning_covers_its_four_parts_and_gives_the_default_quotas(demo: Home) -> None:
    made = create(demo, "Parts")
    wait_active(demo, str(made["id"]))
    operations = demo.json("platform", "operations")["items"]
    mine = next(item for item in operations if item["tenantId"] == made["id"])
    assert [step["name"] for step in mine["steps"]] == ["isolation", "roles", "quotas", "billing_account"]
    assert {step["status"] for step in mine["steps"]} == {"completed"}
    import sqlite3

    with sqlite3.connect(demo.platform_dir / "platform.db") as database:
        limits = dict(
            database.execute('SELECT resource_type, "limit" FROM tenant_quotas WHERE tenant_id = ?', [made["id"]])
        )
        projects = database.execute("SELECT name FROM isolation_projects WHERE tenant_id = ?", [made["id"]]).fetchall()
    from service.catalogue.quota_types import default_limits

    assert limits == default_limits()
    assert len(projects) == 1
    assert str(made["slug"]) in projects[0][0]


def test_a_step_that_fails_is_tried_again_until_the_tenant_is_there(demo: Home) -> None:
    record = wait_active(demo, SANDBOX, 40)
    assert record["status"] == "active"
    mine = next(item for item in demo.json("platform", "operations")["items"] if item["tenantId"] == SANDBOX)
    billing = mine["steps"][-1]
    assert billing["attempts"] == 3
    assert mine["status"] == "completed"


def test_creating_does_not_change_the_active_tenant(demo: Home) -> None:
    before = current(demo)["id"]
    create(demo, "Elsewhere")
    assert current(demo)["id"] == before


def test_lists_are_of_one_organization_or_of_all(shared: Home) -> None:
    assert {item["organizationId"] for item in listed(shared, "--organization", BOREALIS)} == {BOREALIS}
    everything = listed(shared, "--all")
    assert {item["organizationId"] for item in everything} == {AURORA, BOREALIS}
    assert len(everything) == 6
    table = shared.frost("tenant", "list", "--all").out
    assert "Aurora Labs" in table
    assert "Borealis Media" in table


def test_with_several_organizations_the_list_is_that_of_the_active_tenant_and_says_so(shared: Home) -> None:
    result = shared.frost("tenant", "list", "-o", "json")
    assert {item["organizationId"] for item in result.json()["items"]} == {AURORA}
    assert "--all" in result.err


def test_without_a_tenant_in_use_it_says_how_to_name_an_organization_or_to_list_all(shared: Home) -> None:
    refused = shared.frost("tenant", "list", "--tenant", "00000000-0000-4000-8000-000000000000")
    assert (refused.code, "or use --all" in refused.err) == (2, True), refused.err
    assert AURORA in refused.err


def test_all_and_one_organization_exclude_each_other(shared: Home) -> None:
    assert shared.frost("tenant", "list", "--all", "--organization", AURORA).code == 2


def test_the_active_tenant_is_marked_and_only_entitled_ones_are_listed(demo: Home) -> None:
    line = next(line for line in demo.frost("tenant", "list", "--all").out.splitlines() if "Web Shop" in line)
    assert line.startswith("*")
    demo.sign_in(MEMBER)
    assert {item["id"] for item in listed(demo, "--all")} == {WEB_SHOP, STAGING, SANDBOX}
    demo.sign_in(OUTSIDER)
    assert listed(demo, "--all") == []


def test_renaming_changes_the_display_name_only(demo: Home) -> None:
    before = next(item for item in listed(demo, "--all") if item["id"] == STAGING)
    renamed = demo.json("tenant", "rename", STAGING, "--name", "Web Shop")
    assert renamed["displayName"] == "Web Shop"
    assert (renamed["id"], renamed["slug"]) == (before["id"], before["slug"])
    named = demo.json("tenant", "rename", STAGING.upper(), "--name", "Shop", "--organization", before["organizationId"])
    assert named["displayName"] == "Shop"


def test_renaming_is_for_admins_and_owners(demo: Home) -> None:
    for person, code in ((MEMBER, 4), (VIEWER, 4), (ADMIN, 0)):
        demo.sign_in(person)
        assert demo.frost("tenant", "rename", STAGING, "--name", f"By {person}").code == code


def test_renaming_needs_an_id(shared: Home) -> None:
    assert shared.frost("whoami").code == 0  # signed in, on a platform that runs
    result = shared.frost("tenant", "rename", "Staging", "--name", "x")
    assert result.code == 2
    assert "id" in result.err.casefold()
    # Two tenants have that name: none is guessed.
    assert "frost tenant list" in result.err
    assert WEB_SHOP in shared.frost("tenant", "rename", "web shop", "--name", "x").err
    assert [item["displayName"] for item in listed(shared, "--all") if item["id"] == WEB_SHOP] == ["Web Shop"]


def test_current_says_which_and_why_in_every_format(shared: Home) -> None:
    record = shared.frost("tenant", "current", "-o", "json").json()
    assert record["id"] == WEB_SHOP
    assert record["source"] == "default"
    assert yaml.safe_load(shared.frost("tenant", "current", "-o", "yaml").out) == record
    table = shared.frost("tenant", "current").out
    assert "Web Shop" in table
    assert "default" in table


def test_use_is_kept_in_the_context_of_the_file(demo: Home) -> None:
    assert demo.frost("tenant", "use", DATA_LAKE).code == 0
    assert current(demo)["id"] == DATA_LAKE
    document = yaml.safe_load(demo.config.read_text())
    assert document["contexts"][document["current_context"]]["tenant"] == DATA_LAKE


@pytest.mark.parametrize("name", ["data lake", "DATA LAKE", "Data Lake", "data-lake", "DATA-LAKE"])
def test_names_and_slugs_are_found_whatever_their_letter_case(shared: Home, name: str) -> None:
    assert shared.frost("tenant", "use", name).code == 0
    assert current(shared)["id"] == DATA_LAKE


def test_an_ambiguous_name_is_refused_with_the_ids_and_nothing_is_stored(demo: Home) -> None:
    before = current(demo)["id"]
    result = demo.frost("tenant", "use", "Staging")
    assert result.code == 1
    assert STAGING in result.err
    assert "Aurora Labs" in result.err
    assert "Borealis Media" in result.err
    assert "staging" in result.err
    assert current(demo)["id"] == before


def test_a_name_that_is_another_tenants_slug_is_ambiguous_as_well(demo: Home) -> None:
    made = create(demo, "data-lake")
    result = demo.frost("tenant", "use", "data-lake")
    assert result.code != 0
    assert str(made["id"]) in result.err
    assert DATA_LAKE in result.err


def test_name_and_slug_of_the_same_tenant_are_one_match(demo: Home) -> None:
    made = create(demo, "same")
    assert made["slug"] == "same"
    assert demo.frost("tenant", "use", "same").code == 0


def test_an_exact_id_wins_over_a_name_that_looks_like_it(demo: Home) -> None:
    create(demo, DATA_LAKE)
    assert demo.frost("tenant", "use", DATA_LAKE).code == 0
    assert current(demo)["displayName"] == "Data Lake"


def test_a_tenant_out_of_reach_reads_like_one_that_does_not_exist(demo: Home) -> None:
    demo.sign_in(MEMBER)
    for out_of_reach in (NEWSROOM, DATA_LAKE):
        foreign, missing = demo.frost("tenant", "use", out_of_reach), demo.frost("tenant", "use", NOBODYS)
        assert foreign.code == missing.code == 5
        assert foreign.err.replace(out_of_reach, "ID") == missing.err.replace(NOBODYS, "ID")
    assert demo.frost("tenant", "use", "Newsroom").code == 5


def test_each_context_keeps_its_own_selection(demo: Home) -> None:
    assert demo.frost("tenant", "use", DATA_LAKE).code == 0
    endpoint = f"unix:{demo.socket}"
    assert demo.frost("login", "--context", "second", "--endpoint", endpoint, "--as", OTHER_OWNER).code == 0
    assert demo.json("whoami")["email"] == OTHER_OWNER
    assert current(demo)["id"] == NEWSROOM
    assert demo.frost("config", "use-context", "local").code == 0
    assert current(demo)["id"] == DATA_LAKE


def test_the_variable_still_wins_and_use_says_so(demo: Home) -> None:
    result = demo.frost("tenant", "use", DATA_LAKE, env={"FROST_TENANT": STAGING})
    assert result.code == 0
    assert "FROST_TENANT" in result.err
    assert current(demo)["id"] == DATA_LAKE


def test_a_selection_out_of_reach_is_refused_and_never_replaced(demo: Home) -> None:
    assert demo.frost("tenant", "use", NEWSROOM).code == 0
    demo.sign_in(MEMBER)
    document = yaml.safe_load(demo.config.read_text())
    assert document["contexts"]["local"].get("tenant") in (None, NEWSROOM)
    if document["contexts"]["local"].get("tenant") is None:
        pytest.fail("signing in as somebody else forgot the selection")
    result = demo.frost("tenant", "current")
    assert result.code != 0
    assert "tenant use" in result.err


def test_a_provisioning_tenant_may_be_used_with_a_note(demo_slow: Home) -> None:
    result = demo_slow.frost("tenant", "use", SANDBOX)
    assert result.code == 0
    assert "provision" in result.err


def test_names_compare_in_one_normal_form_and_look_alikes_do_not_match(demo: Home) -> None:
    made = create(demo, unicodedata.normalize("NFC", "École"))
    decomposed = unicodedata.normalize("NFD", "ÉCOLE")
    assert demo.frost("tenant", "use", decomposed).code == 0
    assert current(demo)["id"] == made["id"]
    assert demo.frost("tenant", "use", "Dаta Lake").code == 5  # a Cyrillic a


def test_names_full_of_escapes_and_markup_are_kept_and_never_obeyed(demo: Home) -> None:
    refused = demo.frost("tenant", "create", "--name", "evil\x1b]0;PWNED\x07", "--organization", AURORA)
    assert refused.code in (1, 2)
    assert "\x1b" not in refused.err
    made = create(demo, "[/bold][@click=app.quit]x[/] $(reboot)")
    line = next(line for line in demo.frost("tenant", "list", "--all").out.splitlines() if str(made["id"]) in line)
    assert "[/bold][@click=app.quit]x[/] $(reboot)" in line


def test_every_change_is_in_the_audit_log_once(demo: Home) -> None:
    import sqlite3

    demo.start()
    before = int(time.time() * 1_000_000)
    made = create(demo, "Audited")
    demo.frost("tenant", "rename", str(made["id"]), "--name", "Renamed")
    demo.sign_in(VIEWER)
    demo.frost("tenant", "rename", WEB_SHOP, "--name", "Refused")
    with sqlite3.connect(demo.platform_dir / "platform.db") as database:
        query = "SELECT operation, tenant_id, outcome FROM audit_log WHERE at > ? ORDER BY id"
        rows = database.execute(query, [before]).fetchall()
    assert [row for row in rows if row[0] in ("tenant.create", "tenant.rename")] == [
        ("tenant.create", made["id"], "done"),
        ("tenant.rename", made["id"], "done"),
        ("tenant.rename", WEB_SHOP, "refused"),
    ]
