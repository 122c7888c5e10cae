"""Display names, slugs and ids."""

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
from service.validation import (
    MAX_NAME_LENGTH,
    MAX_SLUG_LENGTH,
    canonical_id,
    display_name,
    free_slug,
    is_id,
    slug,
    stored_name,
)
from tests.people import AURORA
from tests.service.access import Iam, allow, document

SLUG = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


def test_the_slug_of_a_name() -> None:
    for name, expected in (
        *(("Web Shop", "web-shop"), ("  Data__Lake!! ", "data-lake"), ("Crème Brûlée", "creme-brulee")),
        *(("Straße nach Łódź", "strasse-nach-lodz"), ("ﬁne ①②", "fine-12"), ("İstanbul", "istanbul")),
        *(("東京", "tenant"), ("-", "tenant"), ("../etc/passwd", "etc-passwd"), ("x" * 60, "x" * 48)),
        *(("'; DROP TABLE tenants --", "drop-table-tenants"), ("a" * 47 + " b", "a" * 47)),
    ):
        assert slug(name) == expected


@pytest.mark.slow
@given(st.text(min_size=1, max_size=200))
def test_every_name_has_a_plain_slug_that_is_its_own_slug(name: str) -> None:
    made = slug(name)
    assert SLUG.fullmatch(made)
    assert len(made) <= MAX_SLUG_LENGTH
    assert slug(made) == made


@given(st.text("ab-", min_size=1, max_size=60), st.integers(0, 120))
def test_a_taken_slug_gets_the_first_free_number_within_the_length(name: str, already: int) -> None:
    free, taken = slug(name), set[str]()
    for number in range(1, already + 2):
        made = free_slug(free, frozenset(taken))
        assert made not in taken
        assert SLUG.fullmatch(made)
        assert len(made) <= MAX_SLUG_LENGTH
        assert made == free if number == 1 else made.endswith(f"-{number}")
        taken.add(made)


def test_a_name_is_stored_in_normal_form() -> None:
    for name in ("Web Shop", "[/red] 'quoted' <b>", "東京 🌙", "x" * MAX_NAME_LENGTH):
        assert display_name(name) == name
    assert (display_name("  trimmed\u3000"), display_name("Cafe\u0301")) == ("trimmed", "Café")


def test_a_name_that_cannot_be_shown_is_refused_with_the_reason() -> None:
    hidden = ("bell\a", "\x1b[31mred", "two\nlines", "left\u202eright", "zero\u200bwidth", "line\u2028separator")
    for name, reason in (
        *(("", "too_short"), (" \u3000 ", "too_short"), ("x" * (MAX_NAME_LENGTH + 1), "too_long")),
        *((name, "character") for name in (*hidden, "half\ud800", "c1\x9bcontrol")),
    ):
        with pytest.raises(ApiError) as refused:
            display_name(name)
        limits = {"member": "displayName", "min": 1, "max": MAX_NAME_LENGTH}
        assert refused.value.body["code"] == "INVALID_INPUT"
        assert refused.value.body["details"] == limits | {"reason": reason}, name


@given(st.text(max_size=300))
def test_a_stored_name_is_stable_and_displayable(name: str) -> None:
    try:
        stored = display_name(name)
    except ApiError:
        return
    assert display_name(stored) == stored
    assert unicodedata.is_normalized("NFC", stored)
    assert 1 <= len(stored) <= MAX_NAME_LENGTH
    assert stored.isprintable() or all(c.isprintable() or unicodedata.category(c) in ("Zs", "Co") for c in stored)


INVISIBLE = ["\u3164", "\u2800", "\ufe0f", "\U000e0100", "\u115f\u1160", "\uffa0 \u3164", "\u034f", "\u180b", "\u17b4"]


@pytest.mark.parametrize("name", INVISIBLE)
def test_an_invisible_name_is_refused_but_can_be_looked_up(name: str) -> None:
    with pytest.raises(ApiError) as caught:
        display_name(name)
    assert caught.value.body["details"]["reason"] == "character"
    assert stored_name(name) == name
    assert display_name(f"a{name}b") == f"a{name}b"
    for refuse in (
        lambda: quota_request.reason(name),
        lambda: resource_rules.validate_tags({name: "value"}, kinds()["instance"]),
        lambda: api_key_validation.name(name),
    ):
        with pytest.raises(ApiError):
            refuse()


def test_no_route_accepts_an_invisible_name_and_stored_ones_are_readable(iam: Iam, demo_database: Database) -> None:
    name, policy = INVISIBLE[0], {"document": document(allow("compute:*"))}
    for method, path, body in (
        *(("POST", "/iam/groups", {"name": name}), ("POST", "/iam/policies", {"name": name} | policy)),
        *(("PATCH", "", {"displayName": name}), ("POST", "/resources/secret", {"name": name, "region": "se-sto-1"})),
        ("POST", "/api-keys", {"name": name, "scopes": ["compute:read"]}),
    ):
        assert iam.ask(method, path, body).status == 400, path
    tenants = f"/api/v1/organizations/{AURORA}/tenants"
    assert iam.platform.ask("POST", tenants, as_=iam.person, body={"displayName": name}).status == 400
    shown = f"shown {uuid4()}"
    group, made = iam.group(shown), iam.policy(shown, allow("compute:*"))
    with demo_database.write() as connection:
        for table, identifier in ((tables.groups, group), (tables.policies, made)):
            connection.execute(update(table).where(table.c.id == identifier).values(name=name))
    assert iam.get(f"/iam/groups/{group}")["name"] == name
    assert [one["id"] for one in iam.get(f"/iam/policies?{urlencode({'name': name})}")["policies"]] == [made]
    changed = iam.ask("PATCH", f"/iam/groups/{group}", {"description": "still there"})
    assert (changed.status, changed.json()["name"]) == (200, name)
    for path in (f"/iam/groups/{group}", f"/iam/policies/{made}"):
        assert iam.ask("DELETE", path).status == 204


ID = "01a0c0de-0000-7000-8000-00000000000a"


def test_every_spelling_of_an_id_has_one_canonical_form() -> None:
    for text in (ID, ID.upper(), ID.replace("-", ""), f"{{{ID}}}", f"urn:uuid:{ID}", f"URN:UUID:{{{ID.upper()}}}"):
        assert canonical_id(text, "tenant") == ID
        assert is_id(text) is (text == ID)
    invalid = ("", "x", ID[:-1], ID + "0", f"{{{ID}", f"{ID}}}", f" {ID}", f"{ID}\n", ID.replace("a", "١"))
    for text in (*invalid, "0_" + ID[2:]):
        assert not is_id(text)
        with pytest.raises(ApiError, match="invalid tenant ID"):
            canonical_id(text, "tenant")
