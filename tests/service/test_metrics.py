"""Metrics for Prometheus, and the drain of a stopping platform."""

import http.client
import json
import re
import signal
import socket
import time

from prometheus_client.parser import text_string_to_metric_families

from service.http_server.request_metrics import UNROUTED
from tests.api import exchange
from tests.people import OWNER, WEB_SHOP
from tests.service.running import Running
from tests.waiting import until

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def samples(text: str) -> Samples:
    return {
        (one.name, frozenset(one.labels.items())): one.value
        for family in text_string_to_metric_families(text)
        for one in family.samples
    }


def scrape(running: Running) -> Samples:
    answer = running.get("/metrics")
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/plain")
    return samples(answer.body.decode())


def value(found: Samples, name: str, **labels: str) -> float:
    return found.get((name, frozenset(labels.items())), 0)


def test_requests_are_counted_by_method_template_and_status(demo: Running) -> None:
    route = "/api/v1/tenants/{tenant_id}"
    before = scrape(demo)
    for _ in range(3):
        demo.get(f"/api/v1/tenants/{WEB_SHOP}", as_=OWNER)
    demo.get(f"/api/v1/tenants/{WEB_SHOP}")
    demo.ask("OPTIONS", "/api/v1/coffee/pot")
    until(lambda: value(scrape(demo), "frost_requests_total", method="other", route=UNROUTED, status="404") > 0)
    after = scrape(demo)
    for name, more, labels in (
        ("frost_requests_total", 3, {"method": "GET", "status": "200"}),
        ("frost_requests_total", 1, {"method": "GET", "status": "401"}),
        ("frost_request_seconds_count", 4, {}),
        ("frost_request_seconds_bucket", 4, {"le": "+Inf"}),
    ):
        earlier, later = (value(found, name, route=route, **labels) for found in (before, after))
        assert later - earlier == more, (name, labels)
    # Nothing that a caller writes becomes a label.
    assert not [labels for _, labels in after if any("coffee" in text or WEB_SHOP in text for _, text in labels)]


def test_the_state_of_the_platform_is_exported(demo: Running) -> None:
    found = scrape(demo)
    # Missing values are 0, which an alarm can distinguish from a platform that does not respond.
    open_ones = {labels for name, labels in found if name == "frost_operations_open"}
    kinds, statuses = ("provision_tenant", "apply_default_tags"), ("pending", "running")
    assert open_ones == {frozenset({("kind", kind), ("status", status)}) for kind in kinds for status in statuses}
    assert sum(number for (name, _), number in found.items() if name == "frost_operations_open") == 1
    assert value(found, "frost_audit_entries") > 0
    assert all(value(found, "frost_ready", check=name) == 1 for name in ("database", "audit", "disk", "clock"))
    assert value(found, "frost_database_connections", state="in_use") >= 0
    assert value(found, "process_resident_memory_bytes") > 1_000_000


def fetch(port: str, path: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=60)
    answer = exchange(connection, "GET", path, {}, None)
    return answer.status, answer.body.decode()


def test_prometheus_gets_a_port_of_its_own_and_the_api_no_metrics() -> None:
    variables = {"FROST_PLATFORM_METRICS": "127.0.0.1:0", "FROST_PLATFORM_DRAIN_SECONDS": "0.5"}
    with Running(None, "empty", "--listen", "127.0.0.1:0", **variables) as running:
        until(lambda: "answering Prometheus on" in running.log and "listening on" in running.log)
        (metrics,) = re.findall(r"answering Prometheus on 127.0.0.1:(\d+)", running.log)
        (api,) = re.findall(r"listening on .*, 127\.0\.0\.1:(\d+)", running.log)
        status, text = fetch(metrics, "/metrics")
        assert (status, value(samples(text), "frost_ready", check="database")) == (200, 1)
        # Every path has the numbers there, never the API.
        assert "frost_ready" in fetch(metrics, "/api/v1/tenants")[1]
        assert fetch(api, "/metrics")[0] == 404
        # A short drain ends by itself.
        began = time.monotonic()
        assert running.stop() == 0
        assert time.monotonic() - began >= 0.5


def test_an_address_for_prometheus_that_is_in_use_is_one_line() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        running = Running(None, "empty", FROST_PLATFORM_METRICS=f"127.0.0.1:{taken.getsockname()[1]}")
        process = running.launch()
        assert process.wait(60) == 1
    assert "frost platform: cannot answer Prometheus on" in running.log.splitlines()[-1]
    running.__exit__(None, None, None)


def test_a_stopping_platform_is_not_ready_and_still_answers() -> None:
    with Running(None, "empty", FROST_PLATFORM_DRAIN_SECONDS="600") as running:
        assert running.process
        running.process.send_signal(signal.SIGTERM)
        until(lambda: running.get("/readyz").status == 503)
        answer = running.get("/readyz").json()
        assert (answer["status"], answer["checks"]["operations"]) == ("stopping", "stopping")
        assert running.get("/healthz").status == 200
        until(lambda: '"path":"/readyz"' in running.log)
        lines = [json.loads(line) for line in running.log.splitlines()]
        assert {line["level"] for line in lines if line.get("path") == "/readyz"} == {"info"}
        # A second signal ends the wait.
        assert running.stop() == 0
