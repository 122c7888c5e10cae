"""Health, readiness, status, the log and the description of the API with its published operation ids."""

import asyncio
import http.client
import json
import logging
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi.routing import APIRoute
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import text

from service import app as application
from service.api import openapi, response_schemas
from service.authn import secret_format
from service.catalogue.operations import operations as catalogue_operations
from service.catalogue.operations import scopes
from service.db import migrate
from service.db.engine import Database
from service.logs import JsonFormatter, RotatingStderrHandler
from tests.api import exchange
from tests.people import MEMBER, OWNER, WEB_SHOP
from tests.service.queries import execute
from tests.service.running import Running, tcp_address
from tests.waiting import until

CHECKS = ("database", "migrations", "operations", "audit", "disk", "clock", "triggers")


def test_health_readiness_and_status_need_no_credential(demo: Running) -> None:
    assert demo.get("/healthz").json() == {"status": "ok"}
    answer = demo.get("/readyz")
    assert (answer.status, answer.json()) == (200, {"status": "ok", "checks": dict.fromkeys(CHECKS, "ok")})
    status = demo.get("/api/v1/platform/status").json()
    assert (status["world"], status["tenants"], status["resources"]) == ("demo", 6, 3000)
    assert (status["openOperations"], status["schemaRevision"]) == (1, migrate.HEAD)
    assert demo.process is not None
    assert (status["socket"], status["pid"]) == (str(demo.socket), demo.process.pid)
    assert ":" not in status["database"].partition("//")[2].partition("@")[0] or "***" in status["database"]
    assert demo.get("/api/v1/platform/status", as_=MEMBER).status == 200


def test_a_database_of_another_schema_is_not_ready(own: Running, own_database: Database) -> None:
    execute(own_database, text("UPDATE alembic_version SET version_num = '0000'"))
    # An answer may be that of the check before.
    until(lambda: own.get("/readyz").json()["checks"].get("migrations") == "behind")
    answer = own.get("/readyz")
    assert (answer.status, answer.json()["status"]) == (503, "degraded")
    assert own.get("/healthz").status == 200


def test_the_catalogue_lists_every_scope_and_operation_in_order(demo: Running) -> None:
    listed = demo.get("/api/v1/scopes", key="viewer-dashboard").json()
    assert listed == {
        "scopes": [{"scope": s.scope, "description": s.description, "enforced": s.enforced} for s in scopes()],
        "operations": [
            {"name": o.name, "accessLevel": o.access_level, "description": o.description}
            for o in catalogue_operations()
        ],
    }
    assert "operations" not in demo.get("/api/v1/scopes", key="start-stop-only").json()


def test_each_line_of_the_log_is_a_json_object_with_actor_and_route(demo: Running) -> None:
    def line_of(request_id: str, path: str) -> dict[str, Any]:
        demo.get(path, as_=OWNER, headers={"X-Request-Id": request_id})
        # The line is written after the answer.
        until(lambda: request_id in demo.log)
        (line,) = [one for one in map(json.loads, demo.log.splitlines()) if one.get("request_id") == request_id]
        return dict(line)

    line = line_of("log-test-0001", "/api/v1/tenants?include=usage")
    me = demo.get("/api/v1/me", as_=OWNER).json()
    assert (line["method"], line["path"], line["status"]) == ("GET", "/api/v1/tenants", 200)
    assert (line["actor"], line["credential"]) == (me["id"], me["credential"]["id"])
    assert line["milliseconds"] >= 0
    assert (line["level"], line["route"], line["actor_kind"]) == ("info", "/api/v1/tenants", "session")
    line = line_of("log-test-0002", f"/api/v1/tenants/{WEB_SHOP}")
    assert (line["route"], line["tenant"]) == ("/api/v1/tenants/{tenant_id}", WEB_SHOP)


def test_a_key_in_an_exception_is_cut_short() -> None:
    secret = secret_format.mint()
    error = ValueError(secret)
    information = (type(error), error, None)
    record = logging.LogRecord("service", logging.ERROR, __file__, 1, "failed: %s", (secret,), information)
    line = JsonFormatter().format(record)
    assert secret not in line
    assert line.count(secret[: secret_format.PREFIX_LENGTH]) == 2


@pytest.mark.parametrize(("level", "is_logged"), [("debug", True), ("info", True), ("warning", False)])
def test_the_level_of_the_log_can_be_chosen(level: str, is_logged: bool) -> None:
    program = (
        "import logging; from service import logs;"
        f"logs.configure({level!r}); logging.getLogger('service.requests').info('a request');"
        "logging.getLogger('httpx').debug('a header'); logging.getLogger('service').error('a failure')"
    )
    log = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stderr
    assert ("a request" in log, "a failure" in log, "a header" in log) == (is_logged, True, False)


def test_a_line_break_in_a_value_is_escaped() -> None:
    for forged in ('x\n{"level": "info"}', "x\r\ny", "x\u2028y", "x\x1b[2Jy", "x\x85y"):
        record = logging.LogRecord("service", logging.INFO, __file__, 1, "name %s", (forged,), None)
        record.path = forged
        line = JsonFormatter().format(record)
        assert len(line.splitlines()) == 1
        assert line.isascii()
        assert line.isprintable()
        assert json.loads(line)["path"] == forged


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> tuple[logging.Logger, list[str]]:
    """A logger and its output on standard error."""
    writes: list[str] = []
    monkeypatch.setattr(sys, "stderr", SimpleNamespace(write=writes.append, flush=lambda: None))
    logger = logging.Logger("service.test")
    logger.addHandler(RotatingStderrHandler(None))
    return logger, writes


async def test_the_lines_of_an_iteration_of_the_event_loop_are_one_write(log: tuple[logging.Logger, list[str]]) -> None:
    logger, writes = log
    for pair in ("one two", "three four"):
        for line in pair.split():
            logger.info(line)
        assert writes == []
        await asyncio.sleep(0)
        assert writes == [pair.replace(" ", "\n") + "\n"]
        writes.clear()
    logger.info("five")
    await asyncio.to_thread(logger.info, "six")
    assert writes in (["five\n", "six\n"], ["five\nsix\n"])


def test_a_line_of_a_thread_is_written_at_once(log: tuple[logging.Logger, list[str]]) -> None:
    log[0].info("one")
    assert log[1] == ["one\n"]


@given(st.text(alphabet="abfkmw_.~-/ 0") | st.text())
def test_a_text_is_masked_in_full_whatever_its_parts(value: str) -> None:
    assert secret_format.mask_secrets(value) == secret_format._SECRETS.sub(r"\1\2…", value)


def test_every_operation_describes_its_parameters_refusals_and_answers(demo: Running) -> None:
    description = demo.get("/api/openapi.json").json()
    for reference in re.findall(r'"\$ref": "#/components/schemas/([^"]+)"', json.dumps(description)):
        assert reference in description["components"]["schemas"]
    for path, operations in description["paths"].items():
        for operation in operations.values():
            named = {one["name"] for one in operation.get("parameters", []) if one["in"] == "path"}
            assert named == set(re.findall(r"{(\w+)}", path))
            if not path.startswith("/api/v1/"):
                continue
            assert "default" not in operation["responses"]
            for status, response in operation["responses"].items():
                schema = response.get("content", {}).get("application/json", {}).get("schema", {})
                envelopes = {one["$ref"] for one in schema.get("oneOf", [schema]) if "$ref" in one}
                assert status[0] not in "45" or "#/components/schemas/Error" in envelopes, (path, status)
                assert status == "204" or response["content"], (path, status)


PUBLISHED = Path(__file__).with_name("operation_ids.txt")


@pytest.fixture(scope="module")
def routes() -> list[APIRoute]:
    tenanted = [route for area in application.AREAS for route in area.router.routes]
    return [route for route in (*tenanted, *application.home_routes(tenanted)) if isinstance(route, APIRoute)]


def test_operation_ids_are_the_published_ones(routes: list[APIRoute]) -> None:
    lines = {f"{method} {route.path_format} {route.operation_id}" for route in routes for method in route.methods or ()}
    assert sorted(lines) == PUBLISHED.read_text().splitlines()


def test_every_described_answer_is_one_of_an_operation(routes: list[APIRoute]) -> None:
    ids = {route.operation_id for route in routes}
    for table in (
        response_schemas.SCHEMAS_BY_OPERATION,
        response_schemas.FURTHER_RESPONSES,
        response_schemas.MEDIA_TYPES,
        openapi.SPECIAL_REFUSALS,
    ):
        assert table.keys() <= ids


def test_a_sign_in_that_is_not_available_is_no_error_in_the_log(network: Running) -> None:
    """Anyone on the network can repeat it."""
    host, port = tcp_address(network)
    for number, path in enumerate(("/api/v1/auth/cli-config", "/nowhere")):
        connection = http.client.HTTPConnection(host, port, timeout=60)
        mark = f"not-available-{number}"
        answer = exchange(connection, "GET", path, {"X-Request-Id": mark}, None)
        assert answer.status == (404 if number else 503)
        until(lambda mark=mark: mark in network.log)
        (line,) = [one for one in map(json.loads, network.log.splitlines()) if one.get("request_id") == mark]
        assert line["level"] == "info"
