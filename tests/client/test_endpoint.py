"""Endpoints: accepted forms, and refused targets for credentials."""

import ssl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.errors import Exit, FrostError
from client.transport.endpoint import Endpoint, authorities, issuer_route
from client.transport.proxy import is_excepted, proxy_for

LOCAL = Endpoint.parse("unix:/home/me/.cli/platform/api.sock")
REMOTE = Endpoint.parse("https://api.frost.example/api")
LOOPBACK = Endpoint.parse("http://127.0.0.1:8080")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("unix:/run/x/api.sock", Endpoint("unix", "localhost", 0, "/api", "/run/x/api.sock")),
        ("https://api.frost.example", Endpoint("https", "api.frost.example", 443, "/api")),
        ("https://api.frost.example/", Endpoint("https", "api.frost.example", 443, "/api")),
        ("HTTPS://API.frost.example:8443/portal/api/", Endpoint("https", "api.frost.example", 8443, "/portal/api")),
        ("http://localhost:8080/api", Endpoint("http", "localhost", 8080, "/api")),
        ("http://127.0.0.1", Endpoint("http", "127.0.0.1", 80, "/api")),
        ("http://127.8.8.8", Endpoint("http", "127.8.8.8", 80, "/api")),
        ("http://[::1]:8080", Endpoint("http", "::1", 8080, "/api")),
        ("https://10.0.0.5", Endpoint("https", "10.0.0.5", 443, "/api")),
    ],
)
def test_an_endpoint_is_read(text: str, expected: Endpoint) -> None:
    assert Endpoint.parse(text) == expected
    assert Endpoint.parse(str(expected)) == expected


REFUSED = [
    "api.frost.example", "http://api.frost.example", "http://10.0.0.5", "http://localhost.evil.example",
    "http://127.0.0.1.evil.example", "http://localhost@evil.example", "https://me:secret@api.frost.example",
    "https://me@api.frost.example", "https://api.frost.example/#fragment", "https://api.frost.example/api#",
    "https://api.frost.example/api?x=1", "https://api.frost.example/api?", "https://api.frost.example/a/../b",
    "https://api.frost.example/%2e%2e/b", "https://api.frost.example//x", "https://api.frost.example:0",
    "https://api.frost.example:", "https://api.frost.example:99999", "https://api.frost.example:x", "https://",
    "https:///api", "https://[::1", "https://[fe80::1]", "https://[fe80::1%25eth0]", "https://169.254.169.254",
    "https://169.254.0.1:8443/api", "https://[::ffff:169.254.169.254]", "https://0xa9fea9fe", "https://2852039166",
    "https://0251.0376.0251.0376", "https://169.16689662", "https://[fd00:ec2::254]",
    "https://metadata.google.internal", "https://metadata.google.internal.", "https://0.0.0.0",
    "https://api..frost.example", "file:///etc/passwd", "ftp://api.frost.example", "javascript:alert(1)",
    "unix:relative.sock", "unix:", "unix:/a/../b.sock",
]  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        *REFUSED,
        "",
        "https://api.frost.example\\@evil.example",
        "https://api frost.example",
        "https://api.frost.example\n",
        "https://аpi.frost.example",
        "unix:/a\nb",
        "unix:/" + "a" * 107,
    ],
)
def test_an_endpoint_is_refused_in_one_safe_line_without_its_password(text: str) -> None:
    with pytest.raises(FrostError) as caught:
        Endpoint.parse(text)
    assert caught.value.exit_code == Exit.USAGE
    assert caught.value.message.startswith("api_endpoint refused: ")
    assert caught.value.message.isprintable()
    assert "secret" not in caught.value.message + caught.value.hint


@given(st.text(max_size=60))
def test_any_text_gives_a_trusted_endpoint_or_a_refusal(text: str) -> None:
    for given_text in (text, f"https://{text}", f"http://{text}", f"unix:/{text}"):
        try:
            endpoint = Endpoint.parse(given_text)
        except FrostError:
            continue
        assert endpoint.trusted
        assert Endpoint.parse(str(endpoint)) == endpoint


def test_an_issuer_is_on_the_socket_on_https_or_on_loopback_for_a_loopback_endpoint() -> None:
    for url in ("/issuer/token", "/issuer/device?user_code=A-B"):
        assert issuer_route(f"http://localhost{url}", LOCAL) == (LOCAL, url)
    route, target = issuer_route("https://login.example:8443/oauth/v2/token", REMOTE)
    assert (route.kind, route.host, route.port, target) == ("https", "login.example", 8443, "/oauth/v2/token")
    assert issuer_route("https://login.example", LOCAL)[1] == "/"
    assert issuer_route("http://127.0.0.1:9/token", LOOPBACK)[0].port == 9
    for url, endpoint in (("http://127.0.0.1:9/token", REMOTE), ("http://localhost:8080/issuer", LOCAL)):
        with pytest.raises(FrostError):
            issuer_route(url, endpoint)


REFUSED_ISSUERS = [
    "http://login.example/token", "http://localhost/issuer", "http://169.254.169.254/latest",
    "https://169.254.169.254/latest", "https://me:secret@login.example/token", "https://login.example/token#x",
    "https://login.example/a/../b", "unix:/tmp/evil.sock", "file:///etc/passwd",
]  # fmt: skip


@pytest.mark.parametrize("url", [*REFUSED_ISSUERS, "https://login.example/a b"])
def test_an_issuer_is_refused(url: str) -> None:
    for endpoint in (REMOTE, LOOPBACK):
        with pytest.raises(FrostError):
            issuer_route(url, endpoint)


@pytest.mark.parametrize(
    ("host", "exceptions", "expected"),
    [
        ("api.frost.example", "*", True),
        ("api.frost.example", "frost.example", True),
        ("api.frost.example", "other.example , API.Frost.Example.", True),
        ("api.frost.example", "other.example api.frost.example", True),
        ("api.frost.example", ".frost.example", True),
        ("frost.example", ".frost.example", True),
        ("api.frost.example", "*.frost.example", True),
        ("frost.example", "*.frost.example", False),
        ("api.frost.example", "rost.example,t.example,api.frost.example.org,*rost.example", False),
        ("api.frost.example", "api.frost.example:443", True),
        ("api.frost.example", "api.frost.example:8443,.:443,:443,,.", False),
        ("10.1.2.3", "10.0.0.0/8", True),
        ("10.1.2.3", "10.9.9.9/8", True),
        ("10.1.2.3", "11.0.0.0/8,10.1.2.0/33,10.1.2.3/x,fd00::/8", False),
        ("10.1.2.3", "10.1.2.3", True),
        ("10.1.2.3", "10.1.2.3:443", True),
        ("10.1.2.3", "10.1.2.3:80,2.3,.1.2.3", False),
        ("fd00::5", "fd00::/8", True),
        ("fd00::5", "[fd00::]/8", True),
        ("fd00::5", "fd00::5", True),
        ("fd00::5", "FD00:0:0::5", True),
        ("fd00::5", "[fd00::5]", True),
        ("fd00::5", "[fd00::5]:443", True),
        ("fd00::5", "[fd00::5]:80,fd00::6,10.0.0.0/8,[", False),
        ("::ffff:10.1.2.3", "10.0.0.0/8", True),
        ("api.frost.example", "10.0.0.0/8,::/0", False),
        ("api.frost.example", "", False),
    ],
)
def test_no_proxy_has_the_entries_of_curl_and_go(host: str, exceptions: str, expected: bool) -> None:
    assert is_excepted(host, 443, exceptions) == expected
    endpoint = Endpoint("https", host, 443, "/api")
    environ = {"HTTPS_PROXY": "http://proxy.example:3128", "NO_PROXY": exceptions}
    assert (proxy_for(endpoint, environ) is None) == expected
    assert (proxy_for(endpoint, {**environ, "no_proxy": "other"}) is None) is False


@given(st.text(max_size=40))
def test_any_text_of_a_proxy_variable_is_a_proxy_or_a_usage_error(text: str) -> None:
    endpoint = Endpoint.parse("https://api.frost.example")
    for url in (
        text,
        f"http://{text}",
        f"http://me:{text}@proxy.example:3128",
        "http://\udcff:x@proxy",
        "http://a\udcff",
    ):
        try:
            proxy = proxy_for(endpoint, {"ALL_PROXY": url, "NO_PROXY": text[:3]})
        except FrostError as error:
            if error.exit_code != Exit.USAGE or "ALL_PROXY" not in error.message:
                raise
        else:
            assert proxy is None or proxy.variable == "ALL_PROXY"


def test_only_a_variable_that_is_set_is_named_for_the_log_of_tls_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    def create_default_context() -> ssl.SSLContext:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(ssl, "create_default_context", create_default_context)
    monkeypatch.delenv("SSLKEYLOGFILE", raising=False)
    with pytest.raises(OSError, match="Too many open files"):
        authorities({})
    monkeypatch.setenv("SSLKEYLOGFILE", "/keys")
    with pytest.raises(FrostError, match="SSLKEYLOGFILE /keys cannot be used"):
        authorities({})
