"""The one file of a backup: a tar of plain files, its manifest first and the digest of that last.

    manifest.json    {"format", "version", "revision", "database", "createdAt", "audit", "columns", "files"}
    platform.db      SQLite's database; or tables/<name>, a PostgreSQL table each as COPY writes it
    secret.key  issuer.jwk  world-keys.json    as far as they are there
    manifest.sha256
    manifest.seal    a MAC of the manifest under the installation's secret; backups of earlier releases have none

The manifest has the digest of each file, so its seal covers all of the content.

What a tar can do beyond that (folders, links, names that lead elsewhere, records that say how large others are) is not
read here: each member is a header block of a plain file with one of these names, in this order, of the announced size.
"""

import hashlib
import hmac
import io
import json
import os
import re
import stat
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple

from service.files import create_private
from service.settings import Settings

FORMAT = 1
MANIFEST, DIGEST, SEAL = "manifest.json", "manifest.sha256", "manifest.seal"
DATABASE = "platform.db"
SECRET = "secret.key"  # noqa: S105 - the name of a file
FILES = (SECRET, "issuer.jwk", "world-keys.json")
"""Beside the database."""
_NAME = re.compile(r"platform\.db|secret\.key|issuer\.jwk|world-keys\.json|tables/[a-z_]{1,63}")
_BLOCK = tarfile.BLOCKSIZE
_SEAL_PURPOSE = b"frost: the seal of a backup"
_PIECE = 1024 * 1024
LARGEST_MANIFEST = 1024 * 1024
# Beside what the files themselves need.
SPARE = 16 * 1024 * 1024


class InvalidBackup(Exception):
    """A file that cannot be restored; the text says why in one line. Nothing was touched."""


def place(settings: Settings, name: str) -> Path:
    """Where one of `FILES` is: the issuer's key lies beside the secret, which may be shared."""
    if name == SECRET:
        return settings.secret_file
    return (settings.secret_file.parent if name == "issuer.jwk" else settings.data_dir) / name


def shares_secret(settings: Settings) -> bool:
    """Whether the secret, and the issuer's key beside it, are not this platform's alone."""
    return settings.secret_file.parent != settings.data_dir


def secret_missing(settings: Settings) -> InvalidBackup:
    """Why nothing can be done without the secret."""
    return InvalidBackup(f"{settings.secret_file} is not there; --secret-file names it as the platform is served with")


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class Backup(NamedTuple):
    """A complete backup. `require_seal` checks its seal."""

    manifest: dict[str, Any]
    content: bytes
    """The manifest as it was written, which the seal is of."""
    seal: str | None


def seal_of(content: bytes, secret: bytes) -> str:
    """The seal of a manifest under an installation's secret, 64 hex digits."""
    key = hmac.digest(secret, _SEAL_PURPOSE, "sha256")
    return hmac.digest(key, content, "sha256").hex()


def require_seal(backup: Backup, secret: bytes, where: object) -> None:
    """Refuse a backup whose seal was not made with this secret. `where` names the secret in the message.

    Raises:
        Unfit: the seal is wrong.
    """
    if backup.seal is None or not hmac.compare_digest(backup.seal, seal_of(backup.content, secret)):
        raise InvalidBackup(
            f"its seal does not match {where}: it was changed after it was made, or another installation made it"
        )


def pack(out: IO[bytes], folder: Path, names: list[str], about: Mapping[str, Any]) -> None:
    """Write the files `names` of a folder and the facts `about` them as one backup, sealed with the secret in it."""
    files: dict[str, dict[str, Any]] = {
        name: {"bytes": (folder / name).stat().st_size, "sha256": sha256(folder / name)} for name in names
    }
    manifest = json.dumps({"format": FORMAT, **about, "files": files}, indent=1).encode()
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
    """Read a backup into an empty folder, with everything checked but the seal.

    Raises:
        Unfit: it is no backup, or not a whole one.
    """
    with _opened(path) as file:
        manifest_bytes = _content(file, _header(file, MANIFEST, LARGEST_MANIFEST))
        manifest = _read_manifest(manifest_bytes)
        announced = manifest["files"]
        _require_room(folder, sum(one["bytes"] for one in announced.values()))
        for name, one in announced.items():
            if _header(file, name, one["bytes"]) != one["bytes"]:
                raise InvalidBackup(f"{name} in it has another size than its manifest says")
            target = folder / name
            target.parent.mkdir(mode=0o700, exist_ok=True)
            with create_private(target) as out:
                if _copy(file, one["bytes"], out) != one["sha256"]:
                    raise InvalidBackup(f"it is damaged: {name} is not what was written")
        end = _content(file, _header(file, DIGEST, 64))
        if end.decode("ascii", "replace") != hashlib.sha256(manifest_bytes).hexdigest():
            raise InvalidBackup("it is damaged: its manifest is not what was written")
        seal = _read_seal(file)
    return Backup(manifest, manifest_bytes, seal)


def _read_seal(file: IO[bytes]) -> str | None:
    """The seal, which is the last member; None where the archive ends before it."""
    start = file.tell()
    if not file.read(_BLOCK).strip(b"\0"):
        return None
    file.seek(start)
    return _content(file, _header(file, SEAL, 64)).decode("ascii", "replace")


def _opened(path: Path) -> IO[bytes]:
    try:
        # A pipe would keep us waiting.
        file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")
    except OSError as error:
        raise InvalidBackup(f"it cannot be read: {error.strerror}") from None
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise InvalidBackup("it is not a plain file")
    return file


def _header(file: IO[bytes], name: str, most: int) -> int:
    """The size of the next member, which must be the plain file `name`."""
    block = file.read(_BLOCK)
    if len(block) < _BLOCK:
        raise InvalidBackup("it is no backup of frost" if name == MANIFEST else "it is cut short")
    try:
        member = tarfile.TarInfo.frombuf(block, "ascii", "strict")
    except (tarfile.HeaderError, UnicodeDecodeError):
        raise InvalidBackup("it is no backup of frost" if name == MANIFEST else "it is damaged or cut short") from None
    if member.name != name or member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE):
        raise InvalidBackup(
            "it is no backup of frost" if name == MANIFEST else f"it holds something else where {name} must be"
        )
    if not 0 <= member.size <= most:
        raise InvalidBackup(f"{name} in it has another size than its manifest says")
    return member.size


def _content(file: IO[bytes], size: int) -> bytes:
    out = io.BytesIO()
    _copy(file, size, out)
    return out.getvalue()


def _copy(file: IO[bytes], size: int, out: IO[bytes]) -> str:
    """Copy a member's content; its digest. The file is left at the next header."""
    digest, left = hashlib.sha256(), size
    while left:
        piece = file.read(min(left, _PIECE))
        if not piece:
            raise InvalidBackup("it is cut short")
        digest.update(piece)
        out.write(piece)
        left -= len(piece)
    file.read(-size % _BLOCK)
    return digest.hexdigest()


def _read_manifest(content: bytes) -> dict[str, Any]:
    try:
        manifest = json.loads(content)
        if manifest["format"] != FORMAT:
            raise InvalidBackup(
                "it was made by a newer frost" if manifest["format"] > FORMAT else "it is no backup of frost"
            )
        texts = [manifest["revision"], manifest["version"], manifest["createdAt"]]
        known = manifest["database"] in ("sqlite", "postgresql")
        sizes = all(isinstance(one["bytes"], int) and one["bytes"] >= 0 for one in manifest["files"].values())
        texts += [one["sha256"] for one in manifest["files"].values()]
        columns = all(_plain(names) for names in manifest["columns"].values())
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise InvalidBackup("it is no backup of frost") from None
    told = all(isinstance(text, str) for text in texts)
    if not (known and told and sizes and columns and SECRET in manifest["files"]):
        raise InvalidBackup("it is no backup of frost")
    if strange := [name for name in manifest["files"] if not _NAME.fullmatch(name)]:
        raise InvalidBackup(f"it holds a file that no backup has: {ascii(strange[0])[:80]}")
    return dict(manifest)


def _plain(names: Any) -> bool:
    return isinstance(names, list) and all(isinstance(name, str) and re.fullmatch(r"[a-z_]+", name) for name in names)


def _require_room(folder: Path, size: int) -> None:
    disk = os.statvfs(folder)
    if size + SPARE > disk.f_bavail * disk.f_frsize:
        raise InvalidBackup(f"there is no room for the {size} bytes that it holds")
