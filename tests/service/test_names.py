"""Display names and slugs."""

import re
import unicodedata
from urllib.parse import urlencode
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import update

from service.account import api_key_validation
from service.catalogue.resource_types import kinds
from service.db import tables
from service.db.engine import Database
from service.errors import ApiError
from service.quotas import quota_request
from service.resources import validation as resource_rules
from service.validation import MAX_NAME_LENGTH, MAX_SLUG_LENGTH, display_name, free_slug, slug, stored_name
from tests.service.access import allow, document
from tests.service.running import AURORA, OWNER, WEB_SHOP, Running

SLUG = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Web Shop", "web-shop"),
        ("  Data__Lake!! ", "data-lake"),
        ("Crème Brûlée", "creme-brulee"),
        ("Straße nach Łódź", "strasse-nach-lodz"),
        ("ﬁne ①②", "fine-12"),
        ("İstanbul", "istanbul"),
        ("東京", "tenant"),
        ("-", "tenant"),
        ("../etc/passwd", "etc-passwd"),
        ("'; DROP TABLE tenants --", "drop-table-tenants"),
        ("x" * 60, "x" * 48),
        ("a" * 47 + " b", "a" * 47),
    ],
)
def test_the_slug_of_a_name(name: str, expected: str) -> None:
    assert slug(name) == expected


@given(st.text(min_size=1, max_size=200))
def test_every_name_has_a_plain_slug(name: str) -> None:
    made = slug(name)
    assert SLUG.fullmatch(made)
    assert len(made) <= MAX_SLUG_LENGTH


@given(st.text(min_size=1, max_size=200))
def test_a_slug_is_its_own_slug(name: str) -> None:
    assert slug(slug(name)) == slug(name)


@given(st.text("ab-", min_size=1, max_size=60), st.integers(0, 120))
def test_a_taken_slug_gets_the_first_free_number_within_the_length(name: str, already: int) -> None:
    wanted, taken = slug(name), set[str]()
    for number in range(1, already + 2):
        made = free_slug(wanted, frozenset(taken))
        assert made not in taken
        assert SLUG.fullmatch(made)
        assert len(made) <= MAX_SLUG_LENGTH
        assert made == wanted if number == 1 else made.endswith(f"-{number}")
        taken.add(made)


@pytest.mark.parametrize(
    ("given_name", "kept"),
    [
        ("Web Shop", "Web Shop"),
        ("  trimmed\u3000", "trimmed"),
        ("Cafe\u0301", "Café"),
        ("[/red] 'quoted' <b>", "[/red] 'quoted' <b>"),
        ("東京 🌙", "東京 🌙"),
        ("x" * MAX_NAME_LENGTH, "x" * MAX_NAME_LENGTH),
    ],
)
def test_a_name_is_stored_in_normal_form(given_name: str, kept: str) -> None:
    assert display_name(given_name) == kept


@pytest.mark.parametrize(
    ("given_name", "reason"),
    [
        ("", "too_short"),
        (" \u3000 ", "too_short"),
        ("x" * (MAX_NAME_LENGTH + 1), "too_long"),
        ("bell\a", "character"),
        ("\x1b[31mred", "character"),
        ("two\nlines", "character"),
        ("left\u202eright", "character"),
        ("zero\u200bwidth", "character"),
        ("line\u2028separator", "character"),
        ("half\ud800", "character"),
        ("c1\x9bcontrol", "character"),
    ],
)
def test_a_name_that_cannot_be_shown_is_refused_with_the_reason(given_name: str, reason: str) -> None:
    with pytest.raises(ApiError) as refused:
        display_name(given_name)
    assert refused.value.body["code"] == "INVALID_INPUT"
    assert refused.value.body["details"] == {
        "member": "displayName",
        "reason": reason,
        "min": 1,
        "max": MAX_NAME_LENGTH,
    }


@given(st.text(max_size=300))
def test_a_stored_name_is_stable_and_displayable(name: str) -> None:
    try:
        kept = display_name(name)
    except ApiError:
        return
    assert display_name(kept) == kept
    assert unicodedata.is_normalized("NFC", kept)
    assert 1 <= len(kept) <= MAX_NAME_LENGTH
    assert kept.isprintable() or all(c.isprintable() or unicodedata.category(c) in ("Zs", "Co") for c in kept)


INVISIBLE = ["\u3164", "\u2800", "\ufe0f", "\U000e0100", "\u115f\u1160", "\uffa0 \u3164", "\u034f", "\u180b", "\u17b4"]


@pytest.mark.parametrize("name", INVISIBLE)
def test_an_invisible_name_is_refused_but_can_be_looked_up(name: str) -> None:
    with pytest.raises(ApiError) as caught:
        display_name(name)
    assert caught.value.body["details"]["reason"] == "character"
    assert stored_name(name) == name
    assert display_name(f"a{name}b") == f"a{name}b"
    with pytest.raises(ApiError):
        quota_request.reason(name)
    with pytest.raises(ApiError):
        resource_rules.validate_tags({name: "value"}, kinds()["instance"])
    with pytest.raises(ApiError):
        api_key_validation.name(name)


@pytest.mark.parametrize("name", INVISIBLE[:3])
def test_no_route_accepts_an_invisible_name_and_stored_ones_are_readable(
    platform: Running, platform_database: Database, name: str
) -> None:
    tenant = f"/api/v1/tenants/{WEB_SHOP}"
    policy = {"document": document(allow("compute:*"))}
    groups, policies = f"{tenant}/iam/groups", f"{tenant}/iam/policies"
    for method, path, body in (
        ("POST", groups, {"name": name}),
        ("POST", policies, {"name": name} | policy),
        ("PATCH", tenant, {"displayName": name}),
        ("POST", f"/api/v1/organizations/{AURORA}/tenants", {"displayName": name}),
        ("POST", f"{tenant}/api-keys", {"name": name, "scopes": ["compute:read"]}),
        ("POST", f"{tenant}/resources/secret", {"name": name, "region": "se-sto-1"}),
    ):
        assert platform.ask(method, path, as_=OWNER, body=body).status == 400
    shown = f"shown {uuid4()}"
    group = platform.ask("POST", groups, as_=OWNER, body={"name": shown}).json()["id"]
    made = platform.ask("POST", policies, as_=OWNER, body={"name": shown} | policy).json()["id"]
    with platform_database.write() as connection:
        for table, identifier in ((tables.groups, group), (tables.policies, made)):
            connection.execute(update(table).where(table.c.id == identifier).values(name=name))
    assert platform.get(f"{groups}/{group}", as_=OWNER).json()["name"] == name
    found = platform.get(f"{policies}?{urlencode({'name': name})}", as_=OWNER)
    assert [one["id"] for one in found.json()["policies"]] == [made]
    changed = platform.ask("PATCH", f"{groups}/{group}", as_=OWNER, body={"description": "still there"})
    assert (changed.status, changed.json()["name"]) == (200, name)
    for path in (f"{groups}/{group}", f"{policies}/{made}"):
        assert platform.ask("DELETE", path, as_=OWNER).status == 204
