"""The served description is true for every kind of caller: no 500, and no answer that it does not describe."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from service.catalogue.resource_types import kinds, quota_types
from tests.hostile.callers import PEOPLE, SCOPES
from tests.people import AURORA, BOREALIS, NEWSROOM, STAGING, UNKNOWN_ID, WEB_SHOP
from tests.service.access import IDENTITIES, KEYS, READ, STOREFRONT, Iam, allow, deny, document
from tests.service.account import Key
from tests.service.clusters import Cluster, Workload
from tests.service.running import Running, tcp_address

CALLERS = (*(name for name in PEOPLE if name != "owner of another"), "key", "workload", "anonymous")
# Some end the session of the run or do not end, the local issuer has tests of its own, and cli-config is 503 over TCP.
LEFT_OUT = ("deleteAccount", "revokeAllSessions", "endCurrentSession", "streamEvents", "getCliConfig")
OF_THE_MACHINE = r"^/issuer/|/platform/|^/metrics$"
CHECKS = ("not_a_server_error", "status_code_conformance", "content_type_conformance", "response_headers_conformance")
CHECKS += ("response_schema_conformance", "negative_data_rejection", "use_after_free", "unsupported_method")
CHECKS += ("allow_header_conformance",)


def headers(platform: Running, caller: str) -> list[str]:
    if caller in PEOPLE:
        return ["-H", f"Authorization:Bearer {platform.sign_in(PEOPLE[caller])}"]
    if caller == "key":
        return ["-H", "X-API-Key:" + Key(platform, *SCOPES, rateLimit=60_000).secret]
    if caller == "workload":
        Iam(platform).binding("described", SCOPES)
        cluster = Cluster(platform)
        assert cluster.register().status == 200
        return ["-H", "Authorization:Bearer " + Workload(cluster, "tests", "described").token]
    return []


def description_with_values(platform: Running) -> dict[str, Any]:
    """The served description with values of the demo data to choose from."""
    description: dict[str, Any] = platform.get("/api/openapi.json").json()
    iam = Iam(platform)
    # An earlier caller may have deleted all of them.
    policies = [*(one["id"] for one in iam.get("/iam/policies")["policies"]), UNKNOWN_ID]
    groups = [*(one["id"] for one in iam.get("/iam/groups")["groups"]), UNKNOWN_ID]
    instances = [*(one["id"] for one in iam.get("/resources/instance")["resources"]), UNKNOWN_ID][:4]
    documents = [
        document(allow(READ)),
        document(allow("*"), deny("iam:*")),
        document(allow("storage:*", ipInRange={"frn:sourceIp": ["10.0.0.0/8"]})),
    ]
    principals = [KEYS["tenant-reader"], KEYS["viewer-dashboard"], IDENTITIES["checkout"], groups[0]]
    values: dict[str, list[Any]] = {
        "tenant_id": [WEB_SHOP, STAGING, NEWSROOM, UNKNOWN_ID],
        "organization_id": [AURORA, BOREALIS],
        "kind": list(kinds()),
        "key_id": [KEYS["terraform"], KEYS["tenant-reader"], UNKNOWN_ID],
        "binding_id": [*IDENTITIES.values()],
        "version": ["1", "2", "x"],
        "memberType": ["api_key", "workload_identity"],
        "attacheeType": ["api_key", "workload_identity", "group"],
        "principalType": ["api_key", "workload_identity", "user", "group"],
        "document": documents,
        "documentText": [*(json.dumps(one) for one in documents), "{", ""],
        "operation": [
            "compute:instances:read",
            "compute:instances:delete",
            "storage:buckets:read",
            "compute:*",
            "x:y:z",
        ],
        "target": ["*", "frn:compute:*:*:instances/*", f"frn:compute:*:{WEB_SHOP}:instances/a", "frn:x"],
        "region": ["eu-fra-1", "eu-osl-1", "nowhere"],
        "resourceType": [*list(quota_types())[:5], "x"],
        "expiresAt": ["2027-06-01T00:00:00Z", "2027-06-01"],
        "namespace": ["tests", "Tests"],
        "serviceAccount": ["a", "b-c", "-"],
    }
    for names, some in (
        (("memberId", "attacheeId", "principalId"), principals),
        (("cluster_id", "clusterId"), [STOREFRONT, UNKNOWN_ID]),
        (("group_id", "groupId"), groups),
        (("policy_id", "policyId"), policies),
        (("resource_id", "resourceId"), instances),
    ):
        values |= dict.fromkeys(names, some)
    for path in description["paths"].values():
        for operation in path.values():
            for parameter in operation.get("parameters", ()):
                if parameter["name"] in values:
                    parameter["schema"] = {"type": "string", "enum": values[parameter["name"]]}
            for content in operation.get("requestBody", {}).get("content", {}).values():
                schema = content["schema"]
                name = schema.get("$ref", "").rpartition("/")[2]
                _choose(description["components"]["schemas"][name] if name else schema, values)
    return description


def _choose(schema: dict[str, Any], values: dict[str, list[Any]]) -> None:
    for name, member in schema.get("properties", {}).items():
        if name in values and name != "version":
            schema["properties"][name] = _or_null({"type": member.get("type", "string"), "enum": values[name]}, member)
        elif name == "targets":
            member["items"] = {"type": "string", "enum": values["target"]}
        elif name == "scopes":
            some = {"type": "array", "items": {"type": "string", "enum": [*SCOPES[:6], "x:y"]}}
            schema["properties"][name] = _or_null(some, member)


def _or_null(chosen: dict[str, Any], member: dict[str, Any]) -> dict[str, Any]:
    nullable = {"type": "null"} in member.get("anyOf", ())
    return {"anyOf": [chosen, {"type": "null"}]} if nullable else chosen


def driven(platform: Running, folder: Path, caller: str, phases: str, examples: int) -> str:
    """The failures that a run of schemathesis reports; empty without any."""
    described, config = folder / "description.json", folder / "schemathesis.toml"
    described.write_text(json.dumps(description_with_values(platform)))
    # Made-up credentials beside the caller's own would soon be refused as guesses.
    config.write_text("[generation]\nwith-security-parameters = false\n")
    host, port = tcp_address(platform)
    words = ["--config-file", str(config), "run", str(described), "--url", f"http://{host}:{port}"]
    words += ["--phases", phases, "--max-examples", str(examples), "--seed", "6", "--checks", ",".join(CHECKS)]
    words += ["--continue-on-failure", "--suppress-health-check", "all", "--warnings", "off", "--request-timeout", "30"]
    words += ["--exclude-path-regex", OF_THE_MACHINE, *headers(platform, caller)]
    for name in LEFT_OUT:
        words += ["--exclude-operation-id", name]
    run = subprocess.run(
        [sys.executable, "-m", "schemathesis.cli", *words], capture_output=True, text=True, cwd=folder, check=False
    )
    assert run.returncode in (0, 1), run.stdout + run.stderr
    assert "Tested:" in run.stdout, run.stdout
    return "" if run.returncode == 0 else run.stdout


pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def platform(network: Running) -> Running:
    """A platform on TCP that the runs may change as they like."""
    return network


def statuses(platform: Running) -> Counter[int]:
    lines = [json.loads(line) for line in platform.log.splitlines() if line.startswith("{")]
    return Counter(line["status"] for line in lines if "status" in line)


@pytest.mark.parametrize("caller", CALLERS)
def test_answers_match_the_description(platform: Running, tmp_path: Path, caller: str) -> None:
    before = statuses(platform)
    phases = "coverage,fuzzing,stateful" if caller == "owner" else "fuzzing,stateful"
    failures = driven(platform, tmp_path, caller, phases, 4)
    assert not failures, failures
    counts = statuses(platform) - before
    # Requests beyond the limit of a network without a credential are not in the log.
    assert counts.total() > (200 if caller == "anonymous" else 300)
    assert caller != "owner" or counts[200] > 20
    assert not any(status >= 500 for status in counts)
