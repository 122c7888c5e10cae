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
    change. `lease`: of a rate limit. `seal`: an entry of the audit log, in batches. `row_bytes`: on PostgreSQL, with
    indexes.
    """

    read: Cost = Cost(3.154, 0.856)
    write: Cost = Cost(13.0, 5.5)
    decision: Cost = Cost(6.667, 3.391)
    reload: Cost = Cost(4.695, 4.09)
    lease: Cost = Cost(0.587, 0.29)
    seal: Cost = Cost(0.0668, 0.035)
    row_bytes: Mapping[str, float] = field(
        default_factory=lambda: {
            "api_keys": 424,
            "audit_log": 652,
            "default_tag_versions": 187,
            "groups": 522,
            "policies": 529,
            "policy_attachments": 637,
            "resources": 590,
            "tenants": 379,
        }
    )
