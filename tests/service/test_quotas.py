"""Limits and use of tenants and organizations."""

from sqlalchemy import select

from service.catalogue.resource_types import default_limits, quota_types
from service.db.engine import Database
from service.db.tables import resources
from tests.people import (
    BOREALIS,
    BOREALIS_OWNER,
    DATA_LAKE,
    MEMBER,
    NEWSROOM,
    OWNER,
    SANDBOX,
    STAGING,
    VIEWER,
    WEB_SHOP,
)
from tests.service.access import code, details
from tests.service.account import Key
from tests.service.queries import fetch_scalars
from tests.service.quotas import Quotas
from tests.service.running import Running


def test_a_report_has_limit_use_and_requestable_limit_of_each_type(demo: Running, demo_database: Database) -> None:
    report = Quotas(demo).report()
    assert list(report) == [name for name in quota_types() if name not in ("image", "image_storage")]
    here = (resources.c.tenant_id == WEB_SHOP, resources.c.kind == "instance")
    states = fetch_scalars(demo_database, select(resources.c.state).where(*here))
    assert report["instance"] == {
        "resourceType": "instance",
        "title": "Instances",
        "used": len(states),
        "creating": states.count("building"),
        "limit": 60,
        "unit": "count",
        "requestable": 110,
    }
    in_gb = dict.fromkeys(("volume_storage", "bucket_storage", "database_storage", "registry_storage"), "gb")
    units = {name: entry["unit"] for name, entry in report.items() if entry["unit"] != "count"}
    assert units == {"ram": "mb"} | in_gb


def test_unknown_excessive_and_forbidden_uses_in_a_report(demo: Running) -> None:
    entry = Quotas(demo).report()["registry_storage"]
    assert (entry["used"], entry["creating"], entry["limit"]) == (None, None, 200)
    assert Quotas(demo, tenant=STAGING).report()["registry_storage"]["used"] is not None
    entry = Quotas(demo, tenant=DATA_LAKE).report()["bucket_storage"]
    assert entry["used"] > entry["limit"] == 25_000
    report = Quotas(demo, BOREALIS_OWNER, NEWSROOM, BOREALIS).report()
    assert (report["kubernetes_cluster"]["limit"], report["gpu"]["limit"]) == (0, 0)
    # A tenant that is still being set up has the defaults that it is about to get.
    report = Quotas(demo, tenant=SANDBOX).report()
    assert all((entry["limit"], entry["used"]) == (default_limits()[name], 0) for name, entry in report.items())
    # The compute quotas include images.
    quotas = Quotas(demo)
    limits, usage = (quotas.get(f"/api/v1/tenants/{WEB_SHOP}/quotas{end}") for end in ("", "/usage"))
    report = quotas.report()
    assert set(limits) == set(usage)
    assert (limits["images"], limits["imageStorageGb"]) == (10, 200)
    assert (usage["images"], usage["imageStorageGb"]) == (3, 20)
    for name, resource_type in (("instances", "instance"), ("vcpus", "vcpu"), ("ramMb", "ram"), ("volumes", "volume")):
        assert (limits[name], usage[name]) == (report[resource_type]["limit"], report[resource_type]["used"])


def test_an_organization_has_allocated_the_limits_of_its_tenants(demo: Running) -> None:
    report = Quotas(demo).organization_report()
    assert list(report) == list(quota_types())
    by_tenant = {tenant: Quotas(demo, tenant=tenant).report() for tenant in (WEB_SHOP, DATA_LAKE, STAGING, SANDBOX)}
    for name, entry in report.items():
        assert entry["allocated"] == sum(share["limit"] for share in entry["tenants"])
        if name in ("image", "image_storage"):
            # These cannot be requested: the organization has the limits of its tenants.
            assert entry["limit"] == entry["allocated"]
            continue
        for share in entry["tenants"]:
            assert share["limit"] == by_tenant[share["tenantId"]][name]["limit"]
            assert share["used"] == by_tenant[share["tenantId"]][name]["used"]
        left = max(0, entry["limit"] - entry["allocated"])
        for tenant in by_tenant.values():
            assert tenant[name]["requestable"] == tenant[name]["limit"] + left
    assert {share["tenantId"] for share in report["vcpu"]["tenants"]} == set(by_tenant)
    # An unknown use of a tenant makes the sum unknown.
    assert {name for name, entry in report.items() if entry["used"] is None} == {"registry_storage"}
    assert report["instance"]["used"] == sum(share["used"] for share in report["instance"]["tenants"])


def test_a_hidden_tenant_counts_without_name_and_use(demo: Running) -> None:
    owners, members = Quotas(demo).organization_report(), Quotas(demo, MEMBER).organization_report()
    for name, entry in members.items():
        assert (entry["allocated"], entry["used"]) == (owners[name]["allocated"], owners[name]["used"])
        shares = {share["tenantId"]: share for share in entry["tenants"]}
        hidden = shares.pop(DATA_LAKE)
        assert (hidden["displayName"], hidden["used"]) == (None, None)
        assert all(share["displayName"] for share in shares.values())
        assert "Data Lake" not in str(entry)


def test_the_tenant_list_and_the_report_count_alike(demo: Running) -> None:
    listed = demo.get("/api/v1/tenants?include=usage", as_=OWNER).json()["tenants"]
    for tenant in listed:
        tightest = tenant["tightestQuota"]
        if tightest is not None and tightest["resourceType"] not in ("image", "image_storage"):
            report = Quotas(demo, tenant=tenant["id"], organization=tenant["organizationId"]).report()
            entry = report[tightest["resourceType"]]
            assert tightest == {name: entry[name] for name in ("resourceType", "title", "used", "limit", "unit")}


def test_resources_being_created_are_in_use(sandbox: Quotas) -> None:
    sandbox.put("instance", "running", "running", "building", vcpu=3, ram=2048)
    sandbox.put("public_ip", "allocating", "available")
    sandbox.put("bucket", "active", sizeGb=7)
    uses = {"instance": (3, 1), "vcpu": (9, 3), "ram": (6144, 2048), "public_ip": (2, 1), "bucket_storage": (7, 0)}
    report = sandbox.report()
    assert {name: (report[name]["used"], report[name]["creating"]) for name in uses} == uses


def test_a_resource_has_the_given_or_the_default_size(sandbox: Quotas) -> None:
    assert sandbox.create("instance", vcpu=2, ram=4096).json()["attributes"] == {"vcpu": 2, "ram": 4096, "gpu": 0}
    assert sandbox.create("instance").json()["attributes"] == {"vcpu": 1, "ram": 1024, "gpu": 0}
    assert sandbox.create("volume", sizeGb=50).json()["attributes"] == {"sizeGb": 50}
    assert sandbox.create("security_group").json()["attributes"] == {}
    report = sandbox.report()
    used = {name: report[name]["used"] for name in ("instance", "vcpu", "ram", "volume", "volume_storage", "gpu")}
    assert used == {"instance": 2, "vcpu": 3, "ram": 5120, "volume": 1, "volume_storage": 50, "gpu": 0}


def test_an_attribute_is_a_counted_whole_number(sandbox: Quotas) -> None:
    sizes = (-1, 2**53 + 1, True, 1.0, "10", None)
    rows: list[tuple[str, dict[str, object], str]] = [("volume", {"sizeGb": one}, "attributes.sizeGb") for one in sizes]
    for kind, attributes, member in (
        *rows,
        ("volume", {"vcpu": 1}, "attributes"),
        ("vpc", {"sizeGb": 1}, "attributes"),
    ):
        refused = sandbox.create(kind, **attributes)
        assert code(refused) == (400, "INVALID_INPUT")
        assert details(refused)["member"] == member


def test_a_limit_holds_and_the_refusal_has_the_figures(sandbox: Quotas) -> None:
    sandbox.give("volume_storage", 100)
    assert sandbox.create("volume", sizeGb=60).status == 201
    refused = sandbox.create("volume", sizeGb=41)
    assert code(refused) == (403, "QUOTA_EXCEEDED")
    assert details(refused) == {"resourceType": "volume_storage", "limit": 100, "used": 60, "wanted": 41}
    assert sandbox.create("volume", sizeGb=40).status == 201
    assert code(sandbox.create("volume", sizeGb=2**53)) == (403, "QUOTA_EXCEEDED")
    assert sandbox.create("volume", sizeGb=0).status == 201
    assert sandbox.report()["volume_storage"]["used"] == 100
    # Of a type without an allowance nothing is created.
    refused = sandbox.create("image")
    assert code(refused) == (403, "QUOTA_EXCEEDED")
    assert refused.json()["error"]["message"] == "this tenant has no allowance for Custom images"
    assert code(sandbox.create("instance", gpu=1)) == (403, "QUOTA_EXCEEDED")
    assert sandbox.report()["instance"]["used"] == 0


def test_the_limit_holds_with_an_unknown_use(platform: Running) -> None:
    web_shop = Quotas(platform)
    web_shop.give("registry_storage", 1_000)
    assert web_shop.create("container_registry", sizeGb=100).status == 201
    web_shop.give("registry_storage", 100)
    refused = web_shop.create("container_registry", sizeGb=1)
    assert code(refused) == (403, "QUOTA_EXCEEDED")
    assert details(refused) == {"resourceType": "registry_storage", "limit": 100, "used": None, "wanted": 1}
    assert refused.json()["error"]["message"].endswith("the limit is 100, 1 wanted"), "without the use"
    assert web_shop.create("container_registry").status == 201
    assert web_shop.report()["registry_storage"]["used"] is None


def test_over_a_limit_resources_can_only_be_removed(sandbox: Quotas) -> None:
    secrets = [sandbox.create("secret").json()["id"] for _ in range(3)]
    sandbox.give("secret", 1)
    assert (sandbox.report()["secret"]["used"], sandbox.report()["secret"]["limit"]) == (3, 1)
    assert code(sandbox.create("secret")) == (403, "QUOTA_EXCEEDED")
    path = f"/api/v1/tenants/{SANDBOX}/resources/secret"
    for identifier in secrets:
        assert sandbox.platform.ask("DELETE", f"{path}/{identifier}", as_=OWNER).status == 204
    assert sandbox.create("secret").status == 201


def test_a_refused_creation_hides_the_quota(sandbox: Quotas) -> None:
    sandbox.give("instance", 0)
    key = Key(sandbox.platform, "compute:read", tenant=SANDBOX)
    body = {"name": "made-here", "region": "se-sto-1"}
    path = f"/api/v1/tenants/{SANDBOX}/resources/instance"
    assert code(key.use("POST", path, body)) == (403, "INSUFFICIENT_SCOPE")
    refused = sandbox.platform.ask("POST", path, as_=VIEWER, body=body)
    assert code(refused) == (403, "INSUFFICIENT_PERMISSIONS")
