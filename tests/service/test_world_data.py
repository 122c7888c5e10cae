"""The seed data is complete and consistent."""

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from datetime import timedelta
from hashlib import sha256
from typing import Any
from uuid import UUID

import pytest

from service.catalogue.operations import Role, operations, roles, scope_of, scopes
from service.catalogue.resource_types import default_limits, kinds, quota_types
from service.files import load_yaml, read_table
from service.seed.insert import SEEDS_DIR, parse_offset

ENTRY = re.compile(r"[a-z][a-z0-9-]{0,31}(:[a-z][a-z0-9-]{0,31}){2}")
TIMES = {"created", "updated", "expires", "revoked", "used", "started", "seen", "ended", "since"}


@pytest.fixture(scope="module")
def demo() -> dict[str, Any]:
    return dict(load_yaml(SEEDS_DIR / "demo.yaml"))


@pytest.fixture(scope="module")
def inventory(demo: dict[str, Any]) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = [dict(line) for line in read_table(SEEDS_DIR / demo["resources"])]
    for line in lines:
        for column in ("tags", "relations", "attributes"):
            line[column] = json.loads(line[column])
    return lines


def matches(pattern: str, name: str) -> bool:
    """policy-engine 1: each part a literal or `*`; a shorter pattern ends in `*`."""
    parts = pattern.split(":")
    parts += [parts[-1]] * (3 - len(parts)) if parts[-1] == "*" else []
    return len(parts) == 3 and all(p in ("*", n) for p, n in zip(parts, name.split(":"), strict=True))


def allowed(role: Role) -> set[str]:
    """Return the operations that a role's rules allow, without their constraints."""
    granted: dict[str, set[str]] = {"allow": set(), "deny": set()}
    for rule in role.document["rules"]:
        granted[rule["access"]] |= {o.name for o in operations() if any(matches(p, o.name) for p in rule["operations"])}
    return granted["allow"] - granted["deny"]


def test_operations_are_named_service_resource_action_and_have_their_level() -> None:
    names = [operation.name for operation in operations()]
    assert [name for name in names if not ENTRY.fullmatch(name)] == []
    assert len(set(names)) == len(names)
    assert [operation.position for operation in operations()] == list(range(1, len(names) + 1))
    assert {operation.access_level for operation in operations()} == {"read", "write", "list", "permission"}
    for operation in operations():
        action, level = operation.name.split(":")[2], operation.access_level
        assert operation.description.strip()
        assert (action == "list") == (level == "list") or action.startswith("list-"), operation
        assert action != "read" or level == "read", operation


def test_the_first_catalogue_never_changes() -> None:
    """Later versions append. A new digest here breaks stored policies."""
    lines = [f"{o.position} {o.name} {o.access_level}" for o in operations()[:528]]
    digest = "a59b1a456bfdea40e4452b7465262c84aadb7c52b549ca571ff34c108934af31"
    assert sha256("\n".join(lines).encode()).hexdigest() == digest


def test_scopes_are_service_and_action_and_the_wildcard_is_not_enforced() -> None:
    wildcard, *others = scopes()
    assert (wildcard.scope, wildcard.description, wildcard.enforced) == ("*", "Full access to all resources", False)
    names = {scope.scope for scope in others}
    assert [name for name in names if not re.fullmatch(r"[a-z]+:(\*|[a-z]+)", name)] == []
    assert len(names) == len(others)
    assert "quotas:read" not in names, "reading quotas needs no scope"
    enforced = {scope.scope for scope in others if scope.enforced}
    assert {"sessions:forward", "sessions:pty", "sessions:write", "sessions:*"} <= enforced
    assert {"decisions:evaluate", "decisions:*"} <= enforced
    assert {"compute:read", "compute:write", "compute:*", "quotas:write", "organizations:read"} <= enforced
    plain = {name for name in enforced if not name.startswith(("sessions:", "decisions:"))}
    assert {name.split(":")[1] for name in plain} == {"read", "write", "*"}
    without = {o.name for o in operations() if scope_of(o.name, o.access_level) not in enforced}
    # Managing access needs a person; the catalogue and the quotas are read with any key.
    assert {name.split(":")[0] for name in without} == {"iam", "quotas"}
    assert all(name.startswith(("iam:", "quotas:limits:", "quotas:requests:")) for name in without)
    assert "quotas:requests:create" not in without


def test_the_scope_of_an_operation() -> None:
    levels = {operation.name: operation.access_level for operation in operations()}
    for name, level, scope in (
        ("compute:instances:list", "list", "compute:read"),
        ("compute:instances:stop", "write", "compute:write"),
        ("network:security-groups:add-rule", "permission", "network:write"),
        ("sessions:port-forwards:open", "write", "sessions:forward"),
        ("sessions:database-consoles:open", "write", "sessions:forward"),
        ("sessions:shells:open", "write", "sessions:pty"),
        ("sessions:cluster-proxies:open", "write", "sessions:write"),
        ("iam:policies:simulate", "read", "decisions:evaluate"),
    ):
        assert (levels[name], scope_of(name, level)) == (level, scope)


def test_roles_allow_what_their_names_promise(demo: dict[str, Any]) -> None:
    assert list(roles()) == ["owner", "admin", "member", "viewer", "regional"]
    assert all(role.authors_policies for role in roles().values())
    limitable = {role.name for role in roles().values() if role.limitable}
    assert limitable == {"member", "viewer", "regional"}
    for person in demo["people"].values():
        assert all(seat["role"] in limitable for seat in person["memberships"].values() if "tenants" in seat)
    everything = {operation.name for operation in operations()}
    for role in roles().values():
        assert role.document["schemaVersion"] == "1"
        for pattern in (pattern for rule in role.document["rules"] for pattern in rule["operations"]):
            assert any(matches(pattern, name) for name in everything), (role.name, pattern)
    assert allowed(roles()["owner"]) == everything
    assert everything - allowed(roles()["admin"]) == {
        "organizations:organizations:delete",
        "organizations:tenants:close",
        "billing:accounts:update",
    }
    member = allowed(roles()["member"])
    assert {"compute:instances:create", "sessions:shells:open", "iam:policies:create"} <= member
    assert {"organizations:tenants:read", "quotas:limits:list-organization"} <= member
    managing = {"organizations:tenants:create", "organizations:tenants:update", "organizations:default-tags:apply"}
    assert not member & (managing | {"quotas:requests:create"})
    covered = {o.name for o in operations() if scope_of(o.name, o.access_level) == "compute:read"}
    assert allowed(roles()["viewer"]) == covered
    for rule in roles()["regional"].document["rules"]:
        equals = rule["constraints"]["equals"]
        only_lists = all(pattern.endswith(":list") for pattern in rule["operations"])
        assert equals["frn:region"] == "fi-hel-1"
        assert [value for key, value in equals.items() if "Tag/" in key] == ([] if only_lists else ["dev"])


def test_every_kind_has_its_operations_and_its_apply_rule() -> None:
    names = {operation.name for operation in operations()}
    managed = {name: kind.apply for name, kind in kinds().items() if kind.managed_service}
    assert set(managed.values()) == {"covered", "not_enabled"}
    assert 60 <= len(kinds()) <= 80
    for kind in kinds().values():
        assert {kind.operation(action) for action in ("create", "read", "list", "delete")} <= names, kind.name
        assert (kind.apply == "no_tags") == (kind.tag_limit == 0), kind.name
        assert (kind.apply == "skipped") == (kind.skip_reason is not None), kind.name
        assert kind.parent is None or kind.parent in kinds(), kind.name
        assert kind.parent not in managed or kind.apply == managed[kind.parent], kind.name
        assert kind.creating is None or kind.creating == kind.states[0], kind.name
        assert kind.refuses_tags <= set(kind.states), kind.name
    skipped = {name for name, kind in kinds().items() if kind.apply == "skipped"}
    assert skipped == {"image", "instance_snapshot", "lb_listener", "lb_pool", "lb_health_monitor"}
    assert {"kubernetes_cluster", "node_pool"} <= {n for n, k in kinds().items() if k.apply == "covered"}
    assert min((kind.tag_limit, name) for name, kind in kinds().items() if kind.tag_limit) == (32, "dns_zone")


def test_quotas_count_kinds_in_known_units() -> None:
    for name, quota in quota_types().items():
        assert quota.kind in kinds(), name
        assert quota.unit in {"count", "gb", "mb"}, name
        assert (quota.unit == "mb") == (name == "ram"), name
        assert (quota.unit == "gb") == (quota.attribute == "sizeGb"), name
        assert quota.limit >= 0, name
        assert quota.organization is None or quota.organization > quota.limit, name
        assert quota.unless_said == 0 or (quota.attribute is not None and quota.unless_said > 0), name
    named = {"instance", "vcpu", "ram", "volume", "image", "image_storage", "registry_storage"}
    assert named <= set(quota_types())
    assert {name for name, quota in quota_types().items() if quota.organization is None} == {"image", "image_storage"}
    assert default_limits() == {name: quota.limit for name, quota in quota_types().items()}


def test_offsets_are_parsed_strictly() -> None:
    offsets = {
        "-40d": timedelta(days=-40),
        "+630d": timedelta(days=630),
        "-2h30m": -timedelta(hours=2, minutes=30),
        "-6d3h": -timedelta(days=6, hours=3),
        "-10s": timedelta(seconds=-10),
        "now": timedelta(),
    }
    assert {text: parse_offset(text) for text in offsets} == offsets
    for text in ("", "-", "+", "40d", "-40", "-3h2d", "-1.5d", "- 1d", "-1d ", "-٤d", "-9999999999d"):
        with pytest.raises(ValueError, match="offset"):
            parse_offset(text)


def texts(value: Any, key: str = "") -> Iterable[tuple[str, Any]]:
    """Yield every scalar of a document with its member's name."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from texts(inner, str(name))
    elif isinstance(value, list):
        for inner in value:
            yield from texts(inner, key)
    else:
        yield key, value


@pytest.mark.parametrize("name", ["demo.yaml", "empty.yaml"])
def test_ids_are_unique_random_uuids_and_times_are_offsets(name: str) -> None:
    scalars = list(texts(load_yaml(SEEDS_DIR / name)))
    ids = [value for key, value in scalars if key in {"id", "run"}]
    assert len(set(ids)) == len(ids)
    for value in ids:
        assert str(UUID(value)) == value
        assert UUID(value).version == 4
        assert len(set(value)) > 8, "not random"
    for key, value in scalars:
        if key in TIMES:
            parse_offset(value)


def test_default_tags_and_limits_of_the_demo_are_legal(demo: dict[str, Any]) -> None:
    for tenant in demo["tenants"].values():
        tags = tenant.get("default_tags", {})
        assert len(tags) <= 10
        for key, value in tags.items():
            assert re.fullmatch(r"[a-zA-Z0-9]([a-zA-Z0-9._:-]{0,62}[a-zA-Z0-9])?", key), key
            assert re.fullmatch(r"[a-zA-Z0-9+\-._:/@ =]{0,255}", value), value
        assert set(tenant.get("quotas", {})) <= set(quota_types())


def test_every_resource_is_legal_for_its_kind_and_its_references_resolve(inventory: list[dict[str, Any]]) -> None:
    by_id = {line["id"]: line for line in inventory}
    assert len(by_id) == len(inventory)
    counted = {(q.kind, q.attribute) for name, q in quota_types().items() if q.attribute and name != "gpu"}
    for line in inventory:
        kind, relations = kinds()[line["kind"]], line["relations"]
        assert UUID(line["id"]).version == 4
        assert line["state"] in kind.states, line
        assert len(line["tags"]) <= kind.tag_limit, line
        assert all(isinstance(value, str) and len(value) <= 255 for value in line["tags"].values()), line
        assert 1 <= len(line["name"]) <= 128, line
        assert unicodedata.is_normalized("NFC", line["name"]), line
        assert not any(unicodedata.category(letter) in {"Cc", "Cf", "Zl", "Zp"} for letter in line["name"]), line
        assert parse_offset(line["created"]) <= parse_offset(line["updated"]) < timedelta(), line
        assert all(type(line["attributes"][name]) is int for of, name in counted if of == line["kind"]), line
        assert set(relations) <= {"managed", "owner", "parent", "attachedTo", "bootVolume"}, line
        for name in {"owner", "parent", "attachedTo"} & relations.keys():
            other = by_id[relations[name]["id"]]
            assert (other["kind"], other["tenant"]) == (relations[name]["kind"], line["tenant"]), line
            assert parse_offset(other["created"]) <= parse_offset(line["created"]), line
        if relations.get("bootVolume"):
            assert (line["kind"], relations["attachedTo"]["kind"]) == ("volume", "instance")
        if "owner" in relations:
            owner = kinds()[relations["owner"]["kind"]]
            assert owner.managed_service or kinds()[owner.parent or ""].managed_service, line


def test_the_web_shop_has_every_case_of_an_apply(demo: dict[str, Any], inventory: list[dict[str, Any]]) -> None:
    tags = demo["tenants"]["web-shop"]["default_tags"]
    here = [line for line in inventory if line["tenant"] == "web-shop"]
    owned = Counter((line["kind"], "owner" in line["relations"]) for line in here)
    count = Counter(line["kind"] for line in here)
    assert any(line["kind"] == "security_group" and line["relations"].get("managed") for line in here)
    for kind in ("load_balancer", "public_ip", "instance", "volume"):
        assert (owned[kind, True] > 0, owned[kind, False] > 0) == (True, True), kind
    assert sum(bool(line["relations"].get("bootVolume")) for line in here) >= 20
    for kind in ("lb_listener", "lb_pool", "lb_health_monitor", "image", "instance_snapshot"):
        assert count[kind] >= 2, kind
    assert {"kubernetes_cluster", "node_pool", "database", "cache", "message_broker", "webserver"} <= count.keys()
    taggable = [line for line in here if kinds()[line["kind"]].apply == "covered"]
    assert any(line["state"] in kinds()[line["kind"]].refuses_tags for line in taggable)
    other_value = [x for x in taggable if any(x["tags"].get(k) not in (None, v) for k, v in tags.items())]
    complete = [x for x in taggable if tags.items() <= x["tags"].items()]
    assert len(other_value) >= 30
    assert len(complete) >= 100
    room = Counter(
        kinds()[x["kind"]].tag_limit - len(x["tags"].keys() | tags.keys())
        for x in taggable
        if not tags.keys() <= x["tags"].keys() and len(x["tags"]) > 25
    )
    assert room[0] >= 4, "exactly reaching the limit"
    assert room[-1] >= 4, "one over it"
    assert any(len(x["tags"]) == kinds()[x["kind"]].tag_limit - 1 for x in taggable)
    assert any(len(x["tags"]) == kinds()[x["kind"]].tag_limit for x in complete)


def test_the_inventory_has_resources_outside_the_regional_role_and_hostile_names(
    inventory: list[dict[str, Any]],
) -> None:
    staging = Counter(
        (x["region"] == "fi-hel-1", x["tags"].get("env") == "dev")
        for x in inventory
        if x["tenant"] == "staging" and kinds()[x["kind"]].service in ("compute", "storage")
    )
    assert staging[True, True] >= 30
    assert staging[True, False] >= 30
    assert staging[False, True] >= 3
    names = {line["name"] for line in inventory}
    letters = {letter for name in names for letter in name}
    assert 128 in {len(name) for name in names}
    assert any("[/x]" in name for name in names)
    assert {unicodedata.bidirectional(letter) for letter in letters} & {"R", "AL"}
    assert "So" in {unicodedata.category(letter) for letter in letters}
    assert "W" in {unicodedata.east_asian_width(letter) for letter in letters}


def use(inventory: list[dict[str, Any]], tenant: str) -> dict[str, int]:
    here = [line for line in inventory if line["tenant"] == tenant]
    return {
        name: sum(
            1 if quota.attribute is None else line["attributes"].get(quota.attribute, 0)
            for line in here
            if line["kind"] == quota.kind
        )
        for name, quota in quota_types().items()
    }


def test_the_demo_has_quotas_near_over_zero_and_unknown(demo: dict[str, Any], inventory: list[dict[str, Any]]) -> None:
    limits = {handle: default_limits() | tenant.get("quotas", {}) for handle, tenant in demo["tenants"].items()}
    used = {handle: use(inventory, handle) for handle in limits}
    over = {(handle, name) for handle in limits for name in used[handle] if used[handle][name] > limits[handle][name]}
    assert over == {("data-lake", "bucket_storage")}
    assert 0.9 < used["web-shop"]["volume_storage"] / limits["web-shop"]["volume_storage"] < 1
    assert limits["newsroom"]["kubernetes_cluster"] == 0
    assert demo["failing_listings"] == [{"kind": "container_registry", "tenant": "web-shop"}]
    assert used["web-shop"]["registry_storage"] > 0
    for organization in demo["organizations"]:
        tenants = [handle for handle, tenant in demo["tenants"].items() if tenant["organization"] == organization]
        left = {
            name: quota.organization - sum(limits[handle][name] for handle in tenants)
            for name, quota in quota_types().items()
            if quota.organization is not None
        }
        assert {name for name, room in left.items() if room < 0} == set()
        assert {name for name, room in left.items() if not room} == ({"message_broker"} if len(tenants) == 4 else set())


def test_keys_are_there_in_every_state_and_form(demo: dict[str, Any]) -> None:
    keys = demo["keys"]
    listed = {scope.scope for scope in scopes()}
    named = {operation.name for operation in operations()}
    revoked = {name for name, key in keys.items() if "revoked" in key}
    expired = {name for name, key in keys.items() if _expires(key) < timedelta() and "revoked" not in key}
    unused = {name for name, key in keys.items() if "used" not in key}
    assert min(len(revoked), len(expired), len(unused)) >= 2
    finer = {name for name, key in keys.items() if all(scope.count(":") == 2 for scope in key["scopes"])}
    assert finer == {"start-stop-only"}
    valid = {" ".join(key["scopes"]) for name, key in keys.items() if name not in revoked | expired}
    assert {"organizations:read", "organizations:write", "quotas:write", "compute:*", "compute:write"} <= valid
    assert {"sessions:forward", "sessions:pty", "sessions:write"} <= valid
    assert {"owner@aurora.example", "member@aurora.example"} <= {key["by"] for key in keys.values()}
    assert len({key["tenant"] for key in keys.values()}) == 5
    for name, key in keys.items():
        assert 2 <= len(name) <= 100
        assert key["scopes"], name
        assert set(key["scopes"]) <= listed | named, name
        assert "*" not in key["scopes"], name
        assert parse_offset(key["created"]) < timedelta(), name
        assert _expires(key) - parse_offset(key["created"]) <= timedelta(days=730), name
        assert demo["tenants"][key["tenant"]]["organization"] in demo["people"][key["by"]]["memberships"], name
        assert parse_offset(demo["people"][key["by"]]["created"]) <= parse_offset(key["created"]), name


def _expires(key: dict[str, Any]) -> timedelta:
    return parse_offset(key["expires"]) if "expires" in key else parse_offset(key["created"]) + timedelta(days=365)


def test_the_owner_has_sessions_on_other_devices_open_and_ended(demo: dict[str, Any]) -> None:
    mine = [session for session in demo["sessions"] if session["by"] == "owner@aurora.example"]
    assert len([session for session in mine if "ended" not in session]) == 3
    assert {session["reason"] for session in mine if "ended" in session} == {"revoked", "expired"}
    for session in demo["sessions"]:
        assert parse_offset(session["started"]) <= parse_offset(session["seen"]) < timedelta()
        if "ended" not in session:
            assert parse_offset(session["started"]) > timedelta(days=-30)
