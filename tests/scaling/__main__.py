"""`python -m tests.scaling` prints the capacity model and the simulations; see docs/scaling.md."""

import argparse
import json
import sys
from dataclasses import fields
from pathlib import Path

from tests.scaling.capacity import Load, limits_of_database, need
from tests.scaling.costs import Cost, Costs
from tests.scaling.replicas import Simulation, admitted_by_one, arrivals, excess, shapes
from tests.scaling.traffic import simulate_reloads, simulate_sealer

MINUTES = 2


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.scaling", description=__doc__)
    parser.add_argument("command", nargs="?", choices=("model", "measure", "simulate"), default="model")
    parser.add_argument("--costs", type=Path, help="the output of `measure`; by default the figures of docs/scaling.md")
    parser.add_argument("--database-cores", type=float, default=16)
    parser.add_argument("--sealed", type=float, help="entries that a sealer seals a second; by default from the costs")
    for field in fields(Load):
        name = f"--{field.name.replace('_', '-')}"
        parser.add_argument(name, type=type(field.default), default=field.default, help=f"default {field.default}")
    return parser


def load_costs(path: Path | None) -> Costs:
    if path is None:
        return Costs()
    measured = json.loads(path.read_text())
    row_bytes = measured.pop("row_bytes")
    return Costs(**{name: Cost(**cost) for name, cost in measured.items()}, row_bytes=row_bytes)


def print_model(load: Load, costs: Costs, cores: float) -> None:
    needed = need(load, costs)
    for name, value in (
        ("cores of replicas", needed.replica_cores),
        ("cores of PostgreSQL", needed.database_cores),
        ("leases of rate limits a second", needed.leases),
        ("reloads of authority a second", needed.reloads),
        ("time of the sealer, %", needed.sealer * 100),
        ("storage, GB", needed.gigabytes),
    ):
        print(f"{name:<50} {value:>12,.1f}")
    print(f"\nPostgreSQL with {cores:g} cores, each alone:")
    for name, value in limits_of_database(costs, cores, load.utilization):
        print(f"{name:<50} {value:>12,.0f}")


def print_simulations(load: Load, sealed: float) -> None:
    print(f"rate limits at 100 replicas, {MINUTES} minutes, clocks that differ by 0.04 %")
    print(f"{'limit':>7} {'load':>5} {'skew':<8} {'exact':>7} {'admitted':>9} {'ratio':>7} {'excess':>7} {'leases':>8}")
    for per_minute in (60, 600, 3_000):
        for times in (0.5, 1.0, 3.0):
            for shape, rates in shapes(times * per_minute / 60).items():
                simulation = Simulation(100, drift=0.0004)
                requests = list(arrivals(simulation.now, MINUTES * 60, rates))
                exact = admitted_by_one((at for at, _ in requests), per_minute)
                admitted = list(simulation.run(requests, per_minute))
                print(
                    f"{per_minute:>7} {times:>5} {shape:<8} {exact:>7} {len(admitted):>9} {len(admitted) / exact:>7.4f}"
                    f" {excess(admitted, per_minute):>7} {simulation.rows.statements:>8}"
                )
    print("\nreloads of authority in an organization of 20 credentials at 100 replicas, 10 minutes")
    for changes in (0.01, 0.1, 1.0):
        result = simulate_reloads(100, 20, 50, changes, 600)
        print(f"{changes:>5} changes/s: {result.reloads} of {result.requests} requests, model {result.expected:.0f}")
    print(f"\nentries before the sealer, {sealed:,.0f} sealed a second, twice as many in each second half minute")
    for part in (0.1, 0.5, 0.9):
        backlog = simulate_sealer(sealed * part / 2, sealed, 120, burst=2.0)
        print(f"{part:>4.0%} of that in the burst: at most {backlog.entries} entries, {backlog.seconds:.2f} s")


def main() -> int:
    options = parser().parse_args()
    if options.command == "measure":
        from tests.scaling import measure  # It imports the service, which takes longer than the model.

        measure.main()
        return 0
    costs = load_costs(options.costs)
    load = Load(**{field.name: getattr(options, field.name) for field in fields(Load)})
    if options.command == "simulate":
        print_simulations(load, options.sealed or 1_000 / (costs.seal.replica + costs.seal.database))
    else:
        print_model(load, costs, options.database_cores)
    return 0


sys.exit(main())
