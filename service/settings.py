"""What the platform is told at start: flags of `python -m service`, each also an environment variable.

| flag | environment | meaning |
| --- | --- | --- |
| --data-dir DIR | FROST_PLATFORM_DATA_DIR | database, keys, lock and log live here (0700) |
| --socket PATH | FROST_PLATFORM_SOCKET | unix socket; default DIR/api.sock |
| --listen HOST:PORT | FROST_PLATFORM_LISTEN | answer on TCP as well; port 0 takes a free one |
| --database URL | FROST_PLATFORM_DATABASE | sqlite:///… or postgresql://…; default sqlite:///DIR/platform.db |
| --issuer URL | FROST_PLATFORM_ISSUER | `local`, or the https issuer whose tokens are trusted |
| --world NAME | FROST_PLATFORM_WORLD | demo, empty or large; default demo, with --listen empty |
| --idle-minutes N | FROST_PLATFORM_IDLE_MINUTES | stop after N quiet minutes; 0 never; default 30, with --listen 0 |
| | FROST_PLATFORM_PROXIES | addresses, comma between, of proxies whose X-Forwarded-For is believed |
| | FROST_PLATFORM_REGION_TARGETS | `refuse`: targets of new policies must not name a region; default `accept` |
| | FROST_PLATFORM_PROVISIONING_PACE | seconds each provisioning step takes at least; default 0.6 |
| | FROST_PLATFORM_APPLY_PACE | seconds between two portions of an apply of default tags, at least; default 0 |
| | FROST_PLATFORM_TAG_PROPAGATION | seconds until changed default tags reach new resources; default 0 |
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

RegionTargets = Literal["accept", "refuse"]
REGION_TARGETS: Mapping[str, RegionTargets] = {"accept": "accept", "refuse": "refuse"}
WORLDS = ("demo", "empty", "large")
DAY = 86_400
PREFIX = "FROST_PLATFORM_"
LOOPBACK = {("http", "127.0.0.1"), ("http", "::1")}


@dataclass(frozen=True, slots=True)
class Settings:
    """The platform's settings, complete: every default is already applied."""

    data_dir: Path
    socket: Path
    listen: tuple[str, int] | None
    database_url: str
    issuer: str
    world: str
    idle_minutes: float
    provisioning_pace: float
    apply_pace: float = 0
    tag_propagation: float = 0
    region_targets: RegionTargets = "accept"
    proxies: frozenset[str] = frozenset()


def from_arguments(argv: Sequence[str], environ: Mapping[str, str]) -> Settings:
    """Read flags, then the environment, then the defaults of the table above.

    Raises:
        SystemExit: with status 2 and one line on stderr when something is not acceptable.
    """
    parser = argparse.ArgumentParser(prog="python -m service", description="The frost platform.", allow_abbrev=False)
    for flag, metavar, help_text in (
        ("--data-dir", "DIR", "folder of the database, keys, lock and log"),
        ("--socket", "PATH", "unix socket to answer on"),
        ("--listen", "HOST:PORT", "answer on TCP as well"),
        ("--database", "URL", "sqlite:///… or postgresql://…"),
        ("--issuer", "URL", "`local`, or the https issuer whose tokens are trusted"),
        ("--world", "NAME", "what a new database starts with: demo, empty or large"),
        ("--idle-minutes", "N", "stop after N minutes without a request; 0 never"),
    ):
        variable = PREFIX + flag[2:].replace("-", "_").upper()
        parser.add_argument(
            flag, metavar=metavar, help=f"{help_text} ({variable})", default=environ.get(variable) or None
        )
    given = parser.parse_args(argv)
    if given.data_dir is None:
        parser.error("--data-dir is required")
    try:
        return _complete(given, environ)
    except ValueError as error:
        parser.error(str(error))


def _complete(given: argparse.Namespace, environ: Mapping[str, str]) -> Settings:
    data_dir = Path(given.data_dir).absolute()
    listen = _address(given.listen) if given.listen else None
    world = given.world or ("empty" if listen else "demo")
    if world not in WORLDS:
        raise ValueError(f"--world must be one of {', '.join(WORLDS)}, not {world!r}")
    issuer = given.issuer or "local"
    if issuer != "local" and not _is_issuer(issuer):
        raise ValueError(f"--issuer must be `local` or an https URL, not {issuer!r}")
    regions: RegionTargets | None = REGION_TARGETS.get(environ.get(PREFIX + "REGION_TARGETS") or "accept")
    if regions is None:
        raise ValueError(f"{PREFIX}REGION_TARGETS must be {' or '.join(REGION_TARGETS)}")
    return Settings(
        data_dir=data_dir,
        socket=Path(given.socket).absolute() if given.socket else data_dir / "api.sock",
        listen=listen,
        database_url=given.database or f"sqlite:///{data_dir / 'platform.db'}",
        issuer=issuer,
        world=world,
        idle_minutes=_number("--idle-minutes", given.idle_minutes, 0 if listen else 30),
        provisioning_pace=_number(PREFIX + "PROVISIONING_PACE", environ.get(PREFIX + "PROVISIONING_PACE"), 0.6),
        apply_pace=_number(PREFIX + "APPLY_PACE", environ.get(PREFIX + "APPLY_PACE"), 0),
        tag_propagation=_number(PREFIX + "TAG_PROPAGATION", environ.get(PREFIX + "TAG_PROPAGATION"), 0, DAY),
        region_targets=regions,
        proxies=_proxies(environ.get(PREFIX + "PROXIES") or ""),
    )


def _is_issuer(text: str) -> bool:
    """An https URL, or plain http on this very machine, by its number: a name could lead elsewhere."""
    url = urlsplit(text)
    return bool(url.hostname) and (url.scheme == "https" or (url.scheme, url.hostname) in LOOPBACK)


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise ValueError(f"--listen must be HOST:PORT, not {text!r}")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _proxies(text: str) -> frozenset[str]:
    try:
        return frozenset(str(ip_address(part.strip())) for part in text.split(",") if part.strip())
    except ValueError as error:
        raise ValueError(f"{PREFIX}PROXIES must be addresses with commas between: {error}") from None


def _number(name: str, text: str | None, default: float, most: float = sys.float_info.max) -> float:
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        value = -1
    if not 0 <= value <= most:
        bound = "at least 0" if most == sys.float_info.max else f"0 to {most:g}"
        raise ValueError(f"{name} must be a number of {bound}, not {text!r}")
    return value
