"""The costs of a request, which the capacity model multiplies. `python -m tests.scaling measure` measures them.

CPU times are milliseconds of a core. They include the work of all threads of a process.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Cost:
    """CPU milliseconds of one request or statement, at the replica and at PostgreSQL."""

    replica: float
    database: float


@dataclass(frozen=True)
class Costs:
    """The defaults are from the machine that `docs/scaling.md` names.

    `reload`: beyond a read, for the first request of a credential after a change of its organization; includes the
    change. `lease`: of a rate limit. `seal`: an entry of the audit log, in full batches of the sealer. `row_bytes`: on
    PostgreSQL, with indexes, after VACUUM FULL.
    """

    read: Cost = Cost(0.308, 0.073)
    write: Cost = Cost(1.703, 0.89)
    decision: Cost = Cost(0.342, 0.062)
    reload: Cost = Cost(2.518, 2.547)
    lease: Cost = Cost(0.123, 0.045)
    seal: Cost = Cost(0.024, 0.021)
    row_bytes: Mapping[str, float] = field(
        default_factory=lambda: {
            "api_keys": 396,
            "audit_log": 690,
            "default_tag_versions": 164,
            "groups": 431,
            "policies": 483,
            "policy_attachments": 542,
            "resources": 522,
            "tenants": 307,
        }
    )
