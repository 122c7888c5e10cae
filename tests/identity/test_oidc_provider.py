"""Signing in at npm oidc-provider, over real HTTP and its real pages. RFC 8252, 8628, 8707"""

from typing import Any
from urllib.error import HTTPError
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.identity.provider import AUDIENCE, OidcProvider, Person, Site, claims_of, past_this_second, posted
from tests.people import OWNER

pytestmark = pytest.mark.slow


def refreshed(site: Site, refresh_token: str) -> dict[str, Any]:
    form = {"grant_type": "refresh_token", "refresh_token": refresh_token}
    return posted(f"{site.issuer}/token", form | {"client_id": "frost-cli", "resource": AUDIENCE})


def test_login_in_the_browser_and_by_device_and_logout(site: Site) -> None:
    for words in (("--browser",), ("--device",)):
        person = Person("astrid")
        result = site.signs_in(person, *words)
        assert result.code == 0, result
        assert person.asked == ["login", "consent"]
        assert site.who() == OWNER
        token = site.credentials()["access_token"]
        assert (claims_of(token)["aud"], claims_of(token)["iss"]) == (AUDIENCE, site.issuer)
        result = site.home.frost("logout")
        assert (result.code, "could not revoke" in result.err) == (0, False)
        assert site.status_of(token) == 401
        assert site.home.frost("whoami").code == 3
    # The same browser again: a remembered user can sign in, and must sign in.
    person.asked.clear()
    for words in (("--browser",), ("--device",)):
        # By device they are asked again when the last time is more than a second ago (`max_age`), in whole seconds.
        past_this_second()
        past_this_second()
        assert site.signs_in(person, *words).code == 0
        assert "login" in person.asked
        person.asked.clear()


def test_the_authorization_request_is_what_the_standards_ask_for(site: Site) -> None:
    query = parse_qs(urlsplit(site.login("--browser").page()).query)
    assert query["code_challenge_method"] == ["S256"]
    assert query["resource"] == [AUDIENCE]
    assert query["prompt"] == ["login consent"]
    assert urlsplit(query["redirect_uri"][0]).hostname == "127.0.0.1"
    assert min(len(query[name][0]) for name in ("state", "nonce", "code_challenge")) >= 43


def test_refresh_tokens_rotate_and_a_second_use_ends_the_session(site: Site) -> None:
    assert site.signs_in(Person("astrid")).code == 0
    known = site.home.json("account", "session", "list")["items"]
    before = site.make_due()
    assert site.who() == OWNER
    after = site.credentials()
    assert after["refresh_token"] != before["refresh_token"]
    assert claims_of(after["access_token"])["auth_time"] == claims_of(before["access_token"])["auth_time"]
    assert site.home.json("account", "session", "list")["items"] == known, "a refreshed token is the same session"
    with pytest.raises(HTTPError):
        refreshed(site, before["refresh_token"])
    site.make_due()
    result = site.home.frost("whoami")
    assert result.code == 3
    assert "frost login" in result.err


def test_revoke_all_ends_every_sign_in_also_unseen_ones(site: Site, provider: OidcProvider) -> None:
    thief = site.takes_tokens(Person("astrid"))
    past_this_second()
    assert site.signs_in(Person("astrid")).code == 0
    mine = site.credentials()["access_token"]
    assert site.home.frost("account", "session", "revoke-all").code == 0
    assert site.status_of(mine) == 401
    for kept in (["email", "auth_time"], ["email", "auth_time", "sid"], ["email", "sid"], ["email"]):
        provider.tell(claims=kept)
        thief = refreshed(site, thief["refresh_token"])
        assert site.status_of(thief["access_token"]) == 401, kept
    provider.tell(claims=["email", "auth_time"])
    past_this_second()
    assert site.signs_in(Person("astrid")).code == 0
    assert site.who() == OWNER


def test_a_wrong_clock_at_the_client_neither_ends_nor_keeps_a_session(site: Site) -> None:
    """Its clock only decides when it refreshes; a fake clock, FROST_CLOCK."""
    for wrong in ("2020-01-01T00:00:00Z", "2039-01-01T00:00:00Z"):
        login = site.login("--browser", FROST_CLOCK=wrong)
        Person("astrid").answer_at(login.page())
        assert login.end().code == 0
        for clock in (wrong, "2031-01-01T00:00:00Z", "<unset>"):
            result = site.home.frost("whoami", env={"FROST_CLOCK": clock})
            assert result.code == 0, (wrong, clock, result)
