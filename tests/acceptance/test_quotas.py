"""Quotas and their use."""

from tests.acceptance.people import AURORA, OWNER, STAGING
from tests.acceptance.tagging import Tags
from tests.homes import Home


def quotas(tags: Tags, *words: str) -> dict[str, dict[str, object]]:
    return {one["resourceType"]: one for one in tags.done("quota", *words)["items"]}


def test_use_counts_existing_and_building_resources(shared: Home) -> None:
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
