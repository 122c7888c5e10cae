"""Settings of the platform: the flags of `python -m service` and environment variables.

They are read before the framework is imported, so imports are limited to the standard library and the client's models.
"""

import argparse
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from ipaddress import ip_address
from pathlib import Path
from typing import Literal, NamedTuple, NoReturn
from urllib.parse import urlsplit

import client.models

VERSION = client.__version__
MEBIBYTE = 1024 * 1024
DAY_SECONDS = 86_400
PREFIX = "FROST_PLATFORM_"

RegionTargets = Literal["accept", "refuse"]
REGION_TARGETS: Mapping[str, RegionTargets] = {"accept": "accept", "refuse": "refuse"}
LOG_LEVELS = ("debug", "info", "warning", "error")
WORLDS = ("demo", "empty", "large")
# Defaults for an external issuer.
CLIENT_ID = "frost-cli"
AUDIENCE = "frost"
# Of an external issuer (`service/authn/oidc_provider.py`).
ASSUMABLE_CLAIMS = ("email_verified", "auth_time")
MAX_NAME_LENGTH = 300
# Per session or workload identity.
DEFAULT_REQUESTS_PER_MINUTE, MAX_REQUESTS_PER_MINUTE = 3_000, 1_000_000
DEFAULT_OPERATION_TRIES, MAX_OPERATION_TRIES = 10, 1_000
MAX_RETENTION_DAYS, MAX_RETAINED_VERSIONS = 36_500, 1_000_000
MAX_DIGITS = 9
LOOPBACK = {("http", "127.0.0.1"), ("http", "::1")}


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of the HTTP server. The unix socket has no address. An address is IPv4, or a /64 prefix of IPv6."""

    max_connections: int = 2_000
    max_connections_per_address: int = 256
    max_requests: int = 512
    """Running and waiting requests, without incomplete bodies."""
    max_requests_per_address: int = 256
    max_body_mebibytes: int = 64
    """Memory for the bodies of all unanswered requests."""
    max_body_mebibytes_per_address: int = 4
    max_waiting_reads: int = 256
    """Waiting requests. A credential has at most half of them; so for the next three."""
    max_waiting_writes: int = 128
    max_waiting_cpu_intensive: int = 128
    max_waiting_sign_ins: int = 64
    max_wait_seconds: float = 10.0
    max_event_streams: int = 200
    header_seconds: float = 10.0
    """Since the connection or the first byte of a later request."""
    header_bytes_per_second: int = 256
    """After a part of `header_seconds`."""
    body_seconds: float = 10.0
    """In addition to the size divided by `body_bytes_per_second`."""
    body_bytes_per_second: int = 64 * 1024


@dataclass(frozen=True, slots=True)
class Retention:
    """How long the platform keeps old rows (`service/retention.py`); 0 keeps them."""

    operation_days: int = 90
    """After the end of an operation."""
    session_days: int = 30
    """After a session has ended or expired."""
    quota_request_days: int = 365
    """After the decision on a quota request."""
    versions: int = 100
    """Versions of a policy, and of a tenant's default tags, including the current version."""


@dataclass(frozen=True, slots=True)
class Settings:
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
    retention: Retention = field(default_factory=Retention)
    accept_new_chain: str | None = None
    """Why the operator accepts an audit log that does not continue its mark."""


class Option(NamedTuple):
    """An environment variable and, if it has a metavar, a flag, which takes precedence."""

    name: str
    """Of the variable, without prefix."""
    help: str
    metavar: str | None = None

    @property
    def variable(self) -> str:
        return PREFIX + self.name

    @property
    def flag(self) -> str:
        return "--" + self.name.lower().replace("_", "-")


OPTIONS = (
    Option("DATA_DIR", "directory of the database, keys, lock and log (mode 0700)", "DIR"),
    Option("SOCKET", "unix socket to listen on; default DIR/api.sock", "PATH"),
    Option("LISTEN", "also listen on TCP; port 0 selects a free port", "HOST:PORT"),
    Option("DATABASE", "database, sqlite:///… or postgresql://…; default sqlite:///DIR/platform.db", "URL"),
    Option("SECRET_FILE", "secret that all replicas of a database share; default DIR/secret.key", "PATH"),
    Option("ISSUER", "`local`, or the https URL of a trusted OpenID Connect issuer; default local", "URL"),
    Option("CLIENT_ID", "public OAuth client for sign-in at the issuer; default frost-cli", "ID"),
    Option("AUDIENCE", "`aud` of the issuer's access tokens, a URL if it requires RFC 8707; default frost", "NAME"),
    Option("ASSUME", "claims to assume for the issuer's tokens: email_verified, auth_time or both", "CLAIMS"),
    Option("PUBLIC_URL", "https URL for clients; default: the listen address", "URL"),
    Option("WORLD", "seed of a new database: demo, empty or large; default demo, or empty with --listen", "NAME"),
    Option("ACCEPT_NEW_CHAIN", "start once on an audit log that was set back or replaced, and record why", "REASON"),
    Option("IDLE_MINUTES", "stop after N minutes without a request, 0 to disable; default 30, or 0 with --listen", "N"),
    Option("PROXIES", "comma-separated addresses of proxies with a trusted X-Forwarded-For header"),
    Option("REQUESTS_PER_MINUTE", "requests per minute of each session and workload identity; default 3000"),
    Option("REGION_TARGETS", "accept or refuse a region in the targets of new policies; default accept"),
    Option("PROVISIONING_PACE", "minimum seconds per provisioning step; default 0.6"),
    Option("APPLY_PACE", "minimum seconds between batches that apply default tags; default 0"),
    Option("OPERATION_TRIES", "attempts of an apply batch or provisioning step before the job fails; default 10"),
    Option("TAG_PROPAGATION", "seconds until changed default tags apply to new resources; default 0"),
    Option("LOG_LEVEL", "debug, info, warning or error; default info"),
    Option("LOG_MEGABYTES", "size in MiB at which platform.log is rotated, 0 to disable; default 8"),
    Option("METRICS", "HOST:PORT for Prometheus; default: only on the unix socket"),
    Option("DRAIN_SECONDS", "seconds between the stop signal and the stop, in which /readyz fails; default 0"),
    Option("MAX_CONNECTIONS", "open connections, an eighth reserved for the unix socket; default 2000"),
    Option("MAX_CONNECTIONS_PER_ADDRESS", "open connections per client address; default 256"),
    Option("MAX_REQUESTS", "running and waiting requests, an eighth reserved for the unix socket; default 512"),
    Option("MAX_REQUESTS_PER_ADDRESS", "running and waiting requests per client address; default 256"),
    Option("MAX_BODY_MEBIBYTES", "MiB for request bodies, an eighth reserved for the unix socket; default 64"),
    Option("MAX_BODY_MEBIBYTES_PER_ADDRESS", "MiB for request bodies per client address; default 4"),
    Option("MAX_WAITING_READS", "waiting reads, half of them per credential; default 256"),
    Option("MAX_WAITING_WRITES", "waiting changes, half of them per credential; default 128"),
    Option("MAX_WAITING_CPU_INTENSIVE", "waiting previews, simulations and searches, half per credential; default 128"),
    Option("MAX_WAITING_SIGN_INS", "waiting sign-ins, half of them per address; default 64"),
    Option("MAX_WAIT_SECONDS", "seconds until a waiting request is refused; default 10"),
    Option("MAX_EVENT_STREAMS", "open event streams; default 200"),
    Option("HEADER_SECONDS", "seconds for the head of a request; default 10"),
    Option("HEADER_BYTES_PER_SECOND", "minimum bytes per second of a head after 4 of 10 seconds; default 256"),
    Option("BODY_SECONDS", "seconds for a request body, plus its size divided by the next option; default 10"),
    Option("BODY_BYTES_PER_SECOND", "minimum bytes per second of a large request body; default 65536"),
    Option("OPERATION_RETENTION_DAYS", "days until an ended operation is removed, 0 to keep all; default 90"),
    Option("SESSION_RETENTION_DAYS", "days until an ended or expired session is removed, 0 to keep all; default 30"),
    Option("QUOTA_REQUEST_RETENTION_DAYS", "days until a decided quota request is removed, 0 to keep all; default 365"),
    Option("RETAINED_VERSIONS", "versions kept of a policy or of default tags, 0 to keep all; default 100"),
)
_LABELS = {option.name: option.flag if option.metavar else option.variable for option in OPTIONS}


class Parser(argparse.ArgumentParser):
    """Reports errors without the usage of `python -m service`, because users run `frost platform serve`."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"frost platform: {message}\n")


def from_arguments(argv: Sequence[str], environ: Mapping[str, str]) -> Settings:
    """Read the settings from flags, then environment variables, then defaults.

    Raises:
        SystemExit: status 2, with an error line on stderr, for an invalid value.
    """
    variables = "\n".join(f"  {option.variable}\n      {option.help}" for option in OPTIONS if not option.metavar)
    parser = Parser(
        prog="python -m service",
        description="The frost platform.",
        epilog=f"environment variables without a flag:\n{variables}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    for option in OPTIONS:
        if option.metavar:
            parser.add_argument(
                option.flag, dest=option.name, metavar=option.metavar, help=f"{option.help} ({option.variable})"
            )
    flags = vars(parser.parse_args(argv))
    values = {
        option.name: environ.get(option.variable) or None if flags.get(option.name) is None else flags[option.name]
        for option in OPTIONS
    }
    if values["DATA_DIR"] is None:
        parser.error("--data-dir is required")
    try:
        return _settings(_Values(values))
    except ValueError as error:
        parser.error(str(error))


def sqlite_url(path: Path) -> str:
    """Return the URL of a SQLite file, escaped."""
    return f"sqlite:///{str(path).replace('%', '%25').replace('?', '%3F')}"


class _Values:
    """Converts the texts of options. All conversions raise ValueError with the flag or variable."""

    def __init__(self, texts: Mapping[str, str | None]) -> None:
        self._texts = texts

    def text(self, name: str) -> str | None:
        return self._texts[name]

    def path(self, name: str, default: Path | str = "") -> Path:
        return Path(self._texts[name] or default).absolute()

    def choice(self, name: str, choices: Sequence[str], default: str) -> str:
        value = self._texts[name] or default
        if value not in choices:
            raise ValueError(f"{_LABELS[name]} must be one of {', '.join(choices)}, not {value!r}")
        return value

    def number(self, name: str, default: float, max_value: float = math.inf) -> float:
        text = self._texts[name]
        if not text:
            return default
        try:
            value = float(text)
        except ValueError:
            value = -1
        if not 0 <= value <= max_value or value == math.inf:
            bound = "at least 0" if max_value == math.inf else f"0 to {max_value:g}"
            raise ValueError(f"{_LABELS[name]} must be a number of {bound}, not {text!r}")
        return value

    def whole(self, name: str, default: int, max_value: int | None = None, *, min_value: int = 1) -> int:
        text = self._texts[name]
        if not text:
            return default
        value = int(text) if text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS else -1
        if value < min_value or (max_value is not None and value > max_value):
            bound = f"of at least {min_value}" if max_value is None else f"of {min_value} to {max_value}"
            raise ValueError(f"{_LABELS[name]} must be a whole number {bound}, not {text!r}")
        return value

    def address(self, name: str) -> tuple[str, int] | None:
        text = self._texts[name]
        if not text:
            return None
        host, _, port = text.rpartition(":")
        if not host or not (port.isascii() and port.isdigit()) or int(port) > 65535:
            raise ValueError(f"{_LABELS[name]} must be HOST:PORT, not {text!r}")
        return host.removeprefix("[").removesuffix("]"), int(port)

    def issuer_name(self, name: str, default: str, issuer: str) -> str:
        text = self._texts[name]
        if text is None:
            return default
        if issuer == "local":
            raise ValueError(f"{_LABELS[name]} is for an external issuer: also set --issuer")
        if len(text) > MAX_NAME_LENGTH or not (text.isascii() and text.isprintable()) or " " in text:
            raise ValueError(
                f"{_LABELS[name]} must be up to {MAX_NAME_LENGTH} plain characters without spaces, not {text!r}"
            )
        return text


def _settings(values: _Values) -> Settings:
    data_dir = values.path("DATA_DIR")
    listen = values.address("LISTEN")
    world = values.choice("WORLD", WORLDS, "empty" if listen else "demo")
    issuer = values.text("ISSUER") or "local"
    if issuer != "local" and not _is_issuer(issuer):
        raise ValueError(f"--issuer must be `local` or an https URL, not {issuer!r}")
    log_level = values.choice("LOG_LEVEL", LOG_LEVELS, "info")
    regions: RegionTargets | None = REGION_TARGETS.get(values.text("REGION_TARGETS") or "accept")
    if regions is None:
        raise ValueError(f"{PREFIX}REGION_TARGETS must be {' or '.join(REGION_TARGETS)}")
    return Settings(
        data_dir=data_dir,
        socket=values.path("SOCKET", data_dir / "api.sock"),
        secret_file=values.path("SECRET_FILE", data_dir / "secret.key"),
        listen=listen,
        database_url=values.text("DATABASE") or sqlite_url(data_dir / "platform.db"),
        issuer=issuer,
        world=world,
        idle_minutes=values.number("IDLE_MINUTES", 0 if listen else 30),
        provisioning_pace=values.number("PROVISIONING_PACE", 0.6),
        apply_pace=values.number("APPLY_PACE", 0),
        operation_tries=values.whole("OPERATION_TRIES", DEFAULT_OPERATION_TRIES, MAX_OPERATION_TRIES),
        tag_propagation=values.number("TAG_PROPAGATION", 0, DAY_SECONDS),
        region_targets=regions,
        proxies=_proxies(values.text("PROXIES") or ""),
        log_level=log_level,
        log_megabytes=values.number("LOG_MEGABYTES", 8, 1_000_000),
        metrics=values.address("METRICS"),
        drain_seconds=values.number("DRAIN_SECONDS", 0, DAY_SECONDS),
        client_id=values.issuer_name("CLIENT_ID", CLIENT_ID, issuer),
        audience=values.issuer_name("AUDIENCE", AUDIENCE, issuer),
        assumed=_assumed_claims(values.text("ASSUME"), issuer),
        requests_per_minute=values.whole("REQUESTS_PER_MINUTE", DEFAULT_REQUESTS_PER_MINUTE, MAX_REQUESTS_PER_MINUTE),
        public_url=_public_url(values.text("PUBLIC_URL")),
        limits=_limits(values),
        retention=_retention(values),
        accept_new_chain=_reason(values.text("ACCEPT_NEW_CHAIN")),
    )


def _limits(values: _Values) -> Limits:
    names = [limit.name for limit in fields(Limits) if values.text(limit.name.upper())]
    return Limits(**{name: values.whole(name.upper(), 1) for name in names})


def _retention(values: _Values) -> Retention:
    default = Retention()

    def days(name: str, days: int) -> int:
        return values.whole(f"{name}_RETENTION_DAYS", days, MAX_RETENTION_DAYS, min_value=0)

    return Retention(
        operation_days=days("OPERATION", default.operation_days),
        session_days=days("SESSION", default.session_days),
        quota_request_days=days("QUOTA_REQUEST", default.quota_request_days),
        versions=values.whole("RETAINED_VERSIONS", default.versions, MAX_RETAINED_VERSIONS, min_value=0),
    )


def _is_issuer(text: str) -> bool:
    """Return whether a URL is https, or http on a loopback address (`localhost` may resolve to another host)."""
    url = urlsplit(text)
    return bool(url.hostname) and (url.scheme == "https" or (url.scheme, url.hostname) in LOOPBACK)


def _public_url(text: str | None) -> str | None:
    if not text:
        return None
    try:
        url = urlsplit(text)
        has_valid_port = url.port is None or url.port > 0
    except ValueError:
        has_valid_port = False
    is_plain = text.isascii() and text.isprintable() and not set(text) & set(' \\"<>?#@')
    if not has_valid_port or not is_plain or not _is_issuer(text) or url.path not in ("", "/"):
        raise ValueError(f"--public-url must be https://HOST or https://HOST:PORT, not {text!r}")
    return text.removesuffix("/")


def _assumed_claims(text: str | None, issuer: str) -> frozenset[str]:
    if text is None:
        return frozenset()
    if issuer == "local":
        raise ValueError("--assume is for an external issuer: also set --issuer")
    claims = frozenset(part.strip() for part in text.split(","))
    if not claims <= set(ASSUMABLE_CLAIMS):
        raise ValueError(f"--assume takes {' and '.join(ASSUMABLE_CLAIMS)} separated by commas, not {text!r}")
    return claims


def _reason(text: str | None) -> str | None:
    if text is not None and (not text.strip() or len(text) > MAX_NAME_LENGTH or not text.isprintable()):
        raise ValueError(f"--accept-new-chain must be a reason of up to {MAX_NAME_LENGTH} characters on one line")
    return text


def _proxies(text: str) -> frozenset[str]:
    try:
        return frozenset(str(ip_address(part.strip())) for part in text.split(",") if part.strip())
    except ValueError as error:
        raise ValueError(f"{PREFIX}PROXIES must be addresses separated by commas: {error}") from None
