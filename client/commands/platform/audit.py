"""`frost platform audit`: verify the local platform's audit log, export its oldest entries and drop them.

Exported entries are segments of JSON Lines, each followed by its proof.
"""

# Commands do not import pathlib: it takes longer than reading the configuration.
# ruff: noqa: PTH108, PTH118, PTH119, PTH120, PTH123

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from typing import IO, Any

import click

from client.api import platform as calls
from client.commands import output
from client.commands.command import Group
from client.commands.invocation import Invocation
from client.commands.parameters import YES, Argument, Option
from client.commands.platform.process import DATA_DIR, mark_text, staff_of
from client.connection import Staff
from client.errors import FrostError, usage
from client.paths import absolute
from client.tables.columns import time_text
from client.text import safe

FILE = Argument(["file"], metavar="FILE", type=click.Path(), help="File of exported entries.")

audit = Group("audit", help="Manage the audit log of the local platform.")


@audit.leaf(
    "verify",
    Option(["--segment"], metavar="FILE", help="Verify exported entries instead of the log."),
    DATA_DIR,
    examples=(
        "frost platform audit verify",
        "frost platform audit verify --data-dir /srv/frost -o json",
        "frost platform audit verify --segment audit-2026.jsonl",
    ),
)
def verify(run: Invocation, segment: str | None, data_dir: str | None) -> None:
    """Verify that no entry of the audit log was altered, removed, inserted or moved.

    Exits with code 1 and names the first bad entry if the chain is broken, or does not continue the mark of the data
    directory (audit.mark). HEAD is a digest of the whole log: store it elsewhere to detect later that the database
    and the data directory were both set back.

    With --segment, verify that exported entries are unchanged and that the audit log continues them.
    """
    staff = staff_of(data_dir, "frost platform audit verify", starts=True)
    if segment is not None:
        _verify_file(run, staff, _path(segment, "--segment", "verify"))
        return
    report = run.driver(staff).ask_json(calls.verify_audit())
    bad = report["firstBad"] or {}
    why = safe(bad.get("why"), 200)
    entry = f"entry {bad['id']} of {time_text(bad['at'])}" if bad.get("id") is not None else ""
    entries, head, since = str(report["entries"]), str(report["head"]), time_text(report.get("chainedSince"))
    if report["ok"]:
        facts = [("entries", entries), ("chain", "whole"), ("head", head), ("chained since", since)]
    else:
        # These figures cover only the part before the first bad entry.
        facts = [
            ("chain", "broken"),
            ("broken at", entry or "its end"),
            ("why", why),
            ("intact before", f"{entries} entries"),
            ("head of the entries", head),
            ("chained since", since),
        ]
    if mark := report.get("mark"):
        facts.append(("mark", mark_text(mark)))
    if dropped := report.get("dropped"):
        facts.append(("dropped", f"entries {dropped['first']} to {dropped['last']}, {time_text(dropped['at'])}"))
    if report.get("unsealed"):
        facts.append(("not sealed yet", str(report["unsealed"])))
    if report.get("unchained"):
        facts.append(("unchained", f"{report['unchained']}, written by an older version during an upgrade"))
    run.output.facts(report, facts)
    if not report["ok"]:
        raise FrostError(
            f"the audit log was altered: {f'{entry}: ' if entry else ''}{why}",
            code="AUDIT_BROKEN",
            hint="earlier entries are intact; compare with a backup before you change anything",
        )


@audit.leaf(
    "export",
    FILE,
    Option(["--before"], metavar="WHEN", help="Age (30d), date (its start in local time) or RFC 3339 timestamp."),
    DATA_DIR,
    examples=("frost platform audit export audit-2025.jsonl --before 2026-01-01",),
)
def export(run: Invocation, file: str, before: str | None, data_dir: str | None) -> None:
    """Export the oldest entries of the audit log to a file, with a proof.

    Exports the entries before the first one that was written at or after --before, one entry per line (JSON Lines).
    Exits with code 1 without such entries. The log does not change: `frost platform audit drop FILE` removes the
    entries from it.
    """
    from client import times

    if before is None:
        raise usage("--before is required (frost platform audit export)")
    until, path = times.past_instant_text(before, "--before"), _path(file, "FILE", "export")
    run.check_time_zone(before)
    driver = run.driver(staff_of(data_dir, "frost platform audit export", starts=True))
    proofs = list[Mapping[str, Any]]()
    with create_segment_file(path) as out:
        while True:
            after = proofs[-1]["last"] if proofs else 0
            answer = driver.ask_json(calls.export_audit(until, after))
            if answer["segment"] is None:
                break
            write_segment(out, answer["lines"], answer["segment"])
            proofs.append(answer["segment"])
        if not proofs:
            raise FrostError(f"the audit log has no entries before {time_text(until)}", code="NOTHING_TO_EXPORT")
    run.output.done(
        f"{safe(file, 200)} has {_range(proofs)} of the audit log; remove them from the log"
        " with: frost platform audit drop",
        {"file": path, **_facts(proofs)},
    )


@audit.leaf(
    "drop",
    FILE,
    YES,
    DATA_DIR,
    examples=("frost platform audit drop audit-2025.jsonl --yes",),
)
def drop(run: Invocation, file: str, yes: bool, data_dir: str | None) -> None:
    """Remove exported entries from the audit log.

    The file is verified first. Entries before those of the file must be dropped already. The log records which
    entries were dropped, and `frost platform audit verify` verifies the rest. Keep the file: it is the only copy.
    """
    path = _path(file, "FILE", "drop")
    staff = staff_of(data_dir, "frost platform audit drop", starts=True)
    proofs = read_proofs(path)
    present = [proof for proof, dropped in zip(proofs, _are_dropped(run, staff, proofs), strict=True) if not dropped]
    if not present:
        raise FrostError(f"{_range(proofs)} of the audit log were already dropped", code="ALREADY_DROPPED")
    if not yes:
        output.confirm(
            run.talk,
            f"Remove {_range(present)} of the audit log, until {time_text(present[-1]['ends'])}?"
            f" {safe(file, 200)} will be the only copy.",
            refused="this removes entries of the audit log",
            hint="use --yes to skip the confirmation",
        )
    driver = run.driver(staff)
    for proof in present:
        driver.ask_json(calls.drop_audit(proof))
    run.output.done(f"removed {_range(present)} of the audit log; keep {safe(file, 200)}", _facts(present))


def _verify_file(run: Invocation, staff: Staff, path: str) -> None:
    proofs = read_proofs(path)
    dropped = _are_dropped(run, staff, proofs)
    state = "dropped" if all(dropped) else "partly dropped" if any(dropped) else "in the audit log"
    facts = [
        ("entries", str(proofs[-1]["last"] - proofs[0]["first"] + 1)),
        ("numbers", f"{proofs[0]['first']} to {proofs[-1]['last']}"),
        ("written", f"{time_text(proofs[0]['begins'])} to {time_text(proofs[-1]['ends'])}"),
        ("chain", "whole"),
        ("state", state),
    ]
    run.output.facts({"file": path, "ok": True, "state": state, **_facts(proofs)}, facts)


def _are_dropped(run: Invocation, staff: Staff, proofs: Sequence[Mapping[str, Any]]) -> list[bool]:
    """Return whether the entries of each proof were dropped. Raises FrostError if a proof is forged."""
    driver = run.driver(staff)
    return [driver.ask_json(calls.verify_audit_segment(proof))["dropped"] for proof in proofs]


def _path(path: str, flag: str, command: str) -> str:
    if not path:
        raise usage(f"{flag} is empty (frost platform audit {command})")
    return absolute(path)


def _range(proofs: Sequence[Mapping[str, Any]]) -> str:
    return f"entries {proofs[0]['first']} to {proofs[-1]['last']}"


def _facts(proofs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    first, last = proofs[0], proofs[-1]
    return {
        "first": first["first"],
        "last": last["last"],
        "entries": last["last"] - first["first"] + 1,
        "begins": first["begins"],
        "ends": last["ends"],
        "head": last["hash"],
    }


_PROOF = b'{"segment":'
_NUMBERS, _TEXTS = ("first", "last"), ("begins", "ends", "previousHash", "hash", "sha256", "seal")


@contextmanager
def create_segment_file(path: str) -> Iterator[IO[bytes]]:
    """Create a file with mode 0600. Its name appears when the file is complete and synced to disk.

    Raises:
        FrostError: the file exists, or cannot be written.
    """
    scratch = os.path.join(os.path.dirname(path), f".{os.path.basename(path)}.{os.getpid()}")
    try:
        if os.path.lexists(path):
            raise FileExistsError
        try:
            with os.fdopen(os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
                yield out
                out.flush()
                os.fsync(out.fileno())
            # A link, unlike a rename, does not replace a file.
            os.link(scratch, path)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(scratch)
    except FileExistsError:
        raise FrostError(f"{safe(path, 200)} already exists", code="FILE_EXISTS", hint="choose another file") from None
    except OSError as error:
        raise FrostError(
            f"{safe(path, 200)} cannot be written: {safe(error.strerror or str(error), 200)}", code="FILE_NOT_WRITTEN"
        ) from error


def write_segment(out: IO[bytes], lines: str, proof: Mapping[str, Any]) -> None:
    out.write(lines.encode())
    out.write(json.dumps({"segment": proof}, separators=(",", ":")).encode() + b"\n")


def read_proofs(path: str) -> list[dict[str, Any]]:
    """Return the proofs of a file, compared with its lines. Their seals are not verified.

    Raises:
        FrostError: the file cannot be read, or was altered.
    """
    try:
        with open(path, "rb") as file:
            proofs = list(_proofs(file))
    except OSError as error:
        raise FrostError(
            f"{safe(path, 200)} cannot be read: {safe(error.strerror or str(error), 200)}", code="FILE_NOT_READ"
        ) from error
    except ValueError as error:
        raise FrostError(
            f"{safe(path, 200)} is not an intact export: {error}",
            code="EXPORT_DAMAGED",
            hint="nothing was changed",
        ) from None
    return proofs


def _proofs(file: IO[bytes]) -> Iterator[dict[str, Any]]:
    """Yield the proofs of a file. Raises ValueError at the first that does not match the preceding lines."""
    digest, previous, number = sha256(), dict[str, Any](), 0
    is_open = False
    for number, line in enumerate(file, 1):
        if not line.startswith(_PROOF):
            digest.update(line)
            is_open = True
            continue
        proof = _proof(line, number)
        if proof["sha256"] != digest.hexdigest():
            raise ValueError(f"the entries before line {number} were altered")
        if previous and (proof["first"], proof["previousHash"]) != (previous["last"] + 1, previous["hash"]):
            raise ValueError(f"entries before line {number} are missing")
        yield proof
        digest, previous, is_open = sha256(), proof, False
    if is_open:
        raise ValueError("the end of the file is missing")
    if not previous:
        raise ValueError("the file is empty")


def _proof(line: bytes, number: int) -> dict[str, Any]:
    try:
        document = json.loads(line)
        proof = document["segment"]
        is_valid = (
            line.endswith(b"\n")
            and document.keys() == {"segment"}
            and proof.keys() == {*_NUMBERS, *_TEXTS}
            and all(type(proof[name]) is int for name in _NUMBERS)
            and all(isinstance(proof[name], str) for name in _TEXTS)
        )
    except (ValueError, AttributeError, RecursionError):
        is_valid = False
    if not is_valid:
        raise ValueError(f"line {number} is not a proof of a segment")
    return dict(proof)
