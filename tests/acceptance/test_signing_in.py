"""Sign-in, sign-out and credentials of a context."""

import json

import pytest

from tests.acceptance.people import DATA_LAKE, MEMBER, NEWSROOM, WEB_SHOP, listed
from tests.homes import Home


def test_logout_ends_the_session_on_the_platform_and_is_final(demo: Home) -> None:
    token = demo.sign_in()
    assert demo.request("GET", "/api/v1/me", token=token).status == 200
    for path in ("/api/v1/tenants/..%2Fme", f"/api/v1/tenants/{DATA_LAKE}/../{WEB_SHOP}", "/api//v1/me"):
        unclean = demo.request("GET", path, token=token)
        assert (unclean.status in (400, 404), set(unclean.json())) == (True, {"error"})
    assert demo.frost("logout").code == 0
    assert demo.request("GET", "/api/v1/me", token=token).status == 401
    result = demo.frost("tenant", "list", "--all")
    assert result.code == 3
    assert "frost login" in result.err
    assert token not in demo.config.read_text()
    assert demo.frost("login").code == 0
    assert listed(demo, "--all")


@pytest.mark.slow
def test_logout_without_the_platform_warns_of_the_open_session(demo: Home) -> None:
    demo.sign_in()
    # One that is not started on demand.
    text = demo.config.read_text()
    assert text.count("  local:\n") == 1
    demo.config.write_text(text.replace("  local:\n", "  local:\n    api_endpoint: http://127.0.0.1:9/api\n"))
    result = demo.frost("logout")
    assert result.code == 0
    assert "the platform could not end the session" in result.err
    assert "stays valid there until it expires" in result.err


def test_login_with_a_context_and_an_endpoint_makes_that_context(demo: Home) -> None:
    demo.start()
    result = demo.frost("login", "--context", "work", "--endpoint", f"unix:{demo.socket}", "--as", MEMBER)
    assert result.code == 0
    assert "(context work, now the current one)" in result.err + result.out
    again = demo.frost("login", "--context", "work", "--as", MEMBER)
    assert "(context work)" in again.err + again.out
    assert demo.json("whoami")["email"] == MEMBER
    names = [item["name"] for item in demo.json("config", "get-contexts")["items"]]
    assert names == ["local", "work"]


def test_a_key_in_the_config_is_bound_to_its_tenant(demo: Home) -> None:
    demo.start()
    secret = demo.world_key("tenant-reader")
    assert demo.frost("config", "set", "api_key", "-", stdin=secret).code == 0
    assert demo.json("tenant", "current")["id"] == WEB_SHOP
    result = demo.frost("--tenant", NEWSROOM, "tenant", "current")
    assert result.code == 4
    assert "key" in result.err
    record = demo.json("whoami")
    assert "api_key" in json.dumps(record)
    assert secret not in json.dumps(record)
