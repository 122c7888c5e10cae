"""Bearer tokens of the local issuer, and the sign-in times of tokens."""

import base64
import hmac
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey
from joserfc.jws import JWSRegistry

from service.authn import bearer_tokens, sessions
from service.errors import ApiError
from service.oidc_issuer.issuer import LocalIssuer
from tests.people import OWNER
from tests.service.issuing import NOW, Issuing, claims_of

AT = int(NOW.timestamp())
Forge = Callable[[Issuing, dict[str, Any]], str]


def encoded(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def part(value: Any) -> str:
    return encoded(json.dumps(value).encode())


def header(issuing: Issuing, **changes: Any) -> dict[str, Any]:
    """The header of a real token, changed; None removes."""
    (key,) = issuing.issuer.public_jwks()["keys"]
    merged = {"alg": "ES256", "kid": key["kid"], "typ": "at+jwt", **changes}
    return {name: value for name, value in merged.items() if value is not None}


def signed(**changes: Any) -> Forge:
    """Signed by the issuer's own key; only the claims differ from a real token's. None removes one."""

    def forge(issuing: Issuing, claims: dict[str, Any]) -> str:
        merged = claims | changes
        return issuing.issuer.sign({name: value for name, value in merged.items() if value is not None})

    return forge


def with_header(**changes: Any) -> Forge:
    """A good signature over good claims under another header."""

    def forge(issuing: Issuing, claims: dict[str, Any]) -> str:
        key = ECKey.import_key(json.loads((issuing.folder / "issuer.jwk").read_text()))
        return jwt.encode(header(issuing, **changes), claims, key, ["ES256"], default_type=None)

    return forge


def confused(material: Callable[[dict[str, Any]], bytes]) -> Forge:
    """HS256 with the public key as the secret."""

    def forge(issuing: Issuing, claims: dict[str, Any]) -> str:
        (key,) = issuing.issuer.public_jwks()["keys"]
        body = f"{part(header(issuing, alg='HS256'))}.{part(claims)}"
        return f"{body}.{encoded(hmac.digest(material(key), body.encode(), 'sha256'))}"

    return forge


def another_key(issuing: Issuing, claims: dict[str, Any], **changes: Any) -> str:
    key = ECKey.generate_key("P-256", auto_kid=True)
    return jwt.encode(header(issuing, **({"kid": key.kid} | changes)), claims, key, ["ES256"])


def with_own_key_inside(issuing: Issuing, claims: dict[str, Any]) -> str:
    key = ECKey.generate_key("P-256")
    return jwt.encode(header(issuing, jwk=key.as_dict(private=False)), claims, key, ["ES256"])


def signature_of_another(issuing: Issuing, claims: dict[str, Any]) -> str:
    head, _, signature = issuing.issuer.sign(claims).split(".")
    return f"{head}.{part(claims | {'sub': 'u-member'})}.{signature}"


def with_critical_header(issuing: Issuing, claims: dict[str, Any]) -> str:
    """Sign by hand: joserfc signs no header that it does not know."""
    key = ECKey.import_key(json.loads((issuing.folder / "issuer.jwk").read_text()))
    body = f"{part(header(issuing, crit=['x'], x=1))}.{part(claims)}"
    return f"{body}.{encoded(JWSRegistry().get_alg('ES256').sign(body.encode(), key))}"


FORGERIES: dict[str, Forge] = {
    "no signature": lambda issuing, claims: issuing.issuer.sign(claims).rpartition(".")[0] + ".",
    "two parts": lambda issuing, claims: issuing.issuer.sign(claims).rpartition(".")[0],
    "alg none": lambda issuing, claims: f"{part(header(issuing, alg='none'))}.{part(claims)}.",
    "alg None": lambda issuing, claims: f"{part(header(issuing, alg='None'))}.{part(claims)}.",
    "alg nOnE": lambda issuing, claims: f"{part(header(issuing, alg='nOnE'))}.{part(claims)}.",
    "alg missing": lambda issuing, claims: ".".join(
        (part(header(issuing, alg=None)), *issuing.issuer.sign(claims).split(".")[1:])
    ),
    "key confusion, PEM": confused(lambda key: ECKey.import_key(key).as_pem(private=False)),
    "key confusion, JWK": confused(lambda key: json.dumps(key).encode()),
    "key confusion, x": confused(lambda key: str(key["x"]).encode()),
    "signature of other claims": signature_of_another,
    "another key": another_key,
    "another key under our kid": lambda issuing, claims: another_key(issuing, claims, kid=header(issuing)["kid"]),
    "a key of its own in the header": with_own_key_inside,
    "no kid": with_header(kid=None),
    "the kid of no key, signed by ours": with_header(kid="other"),
    "wrong type": with_header(typ="JWT"),
    "no type": with_header(typ=None),
    "wrong issuer": signed(iss="https://elsewhere.example"),
    "issuer with a slash more": signed(iss="http://localhost/issuer/"),
    "issuer as a list": signed(iss=["http://localhost/issuer"]),
    "no issuer": signed(iss=None),
    "wrong audience": signed(aud="frost-cli"),
    "no audience": signed(aud=None),
    "empty audience": signed(aud=[]),
    "audience that contains ours": signed(aud="frosty"),
    "not yet valid": signed(nbf=AT + 31 + 1),
    "nbf as text": signed(nbf=str(AT)),
    "expired": signed(exp=AT),
    "expired a second ago": signed(exp=AT - 1),
    "no exp": signed(exp=None),
    "exp as text": signed(exp=str(AT + 60)),
    "exp true": signed(exp=True),
    "exp not a number": signed(exp=float("nan")),
    "exp infinite": signed(exp=float("inf")),
    "no subject": signed(sub=None),
    "subject as a number": signed(sub=1),
    "another person's subject": signed(sub="u-member"),
    "no session": signed(sid=None),
    "session unknown": signed(sid="5c0c7b0e-0000-4000-8000-000000000000"),
    "session as a list": signed(sid=["x"]),
    "session with a zero byte": signed(sid="\x00"),
    "too long": signed(filler="x" * 9000),
    "an API key": lambda issuing, claims: "fmk_0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ",
    "empty": lambda issuing, claims: "",
    "dots": lambda issuing, claims: "..",
    "not ASCII": lambda issuing, claims: issuing.issuer.sign(claims) + "é",
    "newline after": lambda issuing, claims: issuing.issuer.sign(claims) + "\n",
    "nested header": lambda issuing, claims: base64.urlsafe_b64encode(b"[" * 5000).decode() + ".e30.AAAA",
    "header is a list": lambda issuing, claims: f"{part([1])}.e30.AAAA",
    "header is text": lambda issuing, claims: f"{part('alg')}.e30.AAAA",
    "kid as a list": lambda issuing, claims: f"{part(header(issuing, kid=['x']))}.e30.AAAA",
    "alg as a list": lambda issuing, claims: f"{part(header(issuing, alg=['ES256']))}.e30.AAAA",
    "unknown critical header": with_critical_header,
    "not yet valid for ages": signed(nbf=10**400),
    "encrypted shape": lambda issuing, claims: issuing.issuer.sign(claims) + ".a.b",
    "body is a list": lambda issuing, claims: issuing.issuer.sign(claims).split(".")[0] + f".{part([1])}.AAAA",
}


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_forged_and_foreign_tokens_are_refused_alike(issuing: Issuing) -> None:
    real = issuing.sign_in()["access_token"]
    claims = claims_of(real)
    # The same claims under the issuer's signature are accepted.
    assert issuing.accepted(issuing.issuer.sign(claims))
    bodies = set()
    for name, forge in FORGERIES.items():
        with pytest.raises(ApiError) as refusal:
            assert not issuing.bearer(forge(issuing, claims)), name
        assert refusal.value.code == "AUTHENTICATION_REQUIRED", name
        bodies.add(json.dumps(refusal.value.body))
    assert len(bodies) == 1
    assert issuing.accepted(real)


def test_a_token_a_little_ahead_of_the_clock_is_accepted(issuing: Issuing) -> None:
    token = issuing.sign_in()["access_token"]
    claims = claims_of(token)
    assert issuing.accepted(issuing.issuer.sign(claims | {"nbf": AT + 29}))
    assert issuing.accepted(issuing.issuer.sign(claims | {"aud": ["other", "frost"]}))
    changed = issuing.issuer.sign(claims | {"email": "root@aurora.example", "scope": "everything"})
    principal = issuing.bearer(changed)
    assert (principal.kind, principal.user_id, principal.email, principal.scopes) == ("session", "u-owner", OWNER, ())
    assert principal.session_id == claims["sid"]
    # A cached token expires on time.
    assert issuing.accepted(token)
    issuing.clock.forward(minutes=29, seconds=59)
    assert issuing.accepted(token)
    issuing.clock.forward(seconds=1)
    assert not issuing.accepted(token)


def test_verified_tokens_are_remembered_within_a_bound(issuing: Issuing, monkeypatch: pytest.MonkeyPatch) -> None:
    claims = claims_of(issuing.sign_in()["access_token"])
    verified: list[str] = []
    real = bearer_tokens.verify
    issuing.tokens = bearer_tokens.BearerTokens(issuing.database, issuing.clock, issuing.issuer, max_verified=3)
    monkeypatch.setattr(bearer_tokens, "verify", lambda token, issuer: (verified.append(token), real(token, issuer))[1])
    several = [issuing.issuer.sign(claims | {"jti": str(number)}) for number in range(5)]
    for token in several:
        assert issuing.accepted(token)
        assert issuing.accepted(token)
    assert verified == several
    assert issuing.accepted(several[-1])
    assert verified == several
    # The oldest made room.
    assert issuing.accepted(several[0])
    assert verified == [*several, several[0]]


def test_the_signing_key_is_created_once_and_private(issuing: Issuing) -> None:
    (key,) = issuing.issuer.public_jwks()["keys"]
    path = issuing.folder / "issuer.jwk"
    assert path.stat().st_mode & 0o777 == 0o600
    assert {key["kty"], key["crv"], key["alg"], key["use"]} == {"EC", "P-256", "ES256", "sig"}
    assert key["kid"]
    assert "d" not in key
    assert json.loads(path.read_text())["d"]
    again = LocalIssuer(issuing.database, issuing.clock, issuing.folder, b"s" * 32)
    assert again.public_jwks() == issuing.issuer.public_jwks()
    assert [file.name for file in issuing.folder.iterdir() if "jwk" in file.name] == ["issuer.jwk"]


def test_a_damaged_key_file_is_named_and_not_replaced(issuing: Issuing, tmp_path: Path) -> None:
    folder = tmp_path / "other"
    folder.mkdir()
    file = folder / "issuer.jwk"
    other = LocalIssuer(issuing.database, issuing.clock, folder, b"s" * 32)
    for content in ("", "{}", "not json", '{"kty": "oct", "k": "AAAA"}', "[]"):
        file.write_text(content)
        with pytest.raises(RuntimeError, match=re.escape(str(file))):
            other.public_jwks()
        assert file.read_text() == content
    (key,) = issuing.issuer.public_jwks()["keys"]
    file.write_text(json.dumps(key))
    with pytest.raises(RuntimeError, match="private"):
        other.sign({})


def test_an_outside_session_is_a_sign_in_by_sid_else_by_subject() -> None:
    rows: tuple[tuple[dict[str, object], str | None], ...] = (
        ({"sid": "s-1", "sub": "u", "auth_time": 5}, "sid s-1 5"),
        ({"sub": "u", "auth_time": 5}, "sub u 5"),
        ({"sid": "", "sub": "u", "auth_time": 5}, "sub u 5"),
        ({"sub": "u"}, None),
        ({"sid": "s-1", "sub": "u"}, None),
        ({"sub": "u", "auth_time": "5"}, None),
        ({"sub": "u", "auth_time": True}, None),
        ({"sub": "u", "auth_time": -5}, None),
        ({"sub": "u", "auth_time": 1 << 70}, None),
        ({"sub": "u" * 300, "auth_time": 5}, None),
        ({"sid": "a\x00", "sub": "u", "auth_time": 5}, None),
    )
    for claims, name in rows:
        assert sessions.sign_in_key(claims) == name, claims
    long = [{"sub": "u" * 250 + end, "auth_time": time} for end in "ab" for time in (5, 6)]
    names = {sessions.sign_in_key(claims) for claims in long}
    assert len(names) == 4
    assert all(name and len(name) <= sessions.MAX_KEY_LENGTH for name in names)
