"""Changes of contexts, and refusals that leave the file unchanged."""

import os
import socket
from pathlib import Path

import pytest

from client import connection, contexts
from client.config.strict_yaml import MAX_BYTES
from client.errors import Exit, FrostError
from tests.homes import Home


def test_an_accepted_endpoint_is_stored_and_another_leaves_the_file_alone(home: Home) -> None:
    for endpoint in ("https://h.example:8443/api", "http://[::1]:1/api"):
        contexts.set_endpoint(home.read_config(), "local", endpoint)
        assert home.read_config().contexts["local"].api_endpoint == endpoint
    before = home.config.read_text()
    for endpoint in ("", "http://h.example/api", "unix:/etc/passwd", "https://h.example/\x1b[31m"):
        with pytest.raises(FrostError) as caught:
            contexts.set_endpoint(home.read_config(), "local", endpoint)
        assert caught.value.exit_code in (Exit.USAGE, Exit.REFUSED)
        assert "\x1b" not in caught.value.message
    assert home.config.read_text() == before


def test_a_socket_of_this_user_is_an_endpoint(home: Home) -> None:
    path = home.path / "s.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        contexts.set_endpoint(home.read_config(), "local", f"unix:{path}")
        assert home.read_config().contexts["local"].api_endpoint == f"unix:{path}"
        if os.geteuid() == 0:
            os.chown(path, 65534, 65534)
            with pytest.raises(FrostError, match="another user"):
                contexts.set_endpoint(home.read_config(), "local", f"unix:{path}")


def test_output_format_and_region_are_checked(home: Home) -> None:
    contexts.set_output_format(home.read_config(), "local", "json")
    assert (home.read_config().output_format, home.read_config().output_format_source) == ("json", "file")
    with pytest.raises(FrostError, match="table, json, yaml"):
        contexts.set_output_format(home.read_config(), "local", "wide")
    contexts.set_region(home.read_config(), "local", "no")
    assert home.read_config().contexts["local"].region == "no"
    contexts.set_region(home.read_config(), "local", "")
    assert home.read_config().contexts["local"].sources["region"] == "default"
    with pytest.raises(FrostError):
        contexts.set_region(home.read_config(), "local", "a\nb")


def test_contexts_are_added_and_chosen(home: Home) -> None:
    contexts.add(home.read_config(), "prod", "https://h.example/api")
    assert home.read_config().current_context == "local"
    contexts.choose(home.read_config(), "prod")
    assert home.read_config().current_context == "prod"
    with pytest.raises(FrostError, match="local, prod") as caught:
        contexts.choose(home.read_config(), "nope")
    assert caught.value.exit_code == Exit.NOT_FOUND
    assert home.read_config().current_context == "prod"
    # The only context of a flat file has no name there.
    home.write_config("region: r1\n")
    contexts.choose(home.read_config(), "default")
    assert home.config.read_text() == "region: r1\n"


def test_names_no_context_can_have(home: Home) -> None:
    for name in ("", " a", "a/b", "a\nb", "x" * 65):
        with pytest.raises(FrostError):
            contexts.add(home.read_config(), name, "https://h.example/api")
    assert not home.config.exists()


def test_credentials_are_never_sent_to_another_endpoint(home: Home) -> None:
    home.write_config(
        "contexts:\n  a:\n    api_endpoint: https://one.example/api\n    tenant: t1\n"
        "    credentials: {access_token: A, refresh_token: R, expires_at: 9, api_key: K}\n",
    )
    assert contexts.set_endpoint(home.read_config(), "a", "https://one.example:443/api/") == []
    notices = contexts.set_endpoint(home.read_config(), "a", "https://two.example/api")
    assert notices == ["the API key and session of context a for https://one.example/api are removed"]
    stored = home.read_config().contexts["a"].credentials
    assert (stored.access_token, stored.refresh_token, stored.api_key) == ("", "", "")
    assert contexts.set_endpoint(home.read_config(), "a", "https://three.example/api") == []


def test_an_endpoint_that_cannot_be_stored_keeps_the_credentials(home: Home) -> None:
    """The longer endpoint makes the file too large, but the file without its credentials would fit."""
    context = (
        "contexts:\n  a:\n    api_endpoint: https://one.example/api\n"
        "    credentials: {access_token: A, refresh_token: R, expires_at: 9, api_key: K}\n"
    )
    home.write_config(context + "#" * (MAX_BYTES - len(context) - 2) + "\n")
    before = home.config.read_bytes()
    with pytest.raises(FrostError, match="larger than"):
        contexts.set_endpoint(home.read_config(), "a", f"https://two.example/{'a' * 200}")
    assert home.config.read_bytes() == before


def test_init_keeps_the_file_that_was_there(home: Home) -> None:
    assert contexts.create(str(home.config), "unix:/s") is None
    first = home.read_config()
    assert (first.current_context, first.contexts["local"].api_endpoint) == ("local", "unix:/s")
    kept = contexts.create(str(home.config), "unix:/t")
    assert kept is not None
    assert first.file_id in Path(kept).read_text()
    assert Path(kept).stat().st_mode & 0o777 == 0o600
    assert home.read_config().file_id != first.file_id


TWO_CONTEXTS = """\
current_context: a  # mine
contexts:
  a:
    api_endpoint: https://one.example/api
  b:  # theirs
    api_endpoint: https://two.example/api
    api_key: K1
    credentials: {access_token: A, refresh_token: R, expires_at: 9, api_key: K2}
"""


def test_a_context_goes_with_its_credentials_and_nothing_else(home: Home) -> None:
    home.write_config(TWO_CONTEXTS)
    assert contexts.remove(home.read_config(), "b") == []
    text = home.config.read_text()
    assert list(home.read_config().contexts) == ["a"]
    assert "# mine" in text
    assert not any(secret in text for secret in ("K1", "K2", "access_token", "two.example"))


def test_the_current_context_stays_and_an_unknown_one_is_named(home: Home) -> None:
    home.write_config(TWO_CONTEXTS)
    before = home.config.read_bytes()
    for name, code in (("a", "CONTEXT_IN_USE"), ("nope", "CONTEXT_NOT_FOUND")):
        with pytest.raises(FrostError) as refused:
            contexts.remove(home.read_config(), name)
        assert refused.value.code == code
    assert home.config.read_bytes() == before


def test_a_dropped_endpoint_drops_its_credentials(home: Home) -> None:
    home.write_config(TWO_CONTEXTS)
    default = f"unix:{home.socket}"
    contexts.drop_endpoint(home.read_config(), "b", default)
    stored = home.read_config().contexts["b"]
    assert (stored.api_endpoint, stored.sources["api_endpoint"]) == (default, "default")
    assert stored.credentials.kinds == ()


def test_a_missing_file_is_refused_also_under_its_default_path(home: Home) -> None:
    home.config.unlink(missing_ok=True)
    with pytest.raises(FrostError) as refused:
        connection.resolve(home.environment(), path=str(home.config))
    assert refused.value.code == "CONFIG_MISSING"
    with pytest.raises(FrostError, match="not a regular file"):
        connection.resolve(home.environment(), path="")
    assert connection.resolve(home.environment()).config.exists is False
