"""Tenants, from the command to the database and back."""

import yaml

from tests.acceptance.shell import listed
from tests.homes import Home
from tests.people import (
    ADMIN,
    AURORA,
    BOREALIS,
    BOREALIS_OWNER,
    DATA_LAKE,
    MEMBER,
    NEWSROOM,
    OUTSIDER,
    SANDBOX,
    STAGING,
    UNKNOWN_ID,
    WEB_SHOP,
)
from tests.waiting import until


def test_a_tenant_becomes_active_and_a_member_creates_and_renames_none(demo: Home) -> None:
    made = demo.json("tenant", "create", "--name", "Night Shift", "--organization", AURORA)
    expected = {"displayName": "Night Shift", "slug": "night-shift", "organizationId": AURORA}
    assert made.items() >= (expected | {"status": "provisioning"}).items()

    def record() -> dict[str, object]:
        return next(item for item in listed(demo, "--all") if item["id"] == made["id"])

    until(lambda: record()["status"] == "active")
    demo.sign_in(MEMBER)
    for words in (("create", "--name", "Not Mine", "--organization", AURORA), ("rename", STAGING, "--name", "Mine")):
        assert demo.frost("tenant", *words).code == 4
    demo.sign_in(OUTSIDER)
    assert listed(demo, "--all") == []
    orphan = demo.frost("tenant", "create", "--name", "x")
    assert (orphan.code != 0, "you belong to no organization" in orphan.err) == (True, True)
    demo.sign_in()
    # The owner of one organization is a member of another one, where only owners and admins create tenants.
    several = demo.frost("tenant", "create", "--name", "x")
    assert several.code == 2
    assert all(text in several.err for text in (AURORA, BOREALIS, "--organization"))
    assert demo.json("tenant", "create", "--name", "Owned", "--organization", "Aurora Labs")["organizationId"] == AURORA
    demo.sign_in(ADMIN)
    assert demo.json("tenant", "create", "--name", "No Flag")["organizationId"] == AURORA


def test_lists_are_of_one_organization_or_of_all_and_a_rename_needs_an_id(shared: Home) -> None:
    assert {item["organizationId"] for item in listed(shared, "--organization", BOREALIS)} == {BOREALIS}
    everything = listed(shared, "--all")
    assert {item["organizationId"] for item in everything} == {AURORA, BOREALIS}
    assert len(everything) == 6
    table = shared.frost("tenant", "list", "--all").out
    assert all(text in table for text in ("Aurora Labs", "Borealis Media"))
    assert next(line for line in table.splitlines() if "Web Shop" in line).startswith("*")
    active = shared.frost("tenant", "list", "-o", "json")
    assert {item["organizationId"] for item in active.json()["items"]} == {AURORA}
    assert "--all" in active.err
    unselected = shared.frost("tenant", "list", "--tenant", "00000000-0000-4000-8000-000000000000")
    assert unselected.code == 2
    assert all(text in unselected.err for text in ("or use --all", AURORA))
    # A rename needs an ID. Two tenants have the first name, and one the second.
    for name, hint in (("Staging", "frost tenant list"), ("web shop", WEB_SHOP)):
        refused = shared.frost("tenant", "rename", name, "--name", "x")
        assert (refused.code, "id" in refused.err.casefold(), hint in refused.err) == (2, True, True)


def test_a_tenant_out_of_reach_reads_like_one_that_does_not_exist(demo: Home) -> None:
    demo.sign_in(MEMBER)
    for words, code in ((["tenant", "use"], 5), (["tenant", "current", "--tenant"], 4)):
        missing = demo.frost(*words, UNKNOWN_ID)
        for out_of_reach in (NEWSROOM, DATA_LAKE):
            foreign = demo.frost(*words, out_of_reach)
            assert foreign.code == missing.code == code
            assert foreign.err.replace(out_of_reach, "ID") == missing.err.replace(UNKNOWN_ID, "ID")
    unknown, foreign = (demo.frost("tenant", "use", name) for name in ("Nobody", "Newsroom"))
    assert (foreign.code, foreign.err.replace("Newsroom", "N")) == (5, unknown.err.replace("Nobody", "N"))
    # Another organization has a tenant of that name too.
    assert demo.frost("tenant", "use", "Staging").code == 0
    assert demo.json("tenant", "current")["id"] == STAGING


def test_each_context_keeps_its_own_selection(demo_slow: Home) -> None:
    demo = demo_slow
    used = demo.frost("tenant", "use", DATA_LAKE, env={"FROST_TENANT": STAGING})
    assert (used.code, "FROST_TENANT" in used.err) == (0, True)
    document = yaml.safe_load(demo.config.read_text())
    assert document["contexts"][document["current_context"]]["tenant"] == DATA_LAKE
    endpoint = f"unix:{demo.socket}"
    assert demo.frost("login", "--context", "second", "--endpoint", endpoint, "--as", BOREALIS_OWNER).code == 0
    assert demo.json("whoami")["email"] == BOREALIS_OWNER
    assert demo.json("tenant", "current")["id"] == NEWSROOM
    assert demo.frost("config", "use-context", "local").code == 0
    assert demo.json("tenant", "current")["id"] == DATA_LAKE
    provisioning = demo.frost("tenant", "use", SANDBOX)
    assert (provisioning.code, "provision" in provisioning.err) == (0, True)


def test_commands_that_name_their_tenant_refuse_another_one(shared: Home) -> None:
    for words in (("rename", WEB_SHOP, "--name", "x"), ("use", WEB_SHOP), ("create", "--name", "x")):
        for flagged in (("--tenant", DATA_LAKE, "tenant", *words), ("tenant", *words, "--tenant", DATA_LAKE)):
            refused = shared.frost(*flagged)
            assert (refused.code, refused.err.count("\n")) == (2, 1)
            assert f"frost tenant {words[0]} takes no --tenant" in refused.err
    assert {item["displayName"] for item in listed(shared, "--all")} >= {"Web Shop", "Data Lake"}
