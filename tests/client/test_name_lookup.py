"""Find records by name: exact names first, then any letter case; and the form of names that are easily confused."""

import unicodedata

import pytest

from client.errors import FrostError
from client.models.validation import name_key
from client.name_lookup import GROUP, TENANT, find_by_name, match

OPS = {"id": "1", "name": "Ops"}
LOWER = {"id": "2", "name": "ops"}
E_ACUTE = {"id": "3", "name": "Équipe"}


def test_an_exact_name_wins_and_otherwise_the_case_is_folded_if_that_is_unique() -> None:
    for record in (OPS, LOWER):
        assert match(GROUP, [OPS, LOWER, E_ACUTE], record["name"]) == record
    assert match(GROUP, [OPS, E_ACUTE], "OPS") == OPS
    with pytest.raises(FrostError, match="2 groups"):
        match(GROUP, [OPS, LOWER], "OPS")
    with pytest.raises(FrostError, match="2 groups"):
        match(GROUP, [OPS, {**OPS, "id": "4"}, LOWER], "Ops")
    assert match(GROUP, [OPS], "dev") is None


@pytest.mark.parametrize("typed", ["  Ops ", "\tOps\n", " Ops"])
def test_a_name_is_looked_up_as_it_is_stored(typed: str) -> None:
    assert match(GROUP, [OPS, LOWER], typed) == OPS
    decomposed = unicodedata.normalize("NFD", f" {E_ACUTE['name']} ")
    assert match(GROUP, [OPS, E_ACUTE], decomposed) == match(GROUP, [E_ACUTE], "éQUIPE") == E_ACUTE


def test_a_preferred_record_wins_only_over_others_in_the_same_spelling() -> None:
    revoked, active = {**OPS, "status": "revoked"}, {**LOWER, "status": "active"}
    same = {**OPS, "id": "5", "status": "active"}
    for records, name, found in (
        ([revoked, active], "Ops", revoked),
        ([revoked, active], "OPS", active),
        ([revoked, same], "Ops", same),
    ):
        assert match(GROUP, records, name, prefer=lambda record: record["status"] == "active") == found


def test_a_tenant_is_named_in_any_letter_case_as_the_contract_says() -> None:
    shops = [{"id": number, "displayName": name, "slug": f"s{number}"} for number, name in enumerate(("Shop", "shop"))]
    with pytest.raises(FrostError, match="2 tenants"):
        match(TENANT, shops, "Shop")
    assert find_by_name(shops, "Shop", TENANT.names) == shops[:1]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Ops", "ops"),
        ("ﬁles", "Files"),
        ("ＯＰＳ", "ops"),
        ("o\u2060ps\ufe0f", "ops"),
        ("straße", "STRASSE"),
        ("a\u3164", "A"),
        ("Cafe\u0301", "CAFÉ"),
        ("ſ", "S"),
        ("K", "\u212a"),
    ],
)
def test_names_that_differ_only_in_case_or_in_characters_that_are_not_seen_have_one_key(one: str, other: str) -> None:
    assert name_key(one) == name_key(other) != ""


@pytest.mark.parametrize("plain", ["", "ops", "Web Shop", " a  B ", "a\tb\x1f", "[x]-9_"])
def test_the_key_of_an_ascii_name_is_made_as_that_of_others(plain: str) -> None:
    assert name_key(plain) == name_key(f"\ufe0f{plain}") == name_key(name_key(plain))


def test_look_alikes_of_other_scripts_stay_different() -> None:
    assert name_key("ops") != name_key("орs")
    assert name_key("a b") != name_key("ab")
