"""The simulations of docs/scaling.md in small, and the arithmetic of its model."""

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.scaling.capacity import Load, need
from tests.scaling.costs import Costs
from tests.scaling.replicas import Simulation, admitted_by_one, arrivals, excess, shapes
from tests.scaling.traffic import simulate_reloads, simulate_sealer

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("per_minute", [60, 600, 3_000])
@pytest.mark.parametrize("times", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("shape", ["even", "Zipf", "one hot"])
def test_a_hundred_replicas_admit_at_most_the_limit(per_minute: int, times: float, shape: str) -> None:
    simulation = Simulation(100, drift=0.0004)
    requests = list(arrivals(simulation.now, 90, shapes(times * per_minute / 60)[shape]))
    admitted = list(simulation.run(requests, per_minute))
    assert excess(admitted, per_minute) == 0
    assert len(admitted) >= 0.98 * admitted_by_one((at for at, _ in requests), per_minute)


def test_reloads_are_those_of_the_model() -> None:
    for changes in (0.05, 1.0):
        result = simulate_reloads(20, 10, 20, changes, 200)
        assert result.reloads == pytest.approx(result.expected, rel=0.2)


def test_only_a_slow_sealer_falls_behind() -> None:
    assert simulate_sealer(200, 4_000, 120, burst=2.0).seconds < 0.3
    assert simulate_sealer(3_000, 2_000, 60).seconds > 10


def test_the_model_adds_up() -> None:
    costs, load = Costs(), Load()
    assert need(load, costs).leases <= load.requests
    double = replace(load, audit_days=730)
    audit = load.writes * 86_400 * 365 * costs.row_bytes["audit_log"] / 1e9
    assert need(double, costs).gigabytes - need(load, costs).gigabytes == pytest.approx(audit)
    only_reads = Load(writes=0, decisions=0, changes=0, reads=100, credentials=10_000)
    expected = 100 * (costs.read.replica + costs.lease.replica) / 1_000 / only_reads.utilization
    # Each request takes a lease.
    assert need(only_reads, costs).replica_cores == pytest.approx(expected, rel=0.05)


def test_the_figures_of_the_document_are_those_of_the_command() -> None:
    done = subprocess.run([sys.executable, "-m", "tests.scaling"], cwd=ROOT, capture_output=True, text=True, check=True)
    document = (ROOT / "docs" / "scaling.md").read_text()
    for line in done.stdout.strip().splitlines():
        assert line in document
    costs = Costs()
    table = dict(re.findall(r"^\| `(\w+)` \| ([\d.,]+)", document, re.MULTILINE))
    assert {name: float(value.replace(",", "")) for name, value in table.items()} == {
        **{name: getattr(costs, name).replica for name in ("read", "write", "decision", "reload", "lease", "seal")},
        **costs.row_bytes,
    }
