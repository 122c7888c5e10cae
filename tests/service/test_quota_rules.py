"""The rules of quotas: bound, decision, room."""

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
VCPU = quota_types()["vcpu"]


@st.composite
def use(draw: st.DrawFn) -> Use:
    total = draw(LIMITS)
    return Use(total, draw(st.integers(0, total)))


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


@given(limits=st.lists(st.integers(0, 1000), min_size=1, max_size=5), organization=st.integers(0, 4000), data=st.data())
def test_successive_raises_stay_within_the_organization(
    limits: list[int], organization: int, data: st.DataObject
) -> None:
    before = sum(limits)
    for _ in range(5):
        tenant = data.draw(st.integers(0, len(limits) - 1))
        bound = quota_request.requestable(limits[tenant], organization, sum(limits))
        limits[tenant] = data.draw(st.integers(limits[tenant], bound))
    assert sum(limits) <= max(before, organization)


@given(current=LIMITS, asked=LIMITS, bound=LIMITS)
@example(current=1, asked=3, bound=2)
def test_only_a_limit_above_the_bound_is_refused(current: int, asked: int, bound: int) -> None:
    if asked <= bound:
        quota_request.require_within_bound(VCPU, current, asked, bound)
        return
    with pytest.raises(ApiError) as refused:
        quota_request.require_within_bound(VCPU, current, asked, bound)
    assert (refused.value.status_code, refused.value.code) == (409, "QUOTA_BOUND_EXCEEDED")
    figures = {"resourceType": "vcpu", "limit": asked, "requestable": bound, "current": current}
    assert refused.value.body["details"] == figures
    assert "--org" in refused.value.body["hint"]


@given(current=LIMITS, asked=LIMITS, used=st.none() | use())
def test_a_lower_limit_is_granted_if_it_holds_a_known_use(current: int, asked: int, used: Use | None) -> None:
    verdict = quota_request.decide(current, asked, used)
    if asked >= current:
        assert verdict.status == "approved"
    else:
        assert (verdict.status == "approved") == (used is not None and used.total <= asked)
    if verdict.status == "denied":
        unknown = {"reason": "usage_unknown"}
        assert verdict.details == (
            unknown if used is None else {"used": used.total, "creating": used.creating, "limit": asked}
        )


@pytest.mark.parametrize(
    ("asked", "used", "status", "decision"),
    [
        (4, Use(5, 2), "denied", "5 in use (2 being created): more than 4"),  # U16
        (5, Use(5, 2), "approved", "the current use fits the new limit"),
        (2, Use(3, 0), "denied", "3 in use: more than 2"),  # U15
        (0, Use(0, 0), "approved", "the current use fits the new limit"),  # U17
        (0, None, "denied", "the current use is unknown"),
    ],
)
def test_a_decision_has_its_figures(asked: int, used: Use | None, status: str, decision: str) -> None:
    verdict = quota_request.decide(20, asked, used)
    assert (verdict.status, verdict.decision) == (status, decision)


@given(uses=st.lists(st.none() | use()))
def test_the_use_of_an_organization_needs_that_of_every_tenant(uses: list[Use | None]) -> None:
    together = quotas_limits.sum_uses(uses)
    assert (together is None) == (None in uses)
    if together is not None:
        assert together.total == sum(one.total for one in uses if one)
        assert together.creating == sum(one.creating for one in uses if one)


@given(limit=LIMITS, used=LIMITS, wanted=st.integers(1, MAX_LIMIT), known=st.booleans())
def test_a_creation_succeeds_within_the_limit_only(limit: int, used: int, wanted: int, known: bool) -> None:
    if used + wanted <= limit:
        quotas_limits.require_within_limit(VCPU, limit, used, wanted, known=known)
        return
    with pytest.raises(ApiError) as refused:
        quotas_limits.require_within_limit(VCPU, limit, used, wanted, known=known)
    shown = used if known else None
    assert (refused.value.status_code, refused.value.code) == (403, "QUOTA_EXCEEDED")
    assert refused.value.body["details"] == {"resourceType": "vcpu", "limit": limit, "used": shown, "wanted": wanted}


def test_a_refusal_hides_an_unknown_count() -> None:
    with pytest.raises(ApiError) as refused:
        quotas_limits.require_within_limit(VCPU, 50, 4711, 1, known=False)
    assert "4711" not in str(refused.value.body)


def test_every_type_but_those_of_images_can_be_requested() -> None:
    for name in quota_types():
        if name in ("image", "image_storage"):
            with pytest.raises(ApiError) as refused:
                quota_request.requested_type(name)
            assert (refused.value.status_code, refused.value.code) == (400, "QUOTA_NOT_REQUESTABLE")
            assert refused.value.body["hint"] == "contact support"
        else:
            assert quota_request.requested_type(name).resource_type == name


@pytest.mark.parametrize(
    ("name", "near"),
    [("VCPU", ["vcpu"]), ("Ram", ["ram"]), ("instances", ["instance"]), ("vcpu ", ["vcpu"]), ("東京", []), ("", [])],
)
def test_another_type_is_refused_with_those_there_are(name: str, near: list[str]) -> None:
    with pytest.raises(ApiError) as refused:
        quota_request.requested_type(name)
    assert (refused.value.status_code, refused.value.code) == (400, "UNKNOWN_RESOURCE_TYPE")
    details = refused.value.body["details"]
    assert details["known"] == list(quota_types())
    assert details["suggestions"][:1] == near


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


@pytest.mark.parametrize("text", ["", " ", "\t\n", "\u3000", "\u2003\u2003"])
def test_a_blank_reason_is_refused(text: str) -> None:
    with pytest.raises(ApiError) as refused:
        quota_request.reason(text)
    assert refused.value.body["details"] == {"member": "reason", "reason": "blank"}


def test_a_reason_has_500_characters_after_trimming_and_composing() -> None:
    assert quota_request.reason("  " + "e\u0301" * MAX_REASON_LENGTH + " ") == "é" * MAX_REASON_LENGTH
    with pytest.raises(ApiError) as refused:
        quota_request.reason("é" * (MAX_REASON_LENGTH + 1))
    assert refused.value.body["details"] == {"member": "reason", "reason": "too_long", "max": 500}


@pytest.mark.parametrize("character", ["\0", "\x1b", "\r", "\u202e", "\u200b", "\ufdd0", "\U000e0001"])
def test_a_reason_has_no_control_characters(character: str) -> None:
    with pytest.raises(ApiError) as refused:
        quota_request.reason(f"launch{character}now")
    assert refused.value.body["details"] == {"member": "reason", "reason": "character"}


@given(text=st.text())
def test_a_stored_reason_is_stable(text: str) -> None:
    try:
        kept = quota_request.reason(text)
    except ApiError:
        return
    assert quota_request.reason(kept) == kept
    assert 1 <= len(kept) <= MAX_REASON_LENGTH


def test_quotas_that_count_resources_being_created() -> None:
    counted = [(quota.kind, quota.attribute) for quota in quota_types().values()]
    assert len(set(counted)) == len(counted)
    at_once = {name for name, quota in quota_types().items() if kinds()[quota.kind].creating is None}
    assert "registry_storage" in at_once
    assert not at_once & {"instance", "vcpu", "ram", "volume", "load_balancer"}


def test_the_compute_service_has_a_name_for_each_of_its_own_types() -> None:
    assert set(quotas_limits.COMPUTE_NAMES.values()) <= set(quota_types())
    assert set(quotas_limits.COMPUTE_NAMES.values()) >= quotas_limits.IMAGES
