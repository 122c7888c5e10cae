"""Sign-in at canaille by code with PKCE. Its access tokens lack claims that oidc-provider's have."""

from urllib.error import HTTPError
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.identity.canaille_person import Canaille, CanaillePerson
from tests.identity.provider import Site, claims_of, past_this_second, site_of
from tests.people import OWNER

pytestmark = pytest.mark.slow


def test_login_one_silent_refresh_and_logout(canaille_site: Site, canaille: Canaille) -> None:
    person = CanaillePerson("astrid")
    result = canaille.signs_in(canaille_site, person)
    assert result.code == 0, (result, canaille_site.log)
    assert person.asked == ["login", "password"]
    assert canaille_site.who() == OWNER
    before = canaille_site.make_due()
    assert claims_of(before["access_token"])["aud"] == ["frost-cli"]
    past_this_second()
    assert canaille_site.who() == OWNER
    after = canaille_site.credentials()
    assert after["access_token"] != before["access_token"]
    assert after["refresh_token"] != before["refresh_token"]
    with pytest.raises(HTTPError):
        canaille.refreshed(before["refresh_token"])
    result = canaille_site.home.frost("logout")
    assert result.code == 0
    assert "the identity provider could not revoke the session" in result.err
    assert canaille_site.status_of(after["access_token"]) == 401
    assert canaille_site.home.frost("whoami").code == 3
    # The same browser again: canaille remembers it, and asks for the password all the same.
    person.asked.clear()
    past_this_second()
    assert canaille.signs_in(canaille_site, person).code == 0
    assert person.asked == ["password"]


def test_the_request_has_only_what_the_provider_supports(canaille_site: Site, canaille: Canaille) -> None:
    login = canaille_site.login("--browser", FROST_LOGIN_PORT=canaille.port)
    query = parse_qs(urlsplit(login.page()).query)
    assert query["scope"] == ["openid profile email"]
    assert query["prompt"] == ["login"]
    assert query["code_challenge_method"] == ["S256"]
    assert query["redirect_uri"] == [f"http://127.0.0.1:{canaille.port}/callback"]


def test_without_device_codes_the_other_way_is_named(canaille_site: Site) -> None:
    result = canaille_site.login("--device").end()
    assert result.code != 0
    assert "the identity provider has no device codes" in result.err
    assert "frost login --browser" in result.err


def test_missing_claims_are_not_assumed(canaille: Canaille) -> None:
    words = ("--audience", "frost-cli", "--assume", "email_verified")
    with site_of(canaille.issuer, *words) as site, site.new_home():
        result = canaille.signs_in(site, CanaillePerson("astrid"))
        assert result.code == 3
        assert f"{canaille.issuer} has signed you in, but this platform rejects the session" in result.err
        assert "it is not an at+jwt, so its auth_time may be its own" in site.log
        assert not site.home.config.is_file() or "work" not in site.home.config.read_text()
