"""Where secrets are kept when no keyring is involved, and which of them is used."""

import pytest
import yaml

from client.auth import credential_store
from client.auth.credential_store import Credential
from client.contexts import not_stored, store_api_key
from client.errors import Exit, FrostError
from tests.homes import Home

IN_FILE = {"FROST_CREDENTIAL_STORE": "file"}
SESSION = Credential("session", "ACCESS", "REFRESH", 1790000000)


def loaded(home: Home, name: str = "local") -> Credential:
    config = home.read_config()
    return credential_store.load(config, config.contexts[name])


@pytest.fixture
def no_keyring(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session without a bus, as over ssh or in a container."""
    monkeypatch.delenv("DBUS_SESSION_BUS_ADDRESS", raising=False)


def test_an_api_key_goes_before_a_session_and_contexts_share_none(home: Home) -> None:
    both = "{api_key: K, access_token: A, refresh_token: R}"
    home.write_config(f"credentials: {{api_key: TOP}}\ncontexts: {{a: {{credentials: {both}}}, b: {{}}}}\n")
    assert loaded(home, "a") == Credential("api_key", "K", source="file")
    config = home.read_config()
    assert credential_store.load_session(config, config.contexts["a"]).secret == "A"
    assert loaded(home, "b").kind == "none"
    credential_store.forget(home.read_config(), "a", ended=True)
    assert loaded(home, "a").secret == "K"


def test_a_key_directly_below_the_context_is_read_and_replaced(home: Home) -> None:
    home.write_config("contexts:\n  a:\n    api_key: OLD\n")
    assert loaded(home, "a").secret == "OLD"
    credential_store.save_api_key(home.read_config(), "a", "NEW", IN_FILE)
    assert loaded(home, "a").secret == "NEW"
    assert "OLD" not in home.config.read_text()


def test_a_key_is_stored_in_the_contexts_that_did_not_change(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(credential_store.VARIABLE, "file")
    contexts = "contexts: {{a: {{}}, b: {{api_endpoint: 'https://{}.example'}}, c: {{}}}}\n"
    home.write_config(contexts.format("one"))
    config = home.read_config()
    home.write_config(contexts.format("two"))
    stored = store_api_key(config, ("a", "b", "c"), "K")
    assert (stored.contexts, list(stored.errors)) == (["a", "c"], ["b"])
    assert (stored.errors["b"].code, stored.errors["b"].exit_code) == ("CONTEXT_CHANGED", Exit.CONFLICT)
    assert "another endpoint" in stored.errors["b"].message
    assert [loaded(home, name).secret for name in "abc"] == ["K", "", "K"]
    error = not_stored(stored)
    assert error.message.startswith("the new key could not be stored in context b: ")
    assert error.message.endswith("; stored in a and c")
    assert error.hint == "check it: frost config get-contexts; the old key is still valid"


def test_a_session_is_kept_and_forgotten(home: Home) -> None:
    assert credential_store.save_session(home.read_config(), "local", SESSION, IN_FILE) == []
    assert loaded(home) == SESSION._replace(source="file")
    assert home.config.stat().st_mode & 0o777 == 0o600
    credential_store.forget(home.read_config(), "local", ended=True)
    assert loaded(home).kind == "none"
    assert home.read_config().contexts["local"].session_ended
    assert "REFRESH" not in home.config.read_text()
    credential_store.save_session(home.read_config(), "local", SESSION, IN_FILE)
    assert not home.read_config().contexts["local"].session_ended


def test_without_a_keyring_the_file_is_used_with_a_notice(home: Home, no_keyring: None) -> None:
    notices = credential_store.save_api_key(home.read_config(), "local", "K", {})
    assert str(home.config) in notices[0]
    assert credential_store.save_session(home.read_config(), "local", SESSION, {}) == []  # the place is known by now
    assert loaded(home) == Credential("api_key", "K", source="file")


def test_a_missing_or_unknown_store_is_refused(home: Home, no_keyring: None) -> None:
    for store, message, code in (("keyring", "keyring", Exit.NOT_SIGNED_IN), ("vault", "keyring or file", Exit.USAGE)):
        with pytest.raises(FrostError, match=message) as caught:
            credential_store.save_api_key(home.read_config(), "local", "K", {"FROST_CREDENTIAL_STORE": store})
        assert caught.value.exit_code == code
    assert not home.config.exists()
    home.write_config("file_id: x\ncontexts: {a: {credentials: {store: keyring, holds: [session]}}}\n")
    with pytest.raises(FrostError, match="keyring") as caught:
        loaded(home, "a")
    assert (caught.value.code, caught.value.exit_code) == ("KEYRING_UNAVAILABLE", Exit.NOT_SIGNED_IN)
    # A key in the file is used without the keyring.
    home.write_config("contexts: {a: {credentials: {store: keyring, holds: [session], api_key: K}}}\n")
    assert loaded(home, "a").secret == "K"


def test_a_rotated_pair_replaces_the_old_one_and_no_ended_session(home: Home) -> None:
    credential_store.save_session(home.read_config(), "local", SESSION, IN_FILE)
    config = home.read_config()
    credential_store.replace_session(config, config.contexts["local"], Credential("session", "A2", "R2", 1790001800))
    assert loaded(home) == Credential("session", "A2", "R2", 1790001800, "file")
    before = home.read_config()
    credential_store.forget(before, "local", ended=True)
    with pytest.raises(FrostError, match="another process has signed out"):
        credential_store.replace_session(before, before.contexts["local"], SESSION)
    assert loaded(home).kind == "none"
    assert not [secret for secret in ("ACCESS", "REFRESH") if secret in f"{SESSION!r} {SESSION}"]


def test_a_session_that_the_terraform_provider_renewed_is_read(home: Home) -> None:
    """It writes the members it knows and no others: not the file's id, no comments."""
    home.write_config(
        "file_id: abcdef0123456789\ncurrent_context: work\ncontexts: {work: {tenant: web-shop}}  # mine\n"
    )
    credential_store.save_session(home.read_config(), "work", SESSION, IN_FILE)
    stored = yaml.safe_load(home.config.read_text())
    context = stored["contexts"]["work"]
    assert context["credentials"] == {"access_token": "ACCESS", "refresh_token": "REFRESH", "expires_at": 1790000000}
    renewed = {"access_token": "LATER", "refresh_token": "NEXT", "expires_at": 1790001800}
    written = {
        "credentials": renewed,
        "current_context": stored["current_context"],
        "contexts": {"work": {"tenant": context["tenant"], "credentials": renewed}},
    }
    home.write_config(yaml.safe_dump(written, sort_keys=False))
    assert loaded(home, "work") == Credential("session", "LATER", "NEXT", 1790001800, source="file")
    assert home.read_config().contexts["work"].tenant == "web-shop"
    credential_store.save_session(home.read_config(), "work", SESSION, IN_FILE)
    assert loaded(home, "work") == SESSION._replace(source="file")
