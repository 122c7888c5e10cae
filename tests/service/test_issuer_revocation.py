"""Token revocation ends the session. RFC 7009"""

import pytest

from tests.service.issuing import Issuing, Reply, claims_of


def revoke(issuing: Issuing, token: str, **fields: str) -> Reply:
    return issuing.ask("revoke", {"token": token, "client_id": "frost-cli", **fields})


@pytest.mark.parametrize("which", ["refresh_token", "access_token"])
def test_either_token_ends_its_session_and_only_that(issuing: Issuing, which: str) -> None:
    tokens, other = issuing.sign_in(), issuing.sign_in()
    assert revoke(issuing, tokens[which]).status == 200
    assert not issuing.accepted(tokens["access_token"])
    assert issuing.refresh(tokens["refresh_token"]).error == "invalid_grant"
    assert issuing.accepted(other["access_token"])
    session_id = claims_of(tokens["access_token"])["sid"]
    assert issuing.session(session_id).end_reason == "signed_out"
    (entry,) = issuing.audited("session.end")
    assert (entry.actor_id, entry.target) == ("u-owner", f"session:{session_id}")


def test_an_invalid_token_is_answered_with_200_and_ends_nothing(issuing: Issuing) -> None:
    tokens = issuing.sign_in()
    head, body, _ = tokens["access_token"].split(".")
    for token in ("made-up", "a.b.c", "eyJhbGciOiJub25lIn0.e30.", "x" * 9000, f"{head}.{body}.{'A' * 86}"):
        assert revoke(issuing, token, token_type_hint="something").status == 200
    assert issuing.ask("revoke", {"token": tokens["refresh_token"]}).error == "invalid_client"
    assert issuing.ask("revoke", {"client_id": "frost-cli"}).error == "invalid_request"
    assert issuing.accepted(tokens["access_token"])
    # A used refresh token ends the session as well.
    newer = issuing.refresh(tokens["refresh_token"]).body
    assert revoke(issuing, tokens["refresh_token"], token_type_hint="access_token").status == 200
    assert not issuing.accepted(newer["access_token"])
    assert revoke(issuing, tokens["refresh_token"]).status == 200
    assert len(issuing.audited("session.end")) == 1
