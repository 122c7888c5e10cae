"""Settings of the platform: `OPTIONS` lists the flags of `python -m service` and the environment variables.

Only the standard library is imported here, because the settings are read before the framework is imported.
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
# Client and audience of an external issuer.
CLIENT_ID = "frost-cli"
AUDIENCE = "frost"
# Claims that may be assumed for the tokens of an external issuer (`service/authn/oidc_provider.py`).
ASSUMABLE_CLAIMS = ("email_verified", "auth_time")
MAX_NAME_LENGTH = 300
# Per session or workload identity.
DEFAULT_REQUESTS_PER_MINUTE, MAX_REQUESTS_PER_MINUTE = 3_000, 1_000_000
DEFAULT_OPERATION_TRIES, MAX_OPERATION_TRIES = 10, 1_000
MAX_DIGITS = 9
LOOPBACK = {("http", "127.0.0.1"), ("http", "::1")}


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of the HTTP server. An address is a client's IPv4 address or /64 prefix; the unix socket has none."""

    max_connections: int = 2_000
    max_connections_per_address: int = 256
    max_requests: int = 512
    """Running and waiting requests, without those whose body is still arriving."""
    max_requests_per_address: int = 256
    max_body_mebibytes: int = 64
    """Memory for the bodies of all unanswered requests."""
    max_body_mebibytes_per_address: int = 4
    body_seconds: float = 10.0
    """Time for a request body, in addition to its size divided by `body_bytes_per_second`."""
    body_bytes_per_second: int = 64 * 1024


@dataclass(frozen=True, slots=True)
class Settings:
    """The platform's settings with all defaults applied."""

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


class Option(NamedTuple):
    """A setting: an environment variable and, if it has a metavar, a flag, which takes precedence."""

    name: str
    """Without the prefix of the variable."""
    help: str
    metavar: str | None = None

    @property
    def variable(self) -> str:
        return PREFIX + self.name

    @property
    def flag(self) -> str:
        return "--" + self.name.lower().replace("_", "-")


OPTIONS = (
    Option("DATA_DIR", "folder of the database, keys, lock and log, mode 0700", "DIR"),
    Option("SOCKET", "unix socket to answer on; default DIR/api.sock", "PATH"),
    Option("LISTEN", "answer on TCP as well; port 0 takes a free one", "HOST:PORT"),
    Option("DATABASE", "sqlite:///… or postgresql://…; default sqlite:///DIR/platform.db", "URL"),
    Option("SECRET_FILE", "the secret that replicas on one database share; default DIR/secret.key", "PATH"),
    Option("ISSUER", "`local`, or the https issuer whose tokens are trusted; default local", "URL"),
    Option("CLIENT_ID", "the public client for sign-in at the issuer; default frost-cli", "ID"),
    Option("AUDIENCE", "the `aud` of the issuer's access tokens, a URL for RFC 8707; default frost", "NAME"),
    Option("ASSUME", "claims to assume for the issuer's tokens: email_verified, auth_time or both", "CLAIMS"),
    Option("PUBLIC_URL", "https address for clients; default: the address it listens on", "URL"),
    Option("WORLD", "seed of a new database: demo, empty or large; default demo, with --listen empty", "NAME"),
    Option("IDLE_MINUTES", "stop after N minutes without a request; 0 never; default 30, with --listen 0", "N"),
    Option("PROXIES", "comma-separated addresses of proxies whose X-Forwarded-For is trusted"),
    Option("REQUESTS_PER_MINUTE", "requests a minute of one session or workload identity; default 3000"),
    Option("REGION_TARGETS", "`refuse`: targets of new policies must not name a region; default accept"),
    Option("PROVISIONING_PACE", "minimum seconds of a provisioning step; default 0.6"),
    Option("APPLY_PACE", "minimum seconds between two batches of an apply of default tags; default 0"),
    Option("OPERATION_TRIES", "tries of an apply batch or a provisioning step until the job fails; default 10"),
    Option("TAG_PROPAGATION", "seconds until changed default tags reach new resources; default 0"),
    Option("LOG_LEVEL", "debug, info, warning or error; default info"),
    Option("LOG_MEGABYTES", "size at which platform.log is rotated; 0 never; default 8"),
    Option("METRICS", "HOST:PORT for Prometheus; default: on the unix socket only"),
    Option("DRAIN_SECONDS", "seconds between the stop signal, when it is no longer ready, and the stop; default 0"),
    Option("MAX_CONNECTIONS", "open connections, an eighth of them for the unix socket; default 2000"),
    Option("MAX_CONNECTIONS_PER_ADDRESS", "open connections of one client address; default 256"),
    Option("MAX_REQUESTS", "running and waiting requests, an eighth of them for the unix socket; default 512"),
    Option("MAX_REQUESTS_PER_ADDRESS", "the same of one client address; default 256"),
    Option("MAX_BODY_MEBIBYTES", "memory for request bodies, an eighth of it for the unix socket; default 64"),
    Option("MAX_BODY_MEBIBYTES_PER_ADDRESS", "the same of one client address; default 4"),
    Option("BODY_SECONDS", "seconds for a request body, plus its size at the next rate; default 10"),
    Option("BODY_BYTES_PER_SECOND", "the rate at which a large body must arrive; default 65536"),
)
_LABELS = {option.name: option.flag if option.metavar else option.variable for option in OPTIONS}


class Parser(argparse.ArgumentParser):
    """A parser that reports errors in one line, because users set flags through `frost platform serve`."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"frost platform: {message}\n")


def from_arguments(argv: Sequence[str], environ: Mapping[str, str]) -> Settings:
    """Read the settings from flags, then from the environment, then from the defaults.

    Raises:
        SystemExit: with status 2 and one line on stderr if a value is invalid.
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
    """Return the URL of a SQLite file. Characters that are special in a URL are escaped."""
    return f"sqlite:///{str(path).replace('%', '%25').replace('?', '%3F')}"


class _Values:
    """The texts of the options by name, and their conversions. All raise ValueError with the flag or variable."""

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

    def whole(self, name: str, default: int, max_value: int | None = None) -> int:
        """Convert a whole number of at least 1."""
        text = self._texts[name]
        if not text:
            return default
        value = int(text) if text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS else 0
        if value < 1 or (max_value is not None and value > max_value):
            bound = "of at least 1" if max_value is None else f"of 1 to {max_value}"
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
        """Convert a name at an external issuer."""
        text = self._texts[name]
        if text is None:
            return default
        if issuer == "local":
            raise ValueError(f"{_LABELS[name]} is about an outside issuer: give --issuer as well")
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
    )


def _limits(values: _Values) -> Limits:
    names = [limit.name for limit in fields(Limits) if values.text(limit.name.upper())]
    return Limits(**{name: values.whole(name.upper(), 1) for name in names})


def _is_issuer(text: str) -> bool:
    """Return whether a URL is https, or http on a loopback address. A host name could resolve elsewhere."""
    url = urlsplit(text)
    return bool(url.hostname) and (url.scheme == "https" or (url.scheme, url.hostname) in LOOPBACK)


def _public_url(text: str | None) -> str | None:
    """Return the address without a trailing slash."""
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
        raise ValueError("--assume is about an outside issuer: give --issuer as well")
    claims = frozenset(part.strip() for part in text.split(","))
    if not claims <= set(ASSUMABLE_CLAIMS):
        raise ValueError(f"--assume takes {' and '.join(ASSUMABLE_CLAIMS)} with a comma between, not {text!r}")
    return claims


def _proxies(text: str) -> frozenset[str]:
    try:
        return frozenset(str(ip_address(part.strip())) for part in text.split(",") if part.strip())
    except ValueError as error:
        raise ValueError(f"{PREFIX}PROXIES must be addresses with commas between: {error}") from None
