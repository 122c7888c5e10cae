"""Settings, the clock and the forms of an instant."""

from dataclasses import fields
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from sqlalchemy.engine import make_url

from client.policy.instants import InvalidTime, parse_instant, parse_stored_timestamp
from service import validation
from service.clock import FixedClock, SystemClock, clock_from_environment, wire_time
from service.errors import ApiError
from service.settings import Limits, Retention, Settings, from_arguments


def settings(*arguments: str, **environ: str) -> Settings:
    return from_arguments(["--data-dir", "/data", *arguments], environ)


def test_the_defaults_of_a_platform_on_its_own_socket() -> None:
    assert settings() == Settings(
        data_dir=Path("/data"),
        socket=Path("/data/api.sock"),
        secret_file=Path("/data/secret.key"),
        listen=None,
        database_url="sqlite:////data/platform.db",
        issuer="local",
        world="demo",
        idle_minutes=30,
        provisioning_pace=0.6,
    )


def test_claims_are_assumed_of_an_outside_issuer_only() -> None:
    outside = ("--issuer", "https://id.example")
    assert settings(*outside).assumed == set()
    assert settings(*outside, "--assume", "auth_time, email_verified").assumed == {"auth_time", "email_verified"}
    assert settings(*outside, FROST_PLATFORM_ASSUME="email_verified").assumed == {"email_verified"}
    for wrong in ((*outside, "--assume", "email"), (*outside, "--assume", "auth_time,"), ("--assume", "auth_time")):
        with pytest.raises(SystemExit):
            settings(*wrong)


def test_a_listening_platform_starts_empty_and_never_stops_by_itself() -> None:
    served = settings("--listen", "0.0.0.0:8443")
    assert (served.listen, served.world, served.idle_minutes) == (("0.0.0.0", 8443), "empty", 0)
    assert settings("--listen", "[::1]:80").listen == ("::1", 80)


def test_a_flag_wins_over_its_variable_and_the_variable_over_the_default() -> None:
    assert settings(FROST_PLATFORM_WORLD="large").world == "large"
    assert settings("--world", "empty", FROST_PLATFORM_WORLD="large").world == "empty"
    assert settings(FROST_PLATFORM_WORLD="").world == "demo"
    for name, text, value in (
        ("idle_minutes", "1.5", 1.5),
        ("provisioning_pace", "0", 0),
        ("apply_pace", "0.5", 0.5),
        ("tag_propagation", "30", 30),
        ("requests_per_minute", "60", 60),
        ("operation_tries", "3", 3),
        ("log_megabytes", "0.5", 0.5),
    ):
        assert getattr(settings(**{f"FROST_PLATFORM_{name.upper()}": text}), name) == value
    assert settings(
        FROST_PLATFORM_OPERATION_RETENTION_DAYS="7",
        FROST_PLATFORM_SESSION_RETENTION_DAYS="1",
        FROST_PLATFORM_QUOTA_REQUEST_RETENTION_DAYS="0",
        FROST_PLATFORM_RETAINED_VERSIONS="5",
    ).retention == Retention(operation_days=7, session_days=1, quota_request_days=0, versions=5)
    assert settings(FROST_PLATFORM_PROXIES="10.0.0.1, 2001:DB8::1").proxies == {"10.0.0.1", "2001:db8::1"}
    assert from_arguments([], {"FROST_PLATFORM_DATA_DIR": "/elsewhere"}).data_dir == Path("/elsewhere")
    limits = settings(FROST_PLATFORM_MAX_CONNECTIONS="50", FROST_PLATFORM_BODY_SECONDS="3").limits
    assert (limits.max_connections, limits.body_seconds, limits.max_requests) == (50, 3, Limits().max_requests)


def test_an_invalid_variable_is_refused_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    for name, values in {
        "PROVISIONING_PACE": ("quick", "nan"),
        "APPLY_PACE": ("-1",),
        "LOG_MEGABYTES": ("much",),
        "TAG_PROPAGATION": ("soon", "86401"),
        "OPERATION_TRIES": ("0", "2.5", "1001", "-1"),
        "SESSION_RETENTION_DAYS": ("0.5",),
        "OPERATION_RETENTION_DAYS": ("36501",),
        "RETAINED_VERSIONS": ("-1",),
        "REQUESTS_PER_MINUTE": ("0", "1.5", "1000001"),
        "IDLE_MINUTES": ("inf", "-1"),
        "LISTEN": ("localhost:99999", ":80", "8080"),
        "ISSUER": ("ftp://idp.example",),
        "PROXIES": ("10.0.0.1, load-balancer",),
        "LOG_LEVEL": ("loud",),
        "METRICS": ("9090", "127.0.0.1:x"),
        "DRAIN_SECONDS": ("-1",),
        **{field.name.upper(): ("0", "-1", "many", "1.5", "9" * 30) for field in fields(Limits)},
    }.items():
        for value in values:
            with pytest.raises(SystemExit) as stopped:
                settings(**{f"FROST_PLATFORM_{name}": value})
            assert stopped.value.code == 2
            error = capsys.readouterr().err
            assert name in error or f"--{name.lower().replace('_', '-')}" in error, (name, value)


def test_invalid_urls_are_refused() -> None:
    for issuer in ("http://127.0.0.1.evil.example", "http://localhost/issuer", "ftp://x.example", "https://"):
        with pytest.raises(SystemExit):
            settings("--issuer", issuer)
    assert settings("--issuer", "http://127.0.0.1:9000").issuer == "http://127.0.0.1:9000"
    for host in ("frost.example", "http://frost.example", "https://"):
        with pytest.raises(SystemExit):
            settings("--public-url", host)
    for end in ("a/b", "a?b", "u@a", "a:x"):
        with pytest.raises(SystemExit):
            settings("--public-url", f"https://{end}")
    assert settings("--public-url", "https://frost.example:8443/").public_url == "https://frost.example:8443"
    assert settings(FROST_PLATFORM_PUBLIC_URL="https://frost.example").public_url == "https://frost.example"


def test_the_clock_can_be_fixed() -> None:
    clock = clock_from_environment({"FROST_CLOCK": "2026-03-01T12:00:00+02:00"})
    assert clock.now() == clock.now() == datetime(2026, 3, 1, 10, tzinfo=UTC)
    assert isinstance(clock, FixedClock)
    assert isinstance(clock_from_environment({}), SystemClock)
    assert SystemClock().now().utcoffset() == timedelta(0)
    for text in ("tomorrow", "2026-03-01T12:00:00", "2026-03-01"):
        with pytest.raises(ValueError, match="FROST_CLOCK"):
            clock_from_environment({"FROST_CLOCK": text})


def test_instants_on_the_wire() -> None:
    for instant, text in (
        (datetime(2026, 3, 1, 12, 0, 5, tzinfo=UTC), "2026-03-01T12:00:05Z"),
        (datetime(2026, 3, 1, 12, 0, 5, 250_999, tzinfo=UTC), "2026-03-01T12:00:05.250Z"),
        (datetime(2026, 3, 1, 12, 0, 5, 999, tzinfo=UTC), "2026-03-01T12:00:05Z"),
        (datetime(2026, 3, 1, 1, tzinfo=timezone(timedelta(hours=2))), "2026-02-28T23:00:00Z"),
    ):
        assert wire_time(instant) == text


def test_the_database_is_in_a_data_folder_of_any_name(tmp_path: Path) -> None:
    for name in ("a?b", "a%41", "a b#", "%3F"):
        settings = from_arguments(["--data-dir", str(tmp_path / name)], {})
        assert make_url(settings.database_url).database == str(tmp_path / name / "platform.db")


MORNING = datetime(2027, 1, 1, 10, tzinfo=UTC)
RFC_3339 = (
    "2027-01-01T10:00:00Z",
    "2027-01-01t10:00:00z",
    "2027-01-01T12:30:00.000+02:30",
    "2027-01-01T10:00:00-00:00",
)
OTHER_FORMS = (
    "",
    "tomorrow",
    "2027-01-01",
    "20270101",
    "20270101T100000Z",
    "2027-W01-1",
    "2027-W01-1T10:00:00Z",
    "2027-01-01 10:00:00Z",
    "2027-01-01T24:00:00Z",
    "2027-01-01T10:00Z",
    "2027-01-01T10:00:00+0200",
    "2027-01-01T10:00:00",
    "2027-01-01T10:00:00,5Z",
    "2027-01-01T10:00:00Z\n",
    "٢٠٢٧-01-01T10:00:00Z",
)


@pytest.mark.parametrize("text", RFC_3339)
def test_requests_and_documents_accept_rfc_3339(text: str) -> None:
    assert (parse_instant(text), parse_stored_timestamp(text)) == (MORNING, MORNING.timestamp())


@pytest.mark.parametrize(
    ("text", "limit", "in_document"),
    [
        *[(text, "is not an RFC 3339|does not exist", None) for text in OTHER_FORMS],
        ("2027-01-01T10:00:00.0000000009Z", "more than 9 digits", None),
        ("2027-02-30T10:00:00Z", "does not exist", None),
        ("2027-01-01T10:00:00+24:00", "within -23:59 and \\+23:59", None),
        ("2027-01-01T10:00:00+23:75", "within -23:59 and \\+23:59", None),
        ("2027-01-01T16:15:00+05:75", "within -23:59 and \\+23:59", MORNING),
        ("0001-01-01T00:00:00+05:00", "years 0001 and 9999", datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=5)))),
    ],
)
def test_a_time_beyond_a_limit_is_refused_with_the_limit(text: str, limit: str, in_document: datetime | None) -> None:
    with pytest.raises(InvalidTime, match=limit):
        parse_instant(text)
    with pytest.raises(ApiError, match=limit):
        validation.instant(text, "since")
    # Stored documents keep what earlier versions accepted.
    if in_document is None:
        with pytest.raises(InvalidTime, match=limit):
            parse_stored_timestamp(text)
    else:
        assert parse_stored_timestamp(text) == in_document.timestamp()


def test_a_fraction_is_never_rounded_up() -> None:
    assert parse_instant("2027-01-01T00:00:00.9999999Z") == datetime(2027, 1, 1, 0, 0, 0, 999_999, tzinfo=UTC)
