"""The device flow of the local issuer. RFC 8628"""

import re

from sqlalchemy import select

from service.db.tables import device_codes, refresh_tokens
from service.oidc_issuer import queries
from tests.people import MEMBER, OWNER
from tests.service.issuing import GONE, Issuing, Reply
from tests.service.queries import fetch
from tests.waiting import at_once


def test_an_approved_device_code_gives_a_session_of_the_first_person_once(issuing: Issuing) -> None:
    started = issuing.start_device(device="laptop")
    assert issuing.poll(started["device_code"]).error == "authorization_pending"
    assert issuing.approve(started["user_code"]).body["email"] == OWNER
    assert issuing.approve(started["user_code"], email=MEMBER).error == "invalid_grant"
    reply = issuing.poll(started["device_code"])
    assert (reply.status, reply.body["token_type"], reply.body["expires_in"]) == (200, "Bearer", 1800)
    assert reply.cache == "no-store"
    caller = issuing.bearer(reply.body["access_token"])
    assert (caller.email, caller.peer_uid) == (OWNER, 1000)
    assert issuing.session(str(caller.session_id)).device == "laptop"
    (entry,) = issuing.audited("session.start")
    assert (entry.actor_kind, entry.actor_id, entry.outcome) == ("session", "u-owner", "done")
    assert issuing.poll(started["device_code"]).error == "invalid_grant"
    # A user code may be typed carelessly.
    started = issuing.start_device()
    assert re.fullmatch(r"[BCDFGHJKLMNPQRSTVWXZ]{4}-[BCDFGHJKLMNPQRSTVWXZ]{4}", started["user_code"])
    assert started["verification_uri_complete"].endswith(started["user_code"])
    careless = " " + started["user_code"].lower().replace("-", " ")
    assert issuing.approve(careless, email=MEMBER.upper()).status == 200
    assert issuing.bearer(issuing.poll(started["device_code"]).body["access_token"]).email == MEMBER


def test_an_unknown_or_deleted_person_is_denied_and_the_poll_ends(issuing: Issuing) -> None:
    denied = {"error": "access_denied", "error_description": "The account does not exist on this platform."}
    people = ("nobody@aurora.example", GONE, "owner@aurora.example\x00", "x" * 5000)
    for email in people:
        started = issuing.start_device()
        reply = issuing.approve(started["user_code"], email=email)
        assert (reply.status, reply.body) == (400, denied), email
        assert issuing.poll(started["device_code"]).body == denied
    assert [entry.outcome for entry in issuing.audited("session.start")] == ["refused"] * len(people)
    # Deleted between approval and poll.
    started = issuing.start_device()
    issuing.approve(started["user_code"], email=MEMBER)
    issuing.delete(MEMBER)
    assert issuing.poll(started["device_code"]).error == "access_denied"


def test_polling_too_fast_slows_down_by_five_seconds_each_time(issuing: Issuing) -> None:
    code, started = issuing.start_device()["device_code"], issuing.start_device()
    pending, slow = "authorization_pending", "slow_down"
    # The interval is 2 s, then 7, 12 and 17: each pause but the last is a second too short.
    for pause, error in ((0, pending), (1, slow), (6, slow), (11, slow), (17, pending), (0, slow)):
        issuing.clock.forward(seconds=pause)
        assert issuing.poll(code).error == error
    for _ in range(20):
        assert issuing.poll(started["device_code"]).error == pending
        issuing.clock.forward(seconds=started["interval"])


def test_a_refused_approval_is_in_the_audit_log_without_its_code(issuing: Issuing) -> None:
    started, approved = issuing.start_device(), issuing.start_device()
    issuing.approve("BCDF-GHJK")
    issuing.approve(started["user_code"], email="nobody@example.com")
    for codes in (started, approved, approved):
        issuing.approve(codes["user_code"])
    issuing.clock.forward(seconds=started["expires_in"])
    for codes in (started, approved):
        assert issuing.poll(codes["device_code"]).error == "expired_token"
        assert issuing.approve(codes["user_code"]).error == "expired_token"
    refused = [entry for entry in issuing.audited("device.approve") if entry.outcome == "refused"]
    used = {"code": "invalid_grant", "reason": "The user code was used before."}
    expired = {"code": "expired_token", "reason": "The user code has expired; start again."}
    unknown = {"code": "invalid_grant", "reason": "The user code is unknown."}
    assert [entry.details for entry in refused] == [unknown, used, used, expired, expired]
    # One entry each: the person who does not exist is a sign-in that was refused.
    assert [entry.outcome for entry in issuing.audited("session.start")] == ["refused"]
    assert not any(code in repr(refused) for code in ("BCDF", started["user_code"]))


def test_no_code_is_stored_as_it_is_and_the_device_name_is_cut_and_cleaned(issuing: Issuing) -> None:
    started = issuing.start_device(device="a\x1b[31m\x00" + "b" * 500)
    issuing.approve(started["user_code"])
    tokens = issuing.poll(started["device_code"]).body
    session_id = issuing.bearer(tokens["access_token"]).session_id
    assert issuing.session(str(session_id)).device == "a[31m" + "b" * 195
    stored = repr([fetch(issuing.database, select(table)) for table in (device_codes, refresh_tokens)])
    user_codes = (started["user_code"], started["user_code"].replace("-", ""))
    for secret in (started["device_code"], *user_codes, tokens["refresh_token"], tokens["access_token"]):
        assert secret not in stored
    assert len(tokens["refresh_token"]) == len(started["device_code"]) == 43
    digests = {queries.digest(key * 32, kind, "x") for key, kind in ((b"a", "code"), (b"b", "code"), (b"a", "refresh"))}
    assert len(digests) == 3, "they depend on the platform's secret and the kind of code"


def test_of_many_polls_at_once_one_gets_the_tokens(issuing: Issuing) -> None:
    started = issuing.start_device()
    issuing.approve(started["user_code"])
    replies: list[Reply] = at_once([lambda: issuing.poll(started["device_code"])] * 8)
    assert sorted(reply.status for reply in replies) == [200] + [400] * 7
    assert len(issuing.audited("session.start")) == 1


def test_unknown_codes_clients_and_scopes_and_broken_forms_are_refused(issuing: Issuing) -> None:
    assert issuing.poll("made-up").error == "invalid_grant"
    assert issuing.approve("BCDF-GHJK").error == "invalid_grant"
    client = {"client_id": "frost-cli"}
    for endpoint, form, error in (
        ("approve", {}, "invalid_request"),
        ("device_authorization", {"client_id": "other"}, "invalid_client"),
        ("device_authorization", {}, "invalid_client"),
        ("device_authorization", client | {"scope": "openid admin"}, "invalid_scope"),
        ("device_authorization", "client_id=frost-cli&client_id=frost-cli", "invalid_request"),
        ("device_authorization", "client_id=%ff", "invalid_request"),
        ("device_authorization", "&".join(f"p{number}=1" for number in range(100)), "invalid_request"),
        ("token", client | {"grant_type": 'x"y'}, "invalid_request"),
        ("token", client | {"grant_type": "password"}, "unsupported_grant_type"),
        ("token", {}, "unsupported_grant_type"),
    ):
        assert issuing.ask(endpoint, form).error == error, (endpoint, form)
