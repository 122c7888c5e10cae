"""A platform that repeats the credential of a request: no text shows it."""

import json
from urllib.parse import quote

import pytest

from client.api import account, keys, tenants
from client.auth.credential_store import Credential
from client.errors import FrostError
from client.transport.exchange import RequestLogEntry
from client.transport.secret_mask import MASK, mask_body
from tests.client.scripted import TENANT, Scripted, refused
from tests.client.wire import KEY, Context, Quick, Service, answer, ask, session

NEW_KEY = "fmk_" + "b" * 36
SECRET = KEY.secret
BASE64 = 'eyJ+abc/def==\\"x'
"""An opaque access token whose characters JSON and URLs escape."""


@pytest.mark.parametrize("secret", [SECRET, BASE64])
@pytest.mark.parametrize(
    "form",
    [
        str,
        lambda secret: quote(secret, safe=""),
        lambda secret: json.dumps(secret)[1:-1],
        lambda secret: json.dumps(secret)[1:-1].replace("/", "\\/"),
        lambda secret: "".join(f"\\u{ord(letter):04x}" for letter in secret),
        lambda secret: "".join(f"%{ord(letter):02X}" for letter in secret),
        lambda secret: "".join(f"%{ord(letter):02x}" for letter in secret),
        lambda secret: secret[:9] + "".join(f"\\u{ord(letter):04X}" for letter in secret[9:]),
    ],
    ids=["plain", "url", "json", "json with \\/", "all \\u", "all %", "all %, lower case", "in part"],
)
def test_a_secret_is_masked_in_every_form(secret: str, form: object) -> None:
    text = form(secret)  # type: ignore[operator]
    assert mask_body(f"a {text} b {text}.".encode(), [secret]) == f"a {MASK} b {MASK}.".encode()


def test_a_part_of_a_secret_a_short_secret_and_other_escapes_stay() -> None:
    other = rb'{"name": "fmk_aaaa", "text": "100% \u00e9 \/ \\ \"", "size": "%zz %4"}'
    assert mask_body(other, [SECRET, BASE64, "fmk_aaa", ""]) == other


@pytest.mark.parametrize("signing", [KEY, session("eyJhbGciOi.payload.signature")])
@pytest.mark.parametrize("escaped", [False, True])
def test_no_part_of_an_error_shows_the_credential(
    driver: str, quick: Quick, signing: Credential, escaped: bool
) -> None:
    text = "x-marks-the-place"
    body = json.dumps({"error": {"code": text, "message": f"is {text}", "hint": text, "details": {text: [text]}}})
    secret = "".join(f"\\u{ord(letter):04x}" for letter in signing.secret) if escaped else signing.secret
    log: list[RequestLogEntry] = []
    with Service(
        answer(500, body.replace(text, secret).encode(), X_Request_Id=signing.secret, X_Frost_Version=signing.secret),
        answer(302, b"", Location=f"https://{signing.secret}/"),
        answer(500, signing.secret.encode(), Content_Type="text/plain"),
    ) as service:
        errors = []
        for _ in range(3):
            with pytest.raises(FrostError) as caught:
                ask(driver, Context(service.endpoint, signing), tenants.rename("t-1", "B"), log)
            errors.append(caught.value)
    texts = [json.dumps(error.document()) + error.message for error in errors]
    assert not any(signing.secret in text for text in [*texts, *(str(entry) + entry.line() for entry in log)])
    assert errors[0].details == {MASK: [MASK]}
    assert errors[0].message == f"is {MASK}"
    assert MASK in errors[2].message


def test_a_new_key_is_not_masked(driver: str) -> None:
    created = {"apiKey": {"id": "k-2", "name": SECRET}, "key": NEW_KEY, "replaced": {"id": "k-1"}}
    with Service(answer(201, created)) as service:
        made = ask(driver, Context(service.endpoint), keys.rotate("t-1", "k-1"))
    assert made == {**created, "apiKey": {"id": "k-2", "name": MASK}}


@pytest.mark.parametrize("format", ["table", "wide", "json", "yaml"])
def test_no_output_of_a_command_shows_the_credential(platform: Scripted, format: str) -> None:
    record = {"id": TENANT, "displayName": f"my {SECRET}", "slug": "web", "status": "active"}
    record |= {"organizationName": "A", "organizationId": TENANT}
    platform.on("GET /api/v1/tenants", {"tenants": [record]})
    shown = platform.run("tenant", "list", "--debug", "-o", format)
    assert shown.code == 0
    assert MASK in shown.out
    platform.on("GET /api/v1/tenants", refused(403, "FORBIDDEN", f"your key {SECRET} may not do that"))
    failed = platform.run("tenant", "list", "--debug", "-o", format)
    assert f"your key {MASK} may not do that" in failed.err
    assert SECRET not in shown.out + shown.err + failed.out + failed.err


def test_a_whole_record_is_kept_without_the_credential(driver: str) -> None:
    me = {"id": "u-1", "name": "100% \\ é"}
    with Service(answer(200, me)) as service:
        assert ask(driver, Context(service.endpoint), account.me()) == me
