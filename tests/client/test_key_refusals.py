"""Messages for refused API keys, and `frost account` and `frost iam` against scripted responses."""

from typing import Any

import pytest

from client.commands.account import keys
from client.errors import Exit, FrostError
from client.texts.refusals import KeyProblem
from tests.client.scripted import Scripted, refused
from tui.account.key_form import form_problem


def explained(
    code: str, details: Any = None, expires: str | None = "2030-01-01", exit_code: Exit = Exit.REFUSED
) -> FrostError:
    """The error of a request about keys, with its message and hint."""
    error = FrostError("no", code=code, details=details, exit_code=exit_code, hint="h")
    with pytest.raises(FrostError), keys.key_errors(expires):
        raise error
    return error


def test_a_lost_answer_and_a_failed_revocation_are_reported_with_the_next_command() -> None:
    error = explained("SECRET_ALREADY_SHOWN", {"apiKeyId": "k-1"})
    assert "key k-1 was created, but its secret was lost" in error.message
    assert error.hint.startswith("frost account api-key delete k-1")
    for code, hint in (("UNREACHABLE", "list your keys: frost account api-key list"), ("NOT_LISTENING", "h")):
        assert explained(code, exit_code=Exit.UNREACHABLE).hint.endswith(hint)
    error = FrostError("no response", code="UNREACHABLE", exit_code=Exit.UNREACHABLE)
    with pytest.raises(FrostError), keys.still_active("k-1"):
        raise error
    assert error.message == "the new key was created, but the old one is still valid: no response"
    assert (error.hint, error.exit_code) == ("frost account api-key revoke k-1", Exit.UNREACHABLE)


ODD = {"scope": 7, "lacks": 7, "member": 7, "latest": 7, "expiresAt": [], "now": {}, "apiKeyId": "\x1b[2J"}


def test_details_of_another_shape_break_nothing_and_reach_no_terminal() -> None:
    for code in (
        "INVALID_INPUT", "INVALID_API_KEY_NAME", "INVALID_SCOPE", "WILDCARD_SCOPE_NOT_ALLOWED", "SCOPE_EXCEEDS_AUTHOR",
        "API_KEY_LIFETIME_EXCEEDS_MAX", "API_KEY_EXPIRY_IN_PAST", "SECRET_ALREADY_SHOWN", "SOMETHING_ELSE",
    ):  # fmt: skip
        for expires in (None, "2030-01-01", "2030-01-01T00:00:00Z"):
            for details in (None, {}, ODD):
                error = explained(code, details, expires)
                assert "\x1b" not in error.message + error.hint


def refusal(code: str, message: str = "as the platform says", **details: Any) -> FrostError:
    return FrostError(message, code=code, details=details)


LATEST = "a key is valid for at most 2 years: until 2028-11-21T10:05:00Z, or 2028-11-20"
PAST = "the expiry is in the past: the platform's time is 2026-11-21T10:05:00Z"


AS_SENT = "as the platform says"
LACKS = "your role does not grant"


@pytest.mark.parametrize(
    ("error", "flag", "member", "message"),
    [
        (refusal("INVALID_API_KEY_NAME"), "--name: ", "name", AS_SENT),
        (refusal("INVALID_INPUT", member="rateLimit"), "--rate-limit: ", "rateLimit", AS_SENT),
        (refusal("INVALID_INPUT", member="scopes"), "--scopes: ", "scopes", AS_SENT),
        (refusal("WILDCARD_SCOPE_NOT_ALLOWED", "no", scope="*"), "--scopes: ", "scopes", '"*": no'),
        (refusal("INVALID_SCOPE", "no", scope=" dns:read"), "--scopes: ", "scopes", '" dns:read": no'),
        (
            refusal("SCOPE_EXCEEDS_AUTHOR", scope="dns:write", lacks=["dns:zones:create"]),
            *("--scopes: ", "scopes", f"dns:write: {LACKS} dns:zones:create"),
        ),
        (
            refusal("SCOPE_EXCEEDS_AUTHOR", scope="compute:*", lacks=["compute:a:b", "compute:c:d"]),
            *("--scopes: ", "scopes", f"compute:*: {LACKS} compute:a:b and more"),
        ),
        (
            refusal("API_KEY_LIFETIME_EXCEEDS_MAX", latest="2028-11-21T10:05:00Z"),
            *("--expires: ", "expiresAt", LATEST),
        ),
        (refusal("API_KEY_EXPIRY_IN_PAST", now="2026-11-21T10:05:00Z"), "--expires: ", "expiresAt", PAST),
        (refusal("API_KEY_EXPIRY_IN_PAST", now="2026-11-21T10:05:00.470Z"), "--expires: ", "expiresAt", PAST),
        (refusal("SOMETHING_NEW"), "", "", AS_SENT),
    ],
)
def test_commands_and_screens_show_the_same_message(
    error: FrostError, flag: str, member: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "UTC")
    assert form_problem(error) == KeyProblem(member, message)
    with pytest.raises(FrostError), keys.key_errors("2030-01-01"):
        raise error
    assert error.message == flag + message


def test_the_profile_names_a_workload_identity(platform: Scripted) -> None:
    me = {"id": "u-1", "tenantId": "t-1", "credential": {"kind": "workload", "id": "w-1"}}
    platform.on("GET /api/v1/me", me)
    assert "workload identity" in platform.run("account", "profile").out
    assert platform.document("account", "profile")["credential"]["kind"] == "workload"


def test_whoami_needs_only_the_id_of_the_principal(platform: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FROST_TENANT", raising=False)
    platform.on("GET /api/v1/me", {"id": "p-1"})
    document = platform.document("whoami")
    assert (document["id"], document["tenant"]) == ("p-1", None)


def test_a_refusal_for_people_only_names_login(platform: Scripted) -> None:
    platform.on("GET /iam/policies", refused(403, "SESSION_REQUIRED", "an interactive session is required"))
    platform.on("GET /api/v1/sessions", refused(403, "SESSION_REQUIRED", "an interactive session is required"))
    for words in (("iam", "policy", "list"), ("account", "session", "list")):
        ended = platform.run(*words)
        assert (ended.code, ended.out) == (4, "")
        assert "frost login" in ended.err
