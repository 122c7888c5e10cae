"""The capacity model: the resources that a load needs, from the costs of its requests."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from tests.scaling.costs import Costs
from tests.scaling.replicas import Simulation, arrivals
from tests.scaling.traffic import expected_reloads

DAY = 86_400


@dataclass(frozen=True)
class Load:
    """Requests and changes a second over all replicas, and the stored rows.

    `credentials` are those in use, each with a limit of `per_minute`. `changes` are those of the access of one
    organization: keys, roles, policies, memberships. `utilization` is the part of a core that is planned for.
    """

    reads: float = 5_000
    writes: float = 200
    decisions: float = 2_000
    credentials: int = 2_000
    per_minute: int = 600
    organizations: int = 100
    changes: float = 0.01
    replicas: int = 6
    tenants: int = 2_000
    keys: int = 20_000
    policies: int = 20_000
    resources: int = 1_000_000
    audit_days: int = 365
    utilization: float = 0.6

    @property
    def requests(self) -> float:
        return self.reads + self.writes + self.decisions


@dataclass(frozen=True)
class Need:
    replica_cores: float
    database_cores: float
    leases: float
    reloads: float
    sealer: float
    gigabytes: float


def leases_per_request(per_minute: int, requests: float, replicas: int, seconds: float = 120) -> float:
    """Return how many leases a request takes on average, by a simulation of one key.

    Args:
        requests: of the key, a second, evenly over the replicas.
        seconds: simulated, or longer if a replica would have less than two requests.
    """
    if requests:
        seconds = max(seconds, 2 * replicas / requests)
    simulation = Simulation(replicas)
    made = list(arrivals(simulation.now, seconds, [requests / replicas] * replicas))
    deque(simulation.run(made, per_minute), maxlen=0)
    return simulation.rows.statements / max(1, len(made))


def need(load: Load, costs: Costs) -> Need:
    """Return the cores, and the parts that have a limit of their own.

    `sealer` is the part of its time that the only sealer of a database works.
    """
    pairs = load.credentials * load.replicas
    leases = load.requests * leases_per_request(load.per_minute, load.requests / load.credentials, load.replicas)
    reloads = expected_reloads(load.requests / pairs, load.changes) * pairs
    rates = (
        (load.reads, costs.read),
        (load.writes, costs.write),
        (load.decisions, costs.decision),
        (leases, costs.lease),
        (reloads, costs.reload),
    )
    rows = {
        "tenants": load.tenants,
        "api_keys": load.keys,
        "policies": load.policies,
        "resources": load.resources,
        "audit_log": load.writes * DAY * load.audit_days,
    }
    return Need(
        replica_cores=sum(rate * cost.replica for rate, cost in rates) / 1_000 / load.utilization,
        database_cores=sum(rate * cost.database for rate, cost in rates) / 1_000 / load.utilization,
        leases=leases,
        reloads=reloads,
        sealer=load.writes * (costs.seal.replica + costs.seal.database) / 1_000,
        gigabytes=sum(number * costs.row_bytes[table] for table, number in rows.items()) / 1e9,
    )


def limits_of_database(costs: Costs, cores: float, utilization: float) -> Iterator[tuple[str, float]]:
    """Yield the requests and the changes a second that a PostgreSQL with some cores serves, each alone."""
    for name, cost in (("reads", costs.read), ("writes", costs.write), ("decisions", costs.decision)):
        yield f"{name} a second", cores * utilization / cost.database * 1_000
    yield "audit entries a second, by one sealer", 1_000 / (costs.seal.replica + costs.seal.database)
