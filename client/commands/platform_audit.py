"""`frost platform audit` (ours): whether the local platform's audit log is as it was written (hostile I04)."""

from client.api import platform as calls
from client.commands.data_dir import DATA_DIR, staff_of
from client.commands.frame import Group
from client.commands.invocation import Invocation
from client.errors import FrostError
from client.records import time_text
from client.text import safe

audit = Group("audit", help="The audit log of the local platform.", ours=True)


@audit.leaf(
    "verify",
    DATA_DIR,
    ours=True,
    examples=("frost platform audit verify", "frost platform audit verify --data-dir /srv/frost -o json"),
)
def verify(run: Invocation, data_dir: str | None) -> None:
    """Check that no entry of the audit log was altered, removed, inserted or moved.

    It ends with 1 and names the first bad entry when the chain is broken. HEAD stands for the whole log: kept somewhere
    else, it tells later whether the database was put back to an earlier state.
    """
    staff = staff_of(data_dir, "frost platform audit verify", starts=True)
    found = run.driver(staff).call(calls.verify_audit())
    bad = found["firstBad"] or {}
    why = safe(bad.get("why"), 200)
    entry = f"entry {bad['id']} of {time_text(bad['at'])}" if bad.get("id") is not None else ""
    entries, head, since = str(found["entries"]), str(found["head"]), time_text(found.get("chainedSince"))
    if found["ok"]:
        facts = [("entries", entries), ("chain", "whole"), ("head", head), ("chained since", since)]
    else:
        # Not of the whole log: of the part before what is wrong.
        facts = [
            ("chain", "broken"),
            ("broken at", entry or "its end"),
            ("why", why),
            ("whole before", f"{entries} entries"),
            ("head of those", head),
            ("chained since", since),
        ]
    if found.get("unchained"):
        facts.append(("unchained", f"{found['unchained']}, written by an older version during an upgrade"))
    run.output.facts(found, facts)
    if not found["ok"]:
        raise FrostError(
            f"the audit log is not as it was written: {f'{entry}: ' if entry else ''}{why}",
            code="AUDIT_BROKEN",
            hint="what came before it is as it was; compare with a backup before anything is changed",
        )
