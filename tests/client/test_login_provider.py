"""Sign-in and refresh against a provider that misbehaves."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from client import contexts
from client.api import account
from client.auth import credential_store, sign_in
from client.auth.credential_store import Credential
from client.auth.oidc import DeviceCode
from client.connection import Connection, resolve
from client.errors import SESSION_ENDED, Exit, FrostError
from client.transport.blocking_client import BlockingClient
from tests.client.provider import Answer, Provider, tokens
from tests.homes import Home
from tests.waiting import at_once

IN_FILE = {"FROST_CREDENTIAL_STORE": "file"}
OLD = Credential("session", "ACCESS-1", "REFRESH-1", 0)


@pytest.fixture
def provider() -> Iterator[Provider]:
    running = Provider()
    with running:
        yield running


@pytest.fixture
def away(home: Home, provider: Provider) -> Connection:
    """A context at the provider's platform; without a session."""
    home.write_config(f"current_context: away\ncontexts:\n  away:\n    api_endpoint: {provider.url}/api\n")
    return connect(home)


def connect(home: Home) -> Connection:
    return resolve(home.environment(), path=str(home.config))


def signed_in(home: Home, session: Credential = OLD) -> Connection:
    credential_store.save_session(home.read_config(), "away", session, IN_FILE)
    return connect(home)


def stored(home: Home) -> Credential:
    connection = connect(home)
    return credential_store.load_session(connection.config, connection.context)


CHANGES = [
    *({"token_endpoint": f"{origin}/token"} for origin in ("https://evil.example", "http://evil.example", "file://")),
    *({"token_endpoint": url} for url in ("http://127.0.0.1:1/token", "http://localhost/issuer/token", "", ["x"])),
    *({f"{name}_endpoint": "https://evil.example/x"} for name in ("device_authorization", "authorization")),
    *({name: "https://evil.example"} for name in ("revocation_endpoint", "issuer")),
    {"issuer": None},
]


@pytest.mark.parametrize("change", CHANGES)
def test_a_discovery_document_that_leads_away_is_refused(
    away: Connection, provider: Provider, change: dict[str, object]
) -> None:
    provider.discovery.update(change)
    with pytest.raises(FrostError):
        sign_in.sign_in_device(away)
    assert provider.forms("/device") == provider.forms("/token") == []


def test_a_platform_without_a_usable_provider_is_refused(away: Connection, provider: Provider) -> None:
    for issuer in ("", None, "http://evil.example", 5):
        provider.cli_config = {"issuer": issuer, "clientId": "x"}
        with pytest.raises(FrostError):
            sign_in.sign_in_device(away)
    provider.cli_config = {"issuer": provider.url, "clientId": ""}
    with pytest.raises(FrostError, match="no client for command lines"):
        sign_in.sign_in_device(away)
    provider.cli_config = {"issuer": provider.url, "clientId": "frost-cli"}
    with pytest.raises(FrostError, match="--as") as caught:
        sign_in.sign_in_device(away, email="admin@aurora.example")
    assert caught.value.exit_code == Exit.USAGE
    with pytest.raises(FrostError) as caught:
        away.credential()
    assert (caught.value.exit_code, caught.value.hint) == (Exit.NOT_SIGNED_IN, "sign in: frost login")


def test_the_code_is_shown_and_the_polling_obeys(away: Connection, provider: Provider, home: Home) -> None:
    provider.token_answers = [
        (400, {"error": "authorization_pending"}),
        (400, {"error": "authorization_pending"}),
        (200, tokens("A")),
    ]
    shown: list[DeviceCode] = []
    sign_in.sign_in_device(away, on_code=shown.append)
    assert (shown[0].user_code, shown[0].verification_uri) == ("ABCD-EFGH", f"{provider.url}/page")
    assert [form["device_code"] for form in provider.forms("/token")] == ["DEVICE"] * 3
    assert provider.forms("/device")[0]["device"]
    assert stored(home).secret == "A"
    assert away.credential().secret == "A"


def test_slow_down_adds_five_seconds(away: Connection, provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    provider.token_answers = [(400, {"error": "slow_down"}), (400, {"error": "slow_down"}), (200, tokens())]
    waits: list[float | None] = []

    class Stop(threading.Event):
        """The fake is time: waits are recorded instead of waited."""

        def wait(self, timeout: float | None = None) -> bool:
            waits.append(timeout)
            return False

    sign_in.sign_in_device(away, cancelled=Stop())
    assert waits == [0.01, 5.01, 10.01]


def test_a_refused_or_expired_code_and_an_answer_without_a_token_end_the_sign_in(
    away: Connection, provider: Provider, home: Home
) -> None:
    for code, message in (("expired_token", "expired"), ("access_denied", "refused"), ("weird\x1b[0m", "refused")):
        provider.token_answers = [(400, {"error": code, "error_description": "ECHO"})]
        with pytest.raises(FrostError, match=message) as caught:
            sign_in.sign_in_device(away)
        assert "ECHO" not in caught.value.message
        assert "\x1b" not in caught.value.message
    for answer in ({}, {"access_token": ""}, {"access_token": "a b"}, {"access_token": "a\r\nX: y"}, [], b"<html>"):
        provider.token_answers = [(200, answer)]
        with pytest.raises(FrostError):
            sign_in.sign_in_device(away)
    provider.token_answers = [(400, {"error": "authorization_pending"})]
    provider.device["expires_in"] = 0.1
    with pytest.raises(FrostError, match="expired"):
        sign_in.sign_in_device(away)
    assert stored(home).kind == "none"


def test_waiting_can_be_cancelled(away: Connection, provider: Provider) -> None:
    provider.token_answers = [(400, {"error": "authorization_pending"})]
    provider.device["interval"] = 30
    stop = threading.Event()
    threading.Timer(0.2, stop.set).start()
    started = time.monotonic()
    with pytest.raises(FrostError) as caught:
        sign_in.sign_in_device(away, cancelled=stop)
    assert caught.value.exit_code == Exit.INTERRUPTED
    assert time.monotonic() - started < 20


def test_a_page_no_browser_should_be_sent_to_is_refused(away: Connection, provider: Provider) -> None:
    shown: list[DeviceCode] = []
    for page in ("javascript:alert(1)", "http://evil.example/", "file:///x", ""):
        provider.device["verification_uri"] = page
        with pytest.raises(FrostError):
            sign_in.sign_in_device(away, on_code=shown.append)
    assert shown == []


def accepts(access: str) -> Callable[[str, str], Answer]:
    """A platform that only takes this access token."""
    ok, no = (200, {"id": "me"}), (401, {"error": {"code": "AUTHENTICATION_REQUIRED", "message": "no"}})
    return lambda path, authorization: ok if authorization == f"Bearer {access}" else no


def test_a_401_is_refreshed_once_and_replayed(away: Connection, provider: Provider, home: Home) -> None:
    provider.api = accepts("ACCESS-2")
    assert BlockingClient(signed_in(home)).ask_json(account.me()) == {"id": "me"}
    form = provider.forms("/token")[0]
    # No scope: a provider refuses a scope that the person has not granted. RFC 6749, 6
    assert form == {"grant_type": "refresh_token", "refresh_token": "REFRESH-1", "client_id": "frost-cli"}
    assert stored(home).refresh_token == "REFRESH-2"
    # A session near its end is refreshed before it is used.
    provider.requests.clear()
    BlockingClient(signed_in(home, OLD._replace(expires_at=int(time.time()) + 30))).ask_json(account.me())
    assert [path for path, _ in provider.requests if path.startswith("/api/v1/me")] == ["/api/v1/me"]


def test_members_missing_in_a_refresh_answer_are_kept(away: Connection, provider: Provider, home: Home) -> None:
    provider.token_answers = [(200, {"access_token": "ACCESS-2"})]
    connection = signed_in(home, OLD._replace(expires_at=1234))
    fresh = connection.refresh(connection.credential())
    assert (fresh.secret, fresh.refresh_token, fresh.expires_at) == ("ACCESS-2", "REFRESH-1", 1234)


def test_an_error_of_the_provider_does_not_show_the_token(away: Connection, provider: Provider, home: Home) -> None:
    provider.token_answers = [(400, {"error": "REFRESH-1"})]
    connection = signed_in(home)
    with pytest.raises(FrostError, match="the identity provider refused") as caught:
        connection.refresh(connection.credential())
    assert "REFRESH-1" not in caught.value.message


def test_invalid_grant_ends_the_session_for_good(away: Connection, provider: Provider, home: Home) -> None:
    provider.api = accepts("never")
    provider.token_answers = [(400, {"error": "invalid_grant"})]
    with pytest.raises(FrostError) as caught:
        BlockingClient(signed_in(home)).ask_json(account.me())
    assert (caught.value.code, caught.value.exit_code) == (SESSION_ENDED, Exit.NOT_SIGNED_IN)
    assert "frost login" in caught.value.hint
    assert connect(home).context.session_ended
    assert "REFRESH-1" not in home.config.read_text()


@pytest.mark.parametrize(
    ("answers", "tries", "renewed"),
    [
        ([(503, {"error": "temporarily_unavailable"}), (200, tokens())], 2, True),
        ([(502, b"<html>"), (200, tokens())], 2, True),
        ([(0, b""), (200, tokens())], 2, True),
        ([(502, b""), (502, b"")], 2, False),
        ([(500, {"error": "server_error"}), (200, tokens())], 1, False),
        ([(426, {}), (200, tokens())], 1, False),
        ([(400, {"error": "invalid_request"}), (200, tokens())], 1, False),
    ],
)
def test_only_what_cannot_have_counted_is_tried_once_more(
    away: Connection, provider: Provider, home: Home, answers: list[tuple[int, object]], tries: int, renewed: bool
) -> None:
    provider.api = accepts("ACCESS-2")
    provider.token_answers = answers
    driver = BlockingClient(signed_in(home))
    if renewed:
        driver.ask_json(account.me())
    else:
        with pytest.raises(FrostError) as caught:
            driver.ask_json(account.me())
        assert caught.value.code == "AUTHENTICATION_REQUIRED"  # the person sees the 401
        assert stored(home).refresh_token == "REFRESH-1"
    assert len(provider.forms("/token")) == tries


def test_threads_that_meet_a_401_together_refresh_once(away: Connection, provider: Provider, home: Home) -> None:
    provider.api = accepts("ACCESS-2")
    provider.slow = 0.3
    connection = signed_in(home)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: BlockingClient(connection).ask_json(account.me()), range(8)))
    assert answers == [{"id": "me"}] * 8
    assert len(provider.forms("/token")) == 1


@pytest.mark.process
def test_processes_that_meet_a_401_together_refresh_once(away: Connection, provider: Provider, home: Home) -> None:
    provider.api = accepts("ACCESS-2")
    provider.slow = 1.0
    signed_in(home)
    assert at_once([lambda: home.json("account", "profile")["id"]] * 4) == ["me"] * 4
    assert len(provider.forms("/token")) == 1


@pytest.mark.parametrize(("expires", "secret", "requests"), [(2000, "THEIRS", 0), (999, "ACCESS-2", 1)])
def test_only_a_newer_pair_of_another_process_is_adopted(
    away: Connection, provider: Provider, home: Home, expires: int, secret: str, requests: int
) -> None:
    connection = signed_in(home, OLD._replace(expires_at=1000))
    used = connection.credential()
    signed_in(home, Credential("session", "THEIRS", "R9", expires))
    assert connection.refresh(used).secret == secret
    assert len(provider.forms("/token")) == requests


def test_without_an_expiry_the_pair_of_another_process_is_adopted_too(
    away: Connection, provider: Provider, home: Home
) -> None:
    """A provider that gives no `expires_in`: the pair in memory is used up; using it again would end the session."""
    provider.token_answers = [(200, {"access_token": "ACCESS-2", "refresh_token": "REFRESH-2"})]
    one, other = signed_in(home), connect(home)
    used = other.credential()
    one.refresh(one.credential())
    assert other.refresh(used).secret == "ACCESS-2"
    assert len(provider.forms("/token")) == 1


def test_a_pair_that_cannot_be_saved_is_used_all_the_same(
    away: Connection, provider: Provider, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is full: the fake is a write that fails as the kernel's would."""
    from client.config import file

    provider.api = accepts("ACCESS-2")
    connection = signed_in(home)

    def full(path: str, data: bytes) -> None:
        raise FrostError("no space left on device", code="CONFIG_NOT_WRITTEN")

    monkeypatch.setattr(file, "replace", full)
    assert BlockingClient(connection).ask_json(account.me()) == {"id": "me"}
    assert "could not be saved (no space left on device)" in connection.notices[0]
    assert BlockingClient(connection).ask_json(account.me()) == {"id": "me"}
    assert len(provider.forms("/token")) == 1
    connection.refresh(connection.credential())
    assert provider.forms("/token")[1]["refresh_token"] == "REFRESH-2"  # not the used one, which is still in the file


def test_sign_in_and_refresh_on_one_connection_do_not_deadlock(
    away: Connection, provider: Provider, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = signed_in(home)
    used = connection.credential()
    signing_in = threading.Event()
    keep = credential_store.save_session

    def slowly(*arguments: object) -> list[str]:
        signing_in.set()
        time.sleep(0.5)
        return keep(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(credential_store, "save_session", slowly)
    signer = threading.Thread(target=lambda: sign_in.sign_in_device(connection), daemon=True)
    signer.start()
    assert signing_in.wait(60)
    refresher = threading.Thread(target=lambda: connection.refresh(used), daemon=True)
    refresher.start()
    for thread in (signer, refresher):
        thread.join(10)
        assert not thread.is_alive()


def elsewhere(home: Home, session: Credential | None = None) -> None:
    """Give the context another endpoint, with a session there."""
    contexts.set_endpoint(home.read_config(), "away", "http://127.0.0.1:9/api")
    if session is not None:
        signed_in(home, session)


def test_an_endpoint_changed_during_a_sign_in_is_not_given_its_session(
    away: Connection, provider: Provider, home: Home
) -> None:
    with pytest.raises(FrostError) as caught:
        sign_in.sign_in_device(away, on_code=lambda code: elsewhere(home))
    assert (caught.value.code, caught.value.exit_code) == ("CONTEXT_CHANGED", Exit.CONFLICT)
    assert "ACCESS-2" not in home.config.read_text()


def test_an_endpoint_changed_during_a_refresh_keeps_its_own_session(
    away: Connection, provider: Provider, home: Home
) -> None:
    connection = signed_in(home)
    used = connection.credential()
    connection.provider()
    elsewhere(home)
    assert connection.refresh(used).secret == "ACCESS-2"
    assert "could not be saved (context away has another endpoint now" in connection.notices[0]
    assert "ACCESS-2" not in home.config.read_text()
    other = Credential("session", "ELSEWHERE", "R9", int(time.time()) + 9000)
    signed_in(home, other)
    assert connection.refresh(used).secret == "ACCESS-2"
    assert stored(home).secret == "ELSEWHERE"


def test_a_session_that_ends_does_not_end_the_one_of_another_endpoint(
    away: Connection, provider: Provider, home: Home
) -> None:
    connection = signed_in(home)
    used = connection.credential()
    elsewhere(home, Credential("session", "ELSEWHERE", "R9", 9))
    provider.token_answers = [(400, {"error": "invalid_grant"})]
    with pytest.raises(FrostError) as caught:
        connection.refresh(used)
    assert caught.value.code == SESSION_ENDED
    assert stored(home).secret == "ELSEWHERE"
    with pytest.raises(FrostError) as caught:
        connection.credential()
    assert caught.value.code == "CONTEXT_CHANGED"


def test_a_session_forgotten_during_a_refresh_is_not_restored(away: Connection, provider: Provider, home: Home) -> None:
    provider.api = accepts("ACCESS-2")
    connection = signed_in(home)
    connection.credential()
    credential_store.forget(home.read_config(), "away", ended=False)
    with pytest.raises(FrostError) as caught:
        BlockingClient(connection).ask_json(account.me())
    assert caught.value.exit_code == Exit.NOT_SIGNED_IN
    assert provider.forms("/token") == []
    assert stored(home).kind == "none"


def test_signing_out_ends_the_session_and_revokes_the_token(away: Connection, provider: Provider, home: Home) -> None:
    connection = signed_in(home)
    assert sign_in.sign_out(connection)
    assert "/api/v1/sessions/current/end" in [path for path, _ in provider.requests]
    assert provider.forms("/revoke")[0]["token"] == "REFRESH-1"
    assert connect(home).context.session_ended
    assert not sign_in.sign_out(connect(home))
    # The pair that ending the session renewed is revoked, not the one before.
    sign_in.sign_out(signed_in(home, OLD._replace(expires_at=int(time.time()) - 60)))
    assert [form["token"] for form in provider.forms("/revoke")][1:] == ["REFRESH-2"]


@pytest.mark.parametrize("body", [b"", b"OK", b"<html>", {}, []])
@pytest.mark.parametrize("status", [200, 204, 400, 503])
def test_the_status_of_a_revocation_counts_and_not_its_body(
    away: Connection, provider: Provider, home: Home, status: int, body: object
) -> None:
    """RFC 7009, 2.2: the body of a successful response is ignored."""
    provider.revocation = (status, b"" if status == 204 else body)
    connection = signed_in(home)
    assert sign_in.sign_out(connection)
    warned = any("could not revoke the session" in notice for notice in connection.notices)
    assert warned == (status >= 400)


@pytest.mark.slow
def test_signing_out_of_a_platform_that_is_down_forgets_all_the_same(
    away: Connection, provider: Provider, home: Home
) -> None:
    connection = signed_in(home)
    provider.answers = [None]
    assert sign_in.sign_out(connection)
    for text in ("could not end the session", "it is removed here", "stays valid there"):
        assert text in connection.notices[0]
    assert stored(home).kind == "none"
