"""What the platform is told at start: flags of `python -m service`, each also an environment variable.

| flag | environment | meaning |
| --- | --- | --- |
| --data-dir DIR | FROST_PLATFORM_DATA_DIR | database, keys, lock and log live here (0700) |
| --socket PATH | FROST_PLATFORM_SOCKET | unix socket; default DIR/api.sock |
| --listen HOST:PORT | FROST_PLATFORM_LISTEN | answer on TCP as well; port 0 takes a free one |
| --database URL | FROST_PLATFORM_DATABASE | sqlite:///… or postgresql://…; default sqlite:///DIR/platform.db |
| --secret-file PATH | FROST_PLATFORM_SECRET_FILE | what all who share a database share; default DIR/secret.key |
| --issuer URL | FROST_PLATFORM_ISSUER | `local`, or the https issuer whose tokens are trusted |
| --client-id ID | FROST_PLATFORM_CLIENT_ID | the public client people sign in as there; default frost-cli |
| --audience NAME | FROST_PLATFORM_AUDIENCE | the `aud` of its access tokens, a URL for RFC 8707; default frost |
| --assume CLAIMS | FROST_PLATFORM_ASSUME | `email_verified,auth_time` or one of them: holds of its tokens unsaid |
| --world NAME | FROST_PLATFORM_WORLD | demo, empty or large; default demo, with --listen empty |
| --idle-minutes N | FROST_PLATFORM_IDLE_MINUTES | stop after N quiet minutes; 0 never; default 30, with --listen 0 |
| --public-url URL | FROST_PLATFORM_PUBLIC_URL | https address for clients; default: the address it listens on |
| | FROST_PLATFORM_PROXIES | addresses, comma between, of proxies whose X-Forwarded-For is believed |
| | FROST_PLATFORM_REQUESTS_PER_MINUTE | requests a minute of one session or workload identity; default 3000 |
| | FROST_PLATFORM_REGION_TARGETS | `refuse`: targets of new policies must not name a region; default `accept` |
| | FROST_PLATFORM_PROVISIONING_PACE | seconds each provisioning step takes at least; default 0.6 |
| | FROST_PLATFORM_APPLY_PACE | seconds between two portions of an apply of default tags, at least; default 0 |
| | FROST_PLATFORM_OPERATION_TRIES | tries of an apply portion or a provisioning step before the run fails; default 10 |
| | FROST_PLATFORM_LOG_LEVEL | debug, info, warning or error; default info |
| | FROST_PLATFORM_LOG_MEGABYTES | how large platform.log grows until a new file begins; 0 never; default 8 |
| | FROST_PLATFORM_METRICS | HOST:PORT where Prometheus is answered; default: on the unix socket only |
| | FROST_PLATFORM_DRAIN_SECONDS | how long it goes on answering when told to stop, not ready any more; default 0 |
| | FROST_PLATFORM_TAG_PROPAGATION | seconds until changed default tags reach new resources; default 0 |
| | FROST_PLATFORM_MAX_CONNECTIONS | open connections, an eighth of them for the unix socket; default 2000 |
| | FROST_PLATFORM_MAX_CONNECTIONS_PER_ADDRESS | open connections of one client address; default 256 |
| | FROST_PLATFORM_MAX_REQUESTS | requests that run or wait to run, an eighth of them for the unix socket; default 512 |
| | FROST_PLATFORM_MAX_REQUESTS_PER_ADDRESS | the same of one client address; default 256 |
| | FROST_PLATFORM_MAX_BODY_MEBIBYTES | memory for all request bodies, an eighth of it for the unix socket; default 64 |
| | FROST_PLATFORM_MAX_BODY_MEBIBYTES_PER_ADDRESS | the same of one client address; default 4 |
| | FROST_PLATFORM_BODY_SECONDS | seconds for a request body, plus its size at the next rate; default 10 |
| | FROST_PLATFORM_BODY_BYTES_PER_SECOND | the rate at which a large body must arrive; default 65536 |

Limits of the HTTP server. Only the standard library is imported here: the settings need it before the framework.

The version of this program: the distribution has one, and the client's package holds it.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from ipaddress import ip_address
from pathlib import Path
from typing import Literal, NoReturn
from urllib.parse import urlsplit

import client.models

MEBIBYTE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one process. An address is a client's IP address (of IPv6 its /64); the unix socket has none."""

    max_connections: int = 2_000
    max_connections_per_address: int = 256
    max_requests: int = 512
    """Requests that run or wait to run, without those whose body is still arriving."""
    max_requests_per_address: int = 256
    max_body_mebibytes: int = 64
    """Memory for the bodies of all requests until each is answered."""
    max_body_mebibytes_per_address: int = 4
    body_seconds: float = 10.0
    """Time for a request body, plus its size at `body_bytes_per_second`."""
    body_bytes_per_second: int = 64 * 1024


VERSION = client.__version__


RegionTargets = Literal["accept", "refuse"]
REGION_TARGETS: Mapping[str, RegionTargets] = {"accept": "accept", "refuse": "refuse"}
LOG_LEVELS = ("debug", "info", "warning", "error")
WORLDS = ("demo", "empty", "large")
DAY = 86_400
PREFIX = "FROST_PLATFORM_"
# What an outside issuer's tokens are for, and as whom people sign in there, unless the settings say otherwise.
CLIENT_ID = "frost-cli"
AUDIENCE = "frost"
# What an outside issuer may leave unsaid because whoever runs the platform knows it (`service/authn/oidc_provider.py`).
ASSUMABLE = ("email_verified", "auth_time")
LONGEST_NAME = 300
# Of one session or workload identity.
DEFAULT_REQUESTS_PER_MINUTE, MAX_REQUESTS_PER_MINUTE = 3_000, 1_000_000
DEFAULT_OPERATION_TRIES, MAX_OPERATION_TRIES = 10, 1_000
MAX_DIGITS = 9
LOOPBACK = {("http", "127.0.0.1"), ("http", "::1")}


@dataclass(frozen=True, slots=True)
class Settings:
    """The platform's settings, complete: every default is already applied."""

    data_dir: Path
    socket: Path
    secret_file: Path
    listen: tuple[str, int] | None
    database_url: str
    issuer: str
    world: str
    idle_minutes: float
    provisioning_pace: float
    apply_pace: float = 0
    operation_tries: int = DEFAULT_OPERATION_TRIES
    tag_propagation: float = 0
    region_targets: RegionTargets = "accept"
    proxies: frozenset[str] = frozenset()
    log_level: str = "info"
    log_megabytes: float = 8
    metrics: tuple[str, int] | None = None
    drain_seconds: float = 0
    client_id: str = CLIENT_ID
    audience: str = AUDIENCE
    assumed: frozenset[str] = frozenset()
    requests_per_minute: int = DEFAULT_REQUESTS_PER_MINUTE
    public_url: str | None = None
    limits: Limits = field(default_factory=Limits)


class Parser(argparse.ArgumentParser):
    """One that says what is wrong in one line: whoever set it called `frost platform serve`, or wrote a variable."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"frost platform: {message}\n")


def from_arguments(argv: Sequence[str], environ: Mapping[str, str]) -> Settings:
    """Read flags, then the environment, then the defaults of the table above.

    Raises:
        SystemExit: with status 2 and one line on stderr when something is not acceptable.
    """
    parser = Parser(prog="python -m service", description="The frost platform.", allow_abbrev=False)
    for flag, metavar, help_text in (
        ("--data-dir", "DIR", "folder of the database, keys, lock and log"),
        ("--socket", "PATH", "unix socket to answer on"),
        ("--listen", "HOST:PORT", "answer on TCP as well"),
        ("--database", "URL", "sqlite:///… or postgresql://…"),
        ("--secret-file", "PATH", "the platform's secret, the same for all that share the database"),
        ("--issuer", "URL", "`local`, or the https issuer whose tokens are trusted"),
        ("--client-id", "ID", "the public client people sign in as at the issuer"),
        ("--audience", "NAME", "what the issuer's access tokens must name in `aud`"),
        ("--assume", "CLAIMS", "what holds of the issuer's tokens unsaid: email_verified, auth_time"),
        ("--public-url", "URL", "https address of this platform, as clients see it"),
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
    listen = _address("--listen", given.listen) if given.listen else None
    world = given.world or ("empty" if listen else "demo")
    if world not in WORLDS:
        raise ValueError(f"--world must be one of {', '.join(WORLDS)}, not {world!r}")
    issuer = given.issuer or "local"
    if issuer != "local" and not _is_issuer(issuer):
        raise ValueError(f"--issuer must be `local` or an https URL, not {issuer!r}")
    log_level, metrics = environ.get(PREFIX + "LOG_LEVEL") or "info", environ.get(PREFIX + "METRICS")
    if log_level not in LOG_LEVELS:
        raise ValueError(f"{PREFIX}LOG_LEVEL must be one of {', '.join(LOG_LEVELS)}, not {log_level!r}")
    regions: RegionTargets | None = REGION_TARGETS.get(environ.get(PREFIX + "REGION_TARGETS") or "accept")
    if regions is None:
        raise ValueError(f"{PREFIX}REGION_TARGETS must be {' or '.join(REGION_TARGETS)}")
    return Settings(
        data_dir=data_dir,
        socket=Path(given.socket).absolute() if given.socket else data_dir / "api.sock",
        secret_file=Path(given.secret_file).absolute() if given.secret_file else data_dir / "secret.key",
        listen=listen,
        database_url=given.database or sqlite_url(data_dir / "platform.db"),
        issuer=issuer,
        world=world,
        idle_minutes=_number("--idle-minutes", given.idle_minutes, 0 if listen else 30),
        provisioning_pace=_number(PREFIX + "PROVISIONING_PACE", environ.get(PREFIX + "PROVISIONING_PACE"), 0.6),
        apply_pace=_number(PREFIX + "APPLY_PACE", environ.get(PREFIX + "APPLY_PACE"), 0),
        operation_tries=_whole(environ, "OPERATION_TRIES", DEFAULT_OPERATION_TRIES, MAX_OPERATION_TRIES),
        tag_propagation=_number(PREFIX + "TAG_PROPAGATION", environ.get(PREFIX + "TAG_PROPAGATION"), 0, DAY),
        region_targets=regions,
        proxies=_proxies(environ.get(PREFIX + "PROXIES") or ""),
        log_level=log_level,
        log_megabytes=_number(PREFIX + "LOG_MEGABYTES", environ.get(PREFIX + "LOG_MEGABYTES"), 8, 1_000_000),
        metrics=_address(PREFIX + "METRICS", metrics) if metrics else None,
        drain_seconds=_number(PREFIX + "DRAIN_SECONDS", environ.get(PREFIX + "DRAIN_SECONDS"), 0, DAY),
        client_id=_name("--client-id", given.client_id, CLIENT_ID, issuer),
        audience=_name("--audience", given.audience, AUDIENCE, issuer),
        assumed=_assumed(given.assume, issuer),
        requests_per_minute=_whole(
            environ, "REQUESTS_PER_MINUTE", DEFAULT_REQUESTS_PER_MINUTE, MAX_REQUESTS_PER_MINUTE
        ),
        public_url=_public_url(given.public_url) if given.public_url else None,
        limits=_limits(environ),
    )


def sqlite_url(path: Path) -> str:
    """The URL of a file, whose folder may have a name that would mean something in a URL."""
    return f"sqlite:///{str(path).replace('%', '%25').replace('?', '%3F')}"


def _is_issuer(text: str) -> bool:
    """An https URL, or plain http on this very machine, by its number: a name could lead elsewhere."""
    url = urlsplit(text)
    return bool(url.hostname) and (url.scheme == "https" or (url.scheme, url.hostname) in LOOPBACK)


def _public_url(text: str) -> str:
    """Return the address without a slash at its end."""
    try:
        url = urlsplit(text)
        sound = url.port is None or url.port > 0
    except ValueError:
        sound = False
    plain = text.isascii() and text.isprintable() and not set(text) & set(' \\"<>?#@')
    if not sound or not plain or not _is_issuer(text) or url.path not in ("", "/"):
        raise ValueError(f"--public-url must be https://HOST or https://HOST:PORT, not {text!r}")
    return text.removesuffix("/")


def _limits(environ: Mapping[str, str]) -> Limits:
    """Read each limit from the variable of its name: a number of at least 1."""
    given = (limit.name for limit in fields(Limits) if environ.get(PREFIX + limit.name.upper()))
    return Limits(**{name: _whole(environ, name.upper(), 1) for name in given})


def _name(flag: str, text: str | None, default: str, issuer: str) -> str:
    if text is None:
        return default
    if issuer == "local":
        raise ValueError(f"{flag} is about an outside issuer: give --issuer as well")
    if len(text) > LONGEST_NAME or not (text.isascii() and text.isprintable()) or " " in text:
        raise ValueError(f"{flag} must be up to {LONGEST_NAME} plain characters without spaces, not {text!r}")
    return text


def _assumed(text: str | None, issuer: str) -> frozenset[str]:
    if text is None:
        return frozenset()
    if issuer == "local":
        raise ValueError("--assume is about an outside issuer: give --issuer as well")
    claims = frozenset(part.strip() for part in text.split(","))
    if not claims <= set(ASSUMABLE):
        raise ValueError(f"--assume takes {' and '.join(ASSUMABLE)} with a comma between, not {text!r}")
    return claims


def _address(name: str, text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise ValueError(f"{name} must be HOST:PORT, not {text!r}")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _whole(environ: Mapping[str, str], name: str, default: int, most: int | None = None) -> int:
    """Read a variable that takes a whole number of at least 1; `name` is without the prefix."""
    text = environ.get(PREFIX + name)
    if not text:
        return default
    value = int(text) if text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS else 0
    if value < 1 or (most is not None and value > most):
        bound = "of at least 1" if most is None else f"of 1 to {most}"
        raise ValueError(f"{PREFIX}{name} must be a whole number {bound}, not {text!r}")
    return value


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
