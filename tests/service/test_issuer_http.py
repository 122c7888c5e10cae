"""The issuer and the session checks as the real process answers them."""

from urllib.parse import urlsplit

from tests.api import DEVICE_GRANT
from tests.people import OWNER
from tests.service.running import Running


def test_discovery_names_the_endpoints_that_exist(demo: Running) -> None:
    answer = demo.get("/issuer/.well-known/openid-configuration")
    document = answer.json()
    assert document["issuer"] == "http://localhost/issuer" == demo.get("/api/v1/auth/cli-config").json()["issuer"]
    assert document["code_challenge_methods_supported"] == ["S256"]
    assert document["response_types_supported"] == ["code"]
    assert set(document["grant_types_supported"]) == {"authorization_code", "refresh_token", DEVICE_GRANT}
    (key,) = demo.get("/issuer/jwks").json()["keys"]
    assert (key["alg"], "d" in key) == ("ES256", False)
    for name in ("token_endpoint", "device_authorization_endpoint", "revocation_endpoint"):
        answer = demo.post_form(urlsplit(document[name]).path)
        assert (answer.status, answer.headers["cache-control"]) == (400, "no-store")
        assert set(answer.json()) <= {"error", "error_description"}
    assert demo.get(urlsplit(document["authorization_endpoint"]).path).json()["error"] == "unsupported_response_type"
    for content_type in ("application/json", "text/plain", ""):
        refused = demo.request("POST", "/issuer/token", {"Content-Type": content_type}, b'{"client_id":"frost-cli"}')
        assert (refused.status, refused.json()["error"]) == (400, "invalid_request")
        assert refused.headers["cache-control"] == "no-store"


def test_a_key_as_bearer_and_a_token_as_key_are_refused(demo: Running) -> None:
    key, bearer = demo.key("tenant-reader"), f"Bearer {demo.token(OWNER)}"
    for headers in (
        *({"X-API-Key": bearer.removeprefix("Bearer ")}, {"Authorization": f"Bearer {key}"}),
        {"X-API-Key": key, "Authorization": bearer},
    ):
        assert demo.request("GET", "/api/v1/me", headers).status == 401


def test_with_an_outside_issuer_there_is_no_local_one() -> None:
    with Running(None, "demo", "--issuer", "https://idp.example/realm") as running:
        assert running.get("/api/v1/auth/cli-config").json()["issuer"] == "https://idp.example/realm"
        for path in ("/issuer/jwks", "/issuer/.well-known/openid-configuration"):
            assert running.get(path).json()["error"]["code"] == "NOT_FOUND"
        assert running.post_form("/issuer/device_authorization", client_id="frost-cli").status == 404
