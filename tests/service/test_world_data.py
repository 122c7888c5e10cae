"""The seed data is complete and consistent."""

import json
import re
import unicodedata
from collections.abc import Iterable
from datetime import timedelta
from hashlib import sha256
from typing import Any
from uuid import UUID

import pytest

from client.policy.coverage import Catalogue
from client.policy.document import parse_document
from service.catalogue.operations import Role, operations, roles, scope_of, scopes
from service.catalogue.resource_types import default_limits, kinds, quota_types
from service.default_tags.tag_rules import read_set
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


def allowed_operations(role: Role) -> set[str]:
    """Return the operations that a role's rules allow, without their constraints. Each pattern must match some."""
    catalogue = Catalogue(operation.name for operation in operations())
    masks = {"allow": 0, "deny": 0}
    for rule in parse_document(json.dumps(role.document), catalogue).document.rules:
        masks["deny" if rule.denies else "allow"] |= catalogue.masks.for_rule(rule)
    return set(catalogue.masks.names(masks["allow"] & ~masks["deny"]))


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
    assert allowed_operations(roles()["owner"]) == everything
    assert everything - allowed_operations(roles()["admin"]) == {
        "organizations:organizations:delete",
        "organizations:tenants:close",
        "billing:accounts:update",
    }
    member = allowed_operations(roles()["member"])
    assert {"compute:instances:create", "sessions:shells:open", "iam:policies:create"} <= member
    assert {"organizations:tenants:read", "quotas:limits:list-organization"} <= member
    managing = {"organizations:tenants:create", "organizations:tenants:update", "organizations:default-tags:apply"}
    assert not member & (managing | {"quotas:requests:create"})
    covered = {o.name for o in operations() if scope_of(o.name, o.access_level) == "compute:read"}
    assert allowed_operations(roles()["viewer"]) == covered
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


def test_keys_and_default_tags_of_the_demo_are_legal(demo: dict[str, Any]) -> None:
    legal = {scope.scope for scope in scopes()} - {"*"} | {operation.name for operation in operations()}
    for name, key in demo["keys"].items():
        assert key["scopes"], name
        assert set(key["scopes"]) <= legal, name
        assert demo["tenants"][key["tenant"]]["organization"] in demo["people"][key["by"]]["memberships"], name
    for tenant in demo["tenants"].values():
        read_set(tenant.get("default_tags", {}))
        assert set(tenant.get("quotas", {})) <= set(quota_types())
