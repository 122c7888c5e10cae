"""The messages and exit codes of refusals and outages of the provider."""

import pytest

from tests.homes import Result
from tests.identity.provider import OidcProvider, Person, Site, site_of

pytestmark = pytest.mark.slow


def last_line(result: Result) -> str:
    """Return the last line of standard error, which must be the only one about the failure."""
    lines = result.err.strip().splitlines()
    assert "Traceback" not in result.err
    assert len(lines) <= 2, result.err
    return lines[-1]


@pytest.mark.parametrize("words", ["--browser", "--device"])
def test_consent_denied_is_exit_3(site: Site, words: str) -> None:
    login = site.login(words)
    person = Person("astrid")
    if words == "--device":
        person.enter_code(*login.code(), consents=False)
    else:
        person.answer(person.browser.open(login.page()), consents=False)
    result = login.end()
    assert result.code == 3
    assert last_line(result).startswith(
        "frost: the sign-in was refused at the identity provider. Try again: frost login"
    )
    assert "work" not in (site.home.config.read_text() if site.home.config.is_file() else "")


def test_an_unknown_client_is_reported(own_site: Site, second_provider: OidcProvider) -> None:
    second_provider.tell(refuses="frost-cli")
    result = own_site.login("--device").end()
    assert (result.code, "the identity provider does not know this client" in last_line(result)) == (3, True)


def test_an_unknown_resource_is_reported(provider: OidcProvider) -> None:
    with site_of(provider.issuer, "--audience", "https://unknown.example") as site, site.new_home():
        for words in ("--browser", "--device"):
            login = site.login(words)
            if words == "--browser":
                assert "The sign-in was refused." in Person("astrid").answer_at(login.page()).text
            result = login.end()
            assert (result.code, "issues no tokens for this platform" in last_line(result)) == (3, True)


def test_a_provider_that_is_down_is_exit_7_whenever_it_goes(own_site: Site, second_provider: OidcProvider) -> None:
    assert own_site.signs_in(Person("astrid")).code == 0
    second_provider.tell(code=8)
    device, browser = own_site.login("--device"), own_site.login("--browser")
    device.code()
    page = browser.page()
    second_provider.close()
    result = device.end()
    assert (result.code, second_provider.issuer in last_line(result)) == (7, True)
    result = own_site.login("--device").end()
    assert (result.code, second_provider.issuer in last_line(result)) == (7, True)
    # An earlier session continues: the platform has the keys.
    assert own_site.home.frost("whoami").code == 0
    # The browser returns with a code that no provider can exchange.
    own_site.come_back(page, code="from-an-earlier-life")
    result = browser.end()
    assert (result.code, second_provider.issuer in last_line(result)) == (7, True)
