"""The rules of quotas: bound, decision, room."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from service.catalogue.resource_types import kinds, quota_types
from service.errors import ApiError
from service.quotas import limits as quotas_limits
from service.quotas import quota_request
from service.quotas.limits import Use
from service.quotas.quota_request import MAX_LIMIT, MAX_REASON_LENGTH

LIMITS = st.integers(0, MAX_LIMIT)


def refusal(call: Callable[..., object], *arguments: Any, **options: Any) -> tuple[tuple[int, str], dict[str, Any]]:
    """Call a function that must refuse; return status and code, and the body."""
    with pytest.raises(ApiError) as error:
        call(*arguments, **options)
    return (error.value.status_code, error.value.code), error.value.body


@given(limit=LIMITS, others=LIMITS, organization=LIMITS, asked=LIMITS)
def test_a_raise_within_the_bound_stays_within_the_organization(
    limit: int, others: int, organization: int, asked: int
) -> None:
    bound = quota_request.requestable(limit, organization, limit + others)
    assert bound >= limit
    if limit < asked <= bound:
        assert others + asked <= organization
    if asked > bound and limit + others <= organization:
        assert others + asked > organization


@pytest.mark.parametrize(
    ("asked", "used", "status", "text"),
    [
        (20, None, "approved", "within the limit that needs no review"),
        (21, Use(30, 0), "approved", "within the limit that needs no review"),
        (4, Use(5, 2), "denied", "5 in use (2 being created): more than 4"),
        (5, Use(5, 2), "approved", "the current use fits the new limit"),
        (2, Use(3, 0), "denied", "3 in use: more than 2"),
        (0, Use(0, 0), "approved", "the current use fits the new limit"),
        (0, None, "denied", "the current use is unknown"),
    ],
)
def test_a_decision_has_its_figures(asked: int, used: Use | None, status: str, text: str) -> None:
    decision = quota_request.decide(20, asked, used)
    assert (decision.status, decision.decision) == (status, text)


def test_types_but_those_of_images_can_be_requested() -> None:
    for name in quota_types():
        if name in ("image", "image_storage"):
            code, body = refusal(quota_request.requested_type, name)
            assert (code, body["hint"]) == ((400, "QUOTA_NOT_REQUESTABLE"), "contact support")
        else:
            assert quota_request.requested_type(name).resource_type == name
    near = {"VCPU": ["vcpu"], "Ram": ["ram"], "instances": ["instance"], "vcpu ": ["vcpu"], "東京": [], "": []}
    for name, suggestions in near.items():
        code, body = refusal(quota_request.requested_type, name)
        assert code == (400, "UNKNOWN_RESOURCE_TYPE")
        assert body["details"]["known"] == list(quota_types())
        assert body["details"]["suggestions"][:1] == suggestions


@given(limit=st.integers())
@example(0)
@example(-1)
@example(2**53)
@example(2**53 + 1)
@example(10**400)
def test_a_limit_is_zero_to_two_to_the_power_of_53(limit: int) -> None:
    if 0 <= limit <= 2**53:
        assert quota_request.requested_limit(limit) == limit
        return
    with pytest.raises(ApiError, match="limit must be") as refused:
        quota_request.requested_limit(limit)
    assert refused.value.body["details"] == {"member": "limit", "reason": "range", "min": 0, "max": 2**53}


def test_a_reason_has_1_to_500_printable_characters_after_trimming_and_composing() -> None:
    longest = "é" * MAX_REASON_LENGTH
    assert quota_request.reason("  " + "e\u0301" * MAX_REASON_LENGTH + " ") == longest
    too_long = {"member": "reason", "reason": "too_long", "max": 500}
    assert refusal(quota_request.reason, longest + "é")[1]["details"] == too_long
    for reason, texts in (
        ("blank", ("", " ", "\t\n", "\u3000", "\u2003\u2003")),
        ("character", ("a\0b", "a\x1bb", "a\rb", "a\u202eb", "a\u200bb", "a\ufdd0b", "a\U000e0001b")),
    ):
        for text in texts:
            details = refusal(quota_request.reason, text)[1]["details"]
            assert details == {"member": "reason", "reason": reason}, text


@given(text=st.text())
def test_a_stored_reason_is_stable(text: str) -> None:
    try:
        stored = quota_request.reason(text)
    except ApiError:
        return
    assert quota_request.reason(stored) == stored
    assert 1 <= len(stored) <= MAX_REASON_LENGTH


def test_quotas_that_count_resources_being_created() -> None:
    counted = [(quota.kind, quota.attribute) for quota in quota_types().values()]
    assert len(set(counted)) == len(counted)
    at_once = {name for name, quota in quota_types().items() if kinds()[quota.kind].creating is None}
    assert "registry_storage" in at_once
    assert not at_once & {"instance", "vcpu", "ram", "volume", "load_balancer"}
    assert quotas_limits.IMAGES <= set(quotas_limits.COMPUTE_NAMES.values()) <= set(quota_types())
