"""Secrets in a real keyring: a Secret Service by gnome-keyring on a message bus of its own."""

import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from client.auth import credential_store, keyring_store
from client.auth.credential_store import Credential
from client.errors import Exit, FrostError
from tests.client.secret_service import SecretService, missing
from tests.homes import Home

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(bool(missing()), reason=f"not installed here: {missing()}"),
]
GIVEN_UP = 15.0
"""Three seconds are the limit; the default timeout of D-Bus is 25."""
SESSION = Credential("session", "ACCESS-SECRET", "REFRESH-SECRET", 1790000000)


@pytest.fixture
def bus(monkeypatch: pytest.MonkeyPatch) -> Iterator[SecretService]:
    """A message bus of this test; no keyring on it yet."""
    folder = Path(tempfile.mkdtemp(prefix="bus-"))
    running = SecretService(folder)
    monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", running.address)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.delenv("PYTHON_KEYRING_BACKEND", raising=False)
    yield running
    running.close()
    shutil.rmtree(folder)


@pytest.fixture
def keyring(bus: SecretService) -> SecretService:
    """The same with an unlocked keyring."""
    bus.start()
    return bus


def loaded(home: Home) -> Credential:
    config = home.read_config()
    return credential_store.load(config, config.contexts["local"])


def test_a_session_is_kept_in_the_keyring_and_only_its_place_in_the_file(home: Home, keyring: SecretService) -> None:
    assert credential_store.save_session(home.read_config(), "local", SESSION, {}) == []
    assert "SECRET" not in home.config.read_text()
    assert home.read_config().contexts["local"].credentials.kinds == ("session",)
    assert loaded(home) == SESSION._replace(source="keyring")
    # Another sign-in touches the file without a change.
    before = (home.config.read_text(), home.config.stat().st_mtime_ns)
    credential_store.save_session(home.read_config(), "local", SESSION._replace(secret="OTHER"), {})
    assert home.config.read_text() == before[0]
    assert home.config.stat().st_mtime_ns > before[1]
    # A rotated pair stays in the keyring.
    config = home.read_config()
    credential_store.replace_session(config, config.contexts["local"], Credential("session", "A2", "R2", 1790001800))
    assert loaded(home) == Credential("session", "A2", "R2", 1790001800, "keyring")
    assert home.config.read_text() == before[0]


def test_every_file_and_context_has_an_entry_of_its_own(home: Home, keyring: SecretService) -> None:
    credential_store.save_api_key(home.read_config(), "local", "KEY-1", {})
    credential_store.save_api_key(home.read_config(), "other", "KEY-2", {})
    config = home.read_config()
    assert keyring_store.read(f"{config.file_id}/local") == {"api_key": "KEY-1"}
    assert keyring_store.read(f"{config.file_id}/other") == {"api_key": "KEY-2"}


def test_key_and_session_live_together_and_leave_one_by_one(home: Home, keyring: SecretService) -> None:
    credential_store.save_session(home.read_config(), "local", SESSION, {})
    for _ in range(2):
        credential_store.save_api_key(home.read_config(), "local", "KEY", {})
    assert home.read_config().contexts["local"].credentials.kinds == ("api_key", "session")
    assert loaded(home).secret == "KEY"
    credential_store.forget(home.read_config(), "local", ended=True)
    config = home.read_config()
    assert keyring_store.read(credential_store.entry(config, "local")) == {"api_key": "KEY"}
    assert config.contexts["local"].credentials.kinds == ("api_key",)
    # The last secret takes its entry with it.
    credential_store.save_session(home.read_config(), "other", SESSION, {})
    credential_store.forget(home.read_config(), "other", ended=False)
    config = home.read_config()
    assert keyring_store.read(credential_store.entry(config, "other")) == {}
    assert config.contexts["other"].credentials.store == ""


def test_a_sign_in_moves_all_secrets_to_the_store_in_use(home: Home, keyring: SecretService) -> None:
    credential_store.save_api_key(home.read_config(), "local", "KEY-SECRET", {"FROST_CREDENTIAL_STORE": "file"})
    credential_store.save_session(home.read_config(), "local", SESSION, {})
    assert "SECRET" not in home.config.read_text()
    assert loaded(home) == Credential("api_key", "KEY-SECRET", source="keyring")
    credential_store.save_session(home.read_config(), "local", SESSION, {"FROST_CREDENTIAL_STORE": "file"})
    stored = home.read_config().contexts["local"].credentials
    assert (stored.store, stored.api_key, stored.access_token) == ("", "KEY-SECRET", "ACCESS-SECRET")
    assert keyring_store.read(credential_store.entry(home.read_config(), "local")) == {}


def test_a_bus_without_a_keyring_means_the_file_with_a_notice(home: Home, bus: SecretService) -> None:
    started = time.monotonic()
    notices = credential_store.save_session(home.read_config(), "local", SESSION, {})
    assert time.monotonic() - started < GIVEN_UP
    assert str(home.config) in notices[0]
    assert loaded(home).source == "file"


@pytest.mark.slow
@pytest.mark.parametrize("state", ["hanging", "locked"])
def test_a_keyring_that_does_not_answer_is_given_up_after_three_seconds(
    home: Home, keyring: SecretService, state: str
) -> None:
    credential_store.save_session(home.read_config(), "local", SESSION, {})
    if state == "hanging":
        keyring.hang()
    else:
        keyring.stop()
        keyring.start(unlocked=False)
    started = time.monotonic()
    with pytest.raises(FrostError, match="keyring") as caught:
        loaded(home)
    assert time.monotonic() - started < GIVEN_UP
    assert caught.value.exit_code == Exit.NOT_SIGNED_IN
    assert "FROST_CREDENTIAL_STORE" in caught.value.hint
    started = time.monotonic()
    notices = credential_store.save_api_key(home.read_config(), "other", "KEY", {})
    assert time.monotonic() - started < GIVEN_UP
    assert "keyring" in notices[0]


@pytest.mark.parametrize("backend", ["keyring.backends.null.Keyring", "keyring.backends.fail.Keyring"])
def test_a_backend_that_is_no_keyring_is_not_trusted(
    home: Home, keyring: SecretService, monkeypatch: pytest.MonkeyPatch, backend: str
) -> None:
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", backend)
    notice = f"PYTHON_KEYRING_BACKEND names {backend}, which is not trusted"
    assert notice in credential_store.save_session(home.read_config(), "local", SESSION, {})[0]
    assert loaded(home).source == "file"


def test_a_secret_that_the_keyring_loses_is_kept_in_the_file(
    home: Home, keyring: SecretService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fake is a keyring that forgets: it takes every secret and answers with another."""
    from keyring.backends import SecretService as backend

    monkeypatch.setattr(backend.Keyring, "get_password", lambda self, service, name: '{"api_key": "ANOTHER"}')
    assert "returned a different value" in credential_store.save_session(home.read_config(), "local", SESSION, {})[0]
    assert loaded(home) == SESSION._replace(source="file")


def test_a_malformed_secret_in_the_keyring_is_no_credential(home: Home, keyring: SecretService) -> None:
    import keyring as library

    credential_store.save_session(home.read_config(), "local", SESSION, {})
    for nonsense in ("not json", '["list"]', '{"access_token": 5, "expires_at": "soon"}'):
        library.set_password("frost", credential_store.entry(home.read_config(), "local"), nonsense)
        assert loaded(home).expires_at == 0
