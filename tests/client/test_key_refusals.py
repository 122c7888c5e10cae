"""Messages for refused API keys."""

from typing import Any

import pytest

from client.commands.account import keys
from client.errors import Exit, FrostError
from client.texts.refusals import KeyProblem
from tui.account.key_form import form_problem


def told(code: str, details: Any, expires: str | None = "2030-01-01", message: str = "no") -> FrostError:
    error = FrostError(message, code=code, details=details, exit_code=Exit.REFUSED, hint="h")
    with pytest.raises(FrostError), keys.key_errors(expires):
        raise error
    return error


def test_a_key_whose_answer_was_lost_is_named_with_what_to_do() -> None:
    error = told("SECRET_ALREADY_SHOWN", {"apiKeyId": "k-1"})
    assert "key k-1 was created, but its secret was lost" in error.message
    assert error.hint.startswith("frost account api-key delete k-1")


def test_a_request_without_an_answer_may_have_made_a_key() -> None:
    for code, expected in (("UNREACHABLE", "list your keys: frost account api-key list"), ("NOT_LISTENING", "h")):
        error = FrostError("no answer within 60 s", code=code, hint="h", exit_code=Exit.UNREACHABLE)
        with pytest.raises(FrostError), keys.key_errors(None):
            raise error
        assert error.hint.endswith(expected)


def test_a_failed_revocation_after_rotation_is_reported() -> None:
    error = FrostError("nobody listens", code="UNREACHABLE", exit_code=Exit.UNREACHABLE)
    with pytest.raises(FrostError), keys.still_active("k-1"):
        raise error
    assert error.message == "the new key was created, but the old one is still valid: nobody listens"
    assert (error.hint, error.exit_code) == ("frost account api-key revoke k-1", Exit.UNREACHABLE)


CODES = [
    "INVALID_INPUT", "INVALID_API_KEY_NAME", "INVALID_SCOPE", "WILDCARD_SCOPE_NOT_ALLOWED", "SCOPE_EXCEEDS_AUTHOR",
    "API_KEY_LIFETIME_EXCEEDS_MAX", "API_KEY_EXPIRY_IN_PAST", "SECRET_ALREADY_SHOWN", "SOMETHING_ELSE",
]  # fmt: skip


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("expires", [None, "2030-01-01", "2030-01-01T00:00:00Z"])
@pytest.mark.parametrize(
    "details",
    [None, {}, {"scope": 7, "lacks": 7, "member": 7, "latest": 7, "expiresAt": [], "now": {}, "apiKeyId": "\x1b[2J"}],
)
def test_details_of_another_shape_break_nothing_and_reach_no_terminal(
    code: str, expires: str | None, details: Any
) -> None:
    error = told(code, details, expires)
    assert "\x1b" not in error.message + error.hint


def refusal(code: str, message: str = "as the platform says", **details: Any) -> FrostError:
    return FrostError(message, code=code, details=details)


LATEST = "a key is valid for at most 2 years: until 2028-11-21T10:05:00Z, or 2028-11-20"
PAST = "the expiry is in the past: the platform's time is 2026-11-21T10:05:00Z"


@pytest.mark.parametrize(
    ("error", "flag", "problem"),
    [
        (refusal("INVALID_API_KEY_NAME"), "--name: ", KeyProblem("name", "as the platform says")),
        (
            refusal("INVALID_INPUT", member="rateLimit"),
            "--rate-limit: ",
            KeyProblem("rateLimit", "as the platform says"),
        ),
        (refusal("INVALID_INPUT", member="scopes"), "--scopes: ", KeyProblem("scopes", "as the platform says")),
        (refusal("WILDCARD_SCOPE_NOT_ALLOWED", "no", scope="*"), "--scopes: ", KeyProblem("scopes", "*: no")),
        (
            refusal("SCOPE_EXCEEDS_AUTHOR", scope="dns:write", lacks=["dns:zones:create"]),
            "--scopes: ",
            KeyProblem("scopes", "dns:write: your role does not grant dns:zones:create"),
        ),
        (
            refusal("SCOPE_EXCEEDS_AUTHOR", scope="compute:*", lacks=["compute:a:b", "compute:c:d"]),
            "--scopes: ",
            KeyProblem("scopes", "compute:*: your role does not grant compute:a:b and more"),
        ),
        (
            refusal("API_KEY_LIFETIME_EXCEEDS_MAX", latest="2028-11-21T10:05:00Z"),
            "--expires: ",
            KeyProblem("expiresAt", LATEST),
        ),
        (refusal("API_KEY_EXPIRY_IN_PAST", now="2026-11-21T10:05:00Z"), "--expires: ", KeyProblem("expiresAt", PAST)),
        (
            refusal("API_KEY_EXPIRY_IN_PAST", now="2026-11-21T10:05:00.470Z"),
            "--expires: ",
            KeyProblem("expiresAt", PAST),
        ),
        (refusal("SOMETHING_NEW"), "", KeyProblem("", "as the platform says")),
    ],
)
def test_commands_and_screens_show_the_same_message(
    error: FrostError, flag: str, problem: KeyProblem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "UTC")
    assert form_problem(error) == problem
    with pytest.raises(FrostError), keys.key_errors("2030-01-01"):
        raise error
    assert error.message == flag + problem.message
