"""Signing in to the real local platform, over its socket, with its own issuer."""

import time

import pytest

from client.api import account
from client.auth import credential_store, sign_in
from client.connection import Connection, resolve
from client.errors import SESSION_ENDED, Exit, FrostError
from client.transport.blocking_client import BlockingClient
from tests.homes import Home
from tests.waiting import at_once

pytestmark = pytest.mark.process


def connect(home: Home) -> Connection:
    return resolve(home.environment())


def who(connection: Connection) -> str:
    return str(BlockingClient(connection).ask_json(account.me())["email"])


def token_requests(home: Home) -> int:
    return (home.platform_dir / "platform.log").read_text().count("POST /issuer/token 200")


def expire(home: Home) -> None:
    """Make the stored access token expire now."""
    connection = connect(home)
    session = credential_store.load_session(connection.config, connection.context)
    credential_store.save_session(
        connection.config, "local", session._replace(expires_at=int(time.time())), home.environment()
    )


def test_the_first_use_signs_in_unasked_as_the_owner(demo: Home) -> None:
    with pytest.raises(FrostError):
        who(connect(demo).only_if_ready())  # as completion does
    assert demo.platform_pid() is None
    assert not demo.config.exists()
    connection = connect(demo)
    assert who(connection) == "owner@aurora.example"
    assert connection.credential().source == "file"
    assert who(connect(demo)) == "owner@aurora.example"
    # A platform that was killed is started again with the session.
    demo.kill_platform()
    assert who(connect(demo)) == "owner@aurora.example"
    assert token_requests(demo) == 1


def test_two_first_uses_at_once_make_one_session(demo: Home) -> None:
    for sessions in (1, 2):  # the second time, one process renews the token for all
        assert at_once([lambda: demo.json("whoami")["email"]] * 3) == ["owner@aurora.example"] * 3
        assert token_requests(demo) == sessions
        expire(demo)


def test_device_and_browser_sign_in_as_persons_of_the_seed(demo: Home) -> None:
    connection = connect(demo)
    sign_in.sign_in_device(connection, email="admin@aurora.example")
    assert who(connection) == "admin@aurora.example"
    sign_in.sign_in_browser(connection, email="member@aurora.example")
    assert who(connection) == "member@aurora.example"
    sign_in.sign_in_browser(connection)
    assert who(connect(demo)) == "owner@aurora.example"
    for way in (sign_in.sign_in_device, sign_in.sign_in_browser):
        with pytest.raises(FrostError) as caught:
            way(connect(demo), email="nobody@aurora.example")
        assert caught.value.exit_code == Exit.NOT_SIGNED_IN


def test_a_logout_ends_automatic_sign_in(demo: Home) -> None:
    connection = connect(demo)
    who(connection)
    secret = connection.credential().secret
    assert sign_in.sign_out(connection)
    assert demo.request("GET", "/api/v1/me", token=secret).status == 401
    for again in (connection, connect(demo)):
        with pytest.raises(FrostError) as caught:
            who(again)
        assert (caught.value.exit_code, caught.value.code) == (Exit.NOT_SIGNED_IN, SESSION_ENDED)
        assert "frost login" in caught.value.hint
    assert not sign_in.sign_out(connect(demo))
    sign_in.sign_in_device(connect(demo))
    assert who(connect(demo)) == "owner@aurora.example"


def test_a_stolen_refresh_token_ends_the_session_when_both_use_it(demo: Home) -> None:
    connection = connect(demo)
    who(connection)
    old = connection.credential()
    expire(demo)
    who(connect(demo))  # the rightful owner rotates
    thief = connect(demo)
    thief.set_credential(old._replace(expires_at=int(time.time()) + 10_000))  # nothing newer to adopt
    with pytest.raises(FrostError):
        thief.refresh(old)
    with pytest.raises(FrostError) as caught:
        who(connect(demo))
    assert caught.value.exit_code == Exit.NOT_SIGNED_IN
