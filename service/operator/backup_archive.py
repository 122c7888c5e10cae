"""The file format of a backup: a tar of regular files.

    manifest.json    {"format", "version", "revision", "database", "createdAt", "audit", "columns", "files"}
    platform.db      the SQLite database; or tables/<name>, each PostgreSQL table in the format of COPY
    secret.key  issuer.jwk  world-keys.json    if they exist
    manifest.sha256
    manifest.seal    a MAC of the manifest under the installation's secret; missing in backups of earlier releases

The manifest has the size and digest of each file, so its seal covers the content. Members with other names, types or
sizes, or in another order, are rejected.
"""

import argparse
import hashlib
import hmac
import io
import json
import os
import re
import stat
import sys
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple

from sqlalchemy.exc import SQLAlchemyError

from service.digests import are_equal
from service.files import create_private
from service.http_server import sockets
from service.settings import Settings, from_arguments

FORMAT = 1
MANIFEST, DIGEST, SEAL = "manifest.json", "manifest.sha256", "manifest.seal"
DATABASE = "platform.db"
SECRET = "secret.key"  # noqa: S105 - the name of a file
FILES = (SECRET, "issuer.jwk", "world-keys.json")
"""Files besides the database."""
_NAME = re.compile(r"platform\.db|secret\.key|issuer\.jwk|world-keys\.json|tables/[a-z_]{1,63}")
_BLOCK = tarfile.BLOCKSIZE
_SEAL_PURPOSE = b"frost: the seal of a backup"
_CHUNK_BYTES = 1024 * 1024
MAX_MANIFEST_BYTES = 1024 * 1024
# Required free space after unpacking.
SPARE_BYTES = 16 * 1024 * 1024


class InvalidBackup(Exception):
    """A file that cannot be restored. The text is a single line; no data was changed."""


def installed_path(settings: Settings, name: str) -> Path:
    if name == SECRET:
        return settings.secret_file
    return (settings.secret_file.parent if name == "issuer.jwk" else settings.data_dir) / name


def has_shared_secret(settings: Settings) -> bool:
    """Return whether replicas may share the secret and the issuer's key."""
    return settings.secret_file.parent != settings.data_dir


def missing_secret(settings: Settings) -> InvalidBackup:
    return InvalidBackup(f"{settings.secret_file} not found; use the --secret-file of the running platform")


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class Backup(NamedTuple):
    """An unpacked backup, before `require_seal` verifies its seal."""

    manifest: dict[str, Any]
    content: bytes
    """The bytes of the manifest, for the seal."""
    seal: str | None


def seal_of(content: bytes, secret: bytes) -> str:
    """Return the seal of a manifest, 64 hex digits."""
    key = hmac.digest(secret, _SEAL_PURPOSE, "sha256")
    return hmac.digest(key, content, "sha256").hex()


def require_seal(backup: Backup, secret: bytes, secret_name: str) -> None:
    """Require a seal made with this secret.

    Raises:
        InvalidBackup: the seal is missing or wrong.
    """
    if backup.seal is None or not are_equal(seal_of(backup.content, secret), backup.seal):
        raise InvalidBackup(
            f"its seal does not match {secret_name}: the backup was altered, or another installation created it"
        )


def pack(out: IO[bytes], folder: Path, names: list[str], facts: Mapping[str, Any]) -> None:
    """Write files of a folder and the facts as a backup, sealed with the secret in the folder."""
    files: dict[str, dict[str, Any]] = {
        name: {"bytes": (folder / name).stat().st_size, "sha256": sha256(folder / name)} for name in names
    }
    manifest = json.dumps({"format": FORMAT, **facts, "files": files}, indent=1).encode()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as tar:
        _add(tar, MANIFEST, len(manifest), io.BytesIO(manifest))
        for name in names:
            with (folder / name).open("rb") as file:
                _add(tar, name, files[name]["bytes"], file)
        digest = hashlib.sha256(manifest).hexdigest().encode()
        _add(tar, DIGEST, len(digest), io.BytesIO(digest))
        seal = seal_of(manifest, (folder / SECRET).read_bytes()).encode()
        _add(tar, SEAL, len(seal), io.BytesIO(seal))


def _add(tar: tarfile.TarFile, name: str, size: int, file: IO[bytes]) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode = size, 0o600
    tar.addfile(member, file)


def unpack(path: Path, folder: Path) -> Backup:
    """Unpack a backup into an empty folder and check all but its seal.

    Raises:
        InvalidBackup: the file is not a backup, or is damaged or incomplete.
    """
    with _open(path) as file:
        manifest_bytes = _read_content(file, _read_header(file, MANIFEST, MAX_MANIFEST_BYTES))
        manifest = _read_manifest(manifest_bytes)
        entries = manifest["files"]
        _require_room(folder, sum(entry["bytes"] for entry in entries.values()))
        for name, entry in entries.items():
            if _read_header(file, name, entry["bytes"]) != entry["bytes"]:
                raise InvalidBackup(f"{name} has a different size than in the manifest")
            target = folder / name
            target.parent.mkdir(mode=0o700, exist_ok=True)
            with create_private(target) as out:
                if _copy(file, entry["bytes"], out) != entry["sha256"]:
                    raise InvalidBackup(f"it is damaged: {name} was altered")
        digest = _read_content(file, _read_header(file, DIGEST, 64))
        if digest.decode("ascii", "replace") != hashlib.sha256(manifest_bytes).hexdigest():
            raise InvalidBackup("it is damaged: its manifest was altered")
        seal = _read_seal(file)
    return Backup(manifest, manifest_bytes, seal)


def _read_seal(file: IO[bytes]) -> str | None:
    """Read the seal, the last member; None if the archive ends before it."""
    start = file.tell()
    if not file.read(_BLOCK).strip(b"\0"):
        return None
    file.seek(start)
    return _read_content(file, _read_header(file, SEAL, 64)).decode("ascii", "replace")


def _open(path: Path) -> IO[bytes]:
    try:
        # Opening a pipe would block.
        file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")
    except OSError as error:
        raise InvalidBackup(f"it cannot be read: {error.strerror}") from None
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise InvalidBackup("not a regular file")
    return file


def _read_header(file: IO[bytes], name: str, max_size: int) -> int:
    """Return the size of the next member, the regular file `name`."""
    block = file.read(_BLOCK)
    if len(block) < _BLOCK:
        raise InvalidBackup("not a frost backup" if name == MANIFEST else "it is truncated")
    try:
        member = tarfile.TarInfo.frombuf(block, "ascii", "strict")
    except (tarfile.HeaderError, UnicodeDecodeError):
        raise InvalidBackup("not a frost backup" if name == MANIFEST else "it is damaged or truncated") from None
    if member.name != name or member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE):
        raise InvalidBackup("not a frost backup" if name == MANIFEST else f"it has another file in place of {name}")
    if not 0 <= member.size <= max_size:
        raise InvalidBackup(f"{name} has a different size than in the manifest")
    return member.size


def _read_content(file: IO[bytes], size: int) -> bytes:
    out = io.BytesIO()
    _copy(file, size, out)
    return out.getvalue()


def _copy(file: IO[bytes], size: int, out: IO[bytes]) -> str:
    """Copy a member, skip its padding; return its SHA-256."""
    digest, remaining = hashlib.sha256(), size
    while remaining:
        chunk = file.read(min(remaining, _CHUNK_BYTES))
        if not chunk:
            raise InvalidBackup("it is truncated")
        digest.update(chunk)
        out.write(chunk)
        remaining -= len(chunk)
    file.read(-size % _BLOCK)
    return digest.hexdigest()


def _read_manifest(content: bytes) -> dict[str, Any]:
    try:
        manifest = json.loads(content)
        if manifest["format"] != FORMAT:
            raise InvalidBackup("a newer frost created it" if manifest["format"] > FORMAT else "not a frost backup")
        texts = [manifest["revision"], manifest["version"], manifest["createdAt"]]
        entries = manifest["files"].values()
        is_valid = (
            manifest["database"] in ("sqlite", "postgresql")
            and all(isinstance(entry["bytes"], int) and entry["bytes"] >= 0 for entry in entries)
            and all(_are_column_names(names) for names in manifest["columns"].values())
            and all(isinstance(text, str) for text in [*texts, *(entry["sha256"] for entry in entries)])
            and SECRET in manifest["files"]
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise InvalidBackup("not a frost backup") from None
    if not is_valid:
        raise InvalidBackup("not a frost backup")
    if unexpected := [name for name in manifest["files"] if not _NAME.fullmatch(name)]:
        raise InvalidBackup(f"unexpected file: {ascii(unexpected[0])[:80]}")
    return dict(manifest)


def _are_column_names(names: Any) -> bool:
    return isinstance(names, list) and all(isinstance(name, str) and re.fullmatch(r"[a-z_]+", name) for name in names)


def _require_room(folder: Path, size: int) -> None:
    disk = os.statvfs(folder)
    if size + SPARE_BYTES > disk.f_bavail * disk.f_frsize:
        raise InvalidBackup(f"not enough space for {size} bytes")


EXIT_INVALID_BACKUP = 3
"""The exit status for InvalidBackup."""

Action = Callable[..., dict[str, Any]]
"""Takes the settings, the path and, for a restore, `trust` and `verify_with`."""


def run(name: str, action: Action, check: Action | None = None) -> None:
    """Run the action and print its result as JSON, or exit with a line on stderr.

    Args:
        name: the command's module, for the usage.
        check: runs instead of `action` with `--check`. Only commands with a check verify seals.
    """
    parser = argparse.ArgumentParser(prog=f"python -m service.operator.{name}", allow_abbrev=False)
    parser.add_argument("file", type=Path)
    if check:
        parser.add_argument("--check", action="store_true", help="only check whether the backup can be restored")
        parser.add_argument("--trust", action="store_true", help="restore a backup whose seal cannot be verified")
        parser.add_argument("--verify-with", type=Path, metavar="PATH", help="a copy of the secret, for the seal only")
    arguments, settings_flags = parser.parse_known_args(sys.argv[1:])
    settings = from_arguments(settings_flags, os.environ)
    os.umask(0o077)
    try:
        options = {"trust": arguments.trust, "verify_with": arguments.verify_with} if check else {}
        result = (check if check and arguments.check else action)(settings, arguments.file.absolute(), **options)
    except InvalidBackup as error:
        sys.exit(_fail(str(error), EXIT_INVALID_BACKUP))
    except sockets.StartError as error:
        sys.exit(_fail(str(error), error.status))
    except SQLAlchemyError as error:
        reason = " ".join(str(getattr(error, "orig", error)).split())
        sys.exit(_fail(f"the database cannot be used: {reason}", 1))
    except OSError as error:
        sys.exit(_fail(f"{error.filename or arguments.file}: {error.strerror or error}", 1))
    sys.stdout.write(json.dumps(result) + "\n")


def _fail(reason: str, status: int) -> int:
    sys.stderr.write(f"{reason}\n")
    return status
