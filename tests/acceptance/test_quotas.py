"""What is in use of what may be, from the rows to the table."""

import pytest

from tests.acceptance.people import AURORA, BOREALIS, DATA_LAKE, MEMBER, OUTSIDER, OWNER, SANDBOX, STAGING, WEB_SHOP
from tests.acceptance.tagging import Tags
from tests.homes import Home


def quotas(tags: Tags, *words: str) -> dict[str, dict[str, object]]:
    return {one["resourceType"]: one for one in tags.done("quota", *words)["items"]}


def test_use_is_what_the_rows_say_with_what_is_being_created(shared: Home) -> None:
    shared.sign_in(OWNER)
    tags = Tags(shared)
    found = quotas(tags)
    instances = tags.resources("instance")
    assert found["instance"]["used"] == len(instances)
    assert found["instance"]["creating"] == sum(one["state"] == "building" for one in instances.values())
    assert {one["unit"] for one in found.values()} == {"count", "gb", "mb"}
    table = tags.run("quota").out
    assert [line.split()[:3] for line in table.splitlines() if line.startswith("instance ")] == [
        ["instance", str(found["instance"]["used"]), str(found["instance"]["limit"])]
    ]


def test_unknown_units_no_allowance_and_images(shared: Home) -> None:
    shared.sign_in(OWNER)
    found = quotas(Tags(shared))
    assert found["registry_storage"]["used"] is None  # its listing fails in this world
    lines = {line.split()[0]: line.split()[1:] for line in Tags(shared).run("quota").out.splitlines()[1:]}
    assert lines["registry_storage"][:3] == ["—", "200", "GB"]
    assert lines["gpu"] == ["0", "0", "no", "allowance"]
    assert lines["ram"][1] == "GB"
    assert {"image", "image_storage"} <= set(lines)
    newest = Tags(shared, STAGING)
    assert {"image", "image_storage"} <= set(quotas(newest))
    assert "image" not in newest.run("quota").out
    assert "image_storage" in newest.run("quota", "-o", "wide").out


def test_the_organization_counts_every_tenant(shared: Home) -> None:
    shared.sign_in(OWNER)
    tags = Tags(shared)
    organization = quotas(tags, "--org")
    assert "ALLOCATED" in tags.run("quota", "--org").out
    each = [quotas(Tags(shared, tenant)) for tenant in (WEB_SHOP, DATA_LAKE, STAGING, SANDBOX)]
    for name, one in organization.items():
        assert one["allocated"] == sum(int(str(tenant[name]["limit"])) for tenant in each), name
        used = [tenant[name]["used"] for tenant in each]
        assert one["used"] == (None if None in used else sum(int(str(number)) for number in used)), name
    assert organization["registry_storage"]["used"] is None
    assert quotas(tags, "--org", "--organization", AURORA) == organization
    shared.sign_in(MEMBER)  # who may not enter Data Lake
    assert {name: one["allocated"] for name, one in quotas(tags, "--org").items()} == {
        name: one["allocated"] for name, one in organization.items()
    }
    shared.sign_in(OUTSIDER)
    assert tags.run("quota", "--org", "--organization", AURORA).code != 0
    shared.sign_in(OWNER)
    assert tags.run("quota", "--organization", BOREALIS).code == 5


def test_a_key_sees_its_own_tenant_and_not_the_organization(shared: Home) -> None:
    shared.sign_in(OWNER)
    key = Tags(shared).key_file("backup-runner")
    assert shared.frost("tenant", "quota", "--config", key).code == 0
    refused = shared.frost("tenant", "quota", "--org", "--organization", AURORA, "--config", key)
    assert (refused.code, refused.out) == (4, "")
    assert shared.frost("tenant", "quota", "--tenant", STAGING, "--config", key).code == 4
    asked = shared.frost(
        "tenant", "quota", "request", "vcpu", "900", "--reason", "x", "--org", "--organization", AURORA, "--config", key
    )
    assert (asked.code, asked.out) == (4, "")
    # No scope would help, so none is asked for.
    for words in (["quota", "--org"], ["quota", "request", "vcpu", "900", "--reason", "x", "--org"]):
        unnamed = shared.frost("tenant", *words, "--config", key)
        assert (unnamed.code, unnamed.out) == (4, "")
        assert "use an interactive login" in unnamed.err
        assert "scope" not in unnamed.err


@pytest.mark.parametrize("words", [["quota"], ["quota", "--org"], ["quota", "requests"], ["default-tags", "get"]])
def test_aliases_give_the_same_bytes(shared: Home, words: list[str]) -> None:
    shared.sign_in(OWNER)
    others = {"quota": "quotas", "default-tags": "default-tag"}
    main, alias = shared.frost("tenant", *words), shared.frost("tenants", others[words[0]], *words[1:])
    assert (main.code, main.out, main.err) == (alias.code, alias.out, alias.err)
    assert main.code == 0


def test_the_types_and_keys_there_are_are_offered_to_a_shell(shared: Home) -> None:
    shared.sign_in(OWNER)

    def offered(*words: str) -> list[str]:
        *before, last = words
        result = shared.frost("__complete", "zsh", *before, last)
        return [line.partition("\t")[0] for line in result.out.splitlines()]

    assert offered("tenant", "quota", "request", "vol") == ["volume", "volume_storage"]
    assert offered("tenant", "quotas", "what-if", "vcpu=1", "ra") == ["ram="]
    assert offered("tenant", "default-tags", "set", "--tag", "te") == ["team=storefront"]
    assert offered("tenant", "default-tags", "set", "--tag", "a=1,env") == ["a=1,env=prod"]
    assert offered("tenant", "default-tags", "undo", "") == []
    assert offered("platform", "review", "") == ["list", "approve", "reject"]


def test_a_plan_says_what_breaks_first(shared: Home) -> None:
    shared.sign_in(OWNER)
    found = quotas(Tags(shared))
    room = int(str(found["instance"]["limit"])) - int(str(found["instance"]["used"]))
    plan = Tags(shared).done("quota", "what-if", f"instance={room}", "vcpu=0")
    assert (plan["fits"], plan["times"], plan["first"]) == (True, 1, "instance")
    plan = Tags(shared).done("quota", "what-if", f"instance={room + 1}")
    assert (plan["fits"], plan["quotas"][0]["answer"], plan["quotas"][0]["short"]) == (False, "at_once", 1)
