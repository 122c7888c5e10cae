"""Which tenant is used and why; finding one by name."""

import unicodedata
from typing import Any

import pytest

from client import tenancy
from client.config.reader import Context, Stored
from client.errors import Exit, FrostError
from client.name_lookup import ambiguous_lines
from client.tenancy import Selection, find, resolve
from tests.client.scripted import TENANT, Scripted
from tests.client.wire import answer

A, B, C, D = (f"{digit * 8}-1111-4111-8111-{digit * 12}" for digit in "abcd")


def context(tenant: str = "") -> Context:
    return Context("local", "unix:/s", "", tenant, False, Stored(), False, {})


def never() -> str:
    raise AssertionError("a request was sent although a flag or a file named the tenant")


def test_flag_then_variable_then_context_then_default() -> None:
    environ = {"FROST_TENANT": B}
    assert resolve(A, environ, context(C), never) == Selection(A, "flag")
    assert resolve(A.upper(), environ, context(C), never) == Selection(A, "flag")
    assert resolve(None, environ, context(C), never) == Selection(B, "variable")
    assert resolve(None, {"FROST_TENANT": ""}, context(C), never) == Selection(C, "context")
    assert resolve(None, {}, context(), lambda: D) == Selection(D, "default")
    with pytest.raises(FrostError, match="--tenant is empty") as caught:
        resolve("", {}, context(C), never)
    assert caught.value.exit_code == Exit.USAGE
    with pytest.raises(FrostError) as caught:
        resolve(None, {}, context(), lambda: "")
    assert (caught.value.code, "tenant use" in caught.value.hint) == ("NO_TENANT", True)


@pytest.mark.parametrize(
    "name",
    [
        "My Tenant",
        "web-shop",
        f"{A} ",
        f"{{{A}}}",
        f"urn:uuid:{A}",
        A[:-1],
        "../" + A,
        A + "\n",
        f"{A}\r\nX-Role: owner",
        A + "\0",
    ],
)
def test_a_name_is_refused_where_an_id_is_needed(name: str) -> None:
    with pytest.raises(FrostError) as caught:
        resolve(name, {}, context(), never)
    assert (caught.value.exit_code, "tenant use" in caught.value.hint) == (Exit.USAGE, True)
    assert "--tenant" in caught.value.message
    assert caught.value.message.isprintable()
    with pytest.raises(FrostError, match="the variable FROST_TENANT"):
        resolve(None, {"FROST_TENANT": name}, context(C), never)


def test_a_refused_selection_names_its_source() -> None:
    stored = tenancy.way_out(Selection(C, "context"), "work", "/home/x/.cli/config.yaml")
    for text in (C, "tenant use NAME", "context work", "/home/x/.cli/config.yaml"):
        assert text in stored
    none = tenancy.way_out(Selection(C, "context"), "work", "/f", tenancy.NO_TENANTS)
    assert (C in none, "choose another" in none) == (True, False)
    variable = tenancy.way_out(Selection(B, "variable"), "work", "/f")
    assert (B in variable, "FROST_TENANT" in variable) == (True, True)


def tenant(id: str, name: str, slug: str, organization: str = "Aurora") -> dict[str, Any]:
    return {"id": id, "displayName": name, "slug": slug, "organizationId": D, "organizationName": organization}


SHOP, TEST_1, TEST_2 = (
    tenant(A, "Web Shop", "web-shop"),
    tenant(B, "Test", "test-1"),
    tenant(C, "Test", "test-2", "Borealis"),
)
ALL = [SHOP, TEST_1, TEST_2]


def test_a_tenant_is_found_by_id_name_or_slug_in_any_case() -> None:
    for argument in (A, A.upper(), "web shop", "WEB SHOP", "Web Shop", "web-shop", "WEB-SHOP"):
        assert find(ALL, argument) == SHOP
    assert find([tenant(A, "News", "news"), SHOP], "NEWS")["id"] == A
    # An id goes before a name that looks like it.
    assert find([tenant(B, A, "liar"), SHOP], A) == SHOP
    assert find([tenant(B, A, "liar")], A)["id"] == B
    cafe = tenant(A, "Café Straße", "cafe")
    for form in ("NFC", "NFD"):
        assert find([cafe], unicodedata.normalize(form, "CAFÉ STRASSE")) == cafe
    for argument in ("nope", D, "", "web  shop", "web_shop", "ᴡeb shop", "Wеb Shop"):
        with pytest.raises(FrostError) as caught:
            find(ALL, argument)
        assert (caught.value.code, caught.value.exit_code) == ("NOT_FOUND", Exit.NOT_FOUND)


def test_two_of_one_name_are_refused_with_id_organization_and_slug() -> None:
    with pytest.raises(FrostError) as caught:
        find(ALL, "test")
    lines = ambiguous_lines(caught.value)
    for line, texts in zip(lines, ((B, "test-1"), (C, "test-2")), strict=True):
        assert all(text in line for text in texts)
    assert "Aurora" in "".join(lines)
    assert "Borealis" in "".join(lines)
    assert caught.value.details is not None
    assert [one["id"] for one in caught.value.details["tenants"]] == [B, C]
    assert caught.value.exit_code == Exit.REFUSED


def test_an_ambiguous_name_is_refused_with_up_to_ten_tenants() -> None:
    with pytest.raises(FrostError, match="2 tenants"):
        find([tenant(A, "x", "news"), tenant(B, "News", "y")], "news")
    many = [tenant(f"{n:08d}-1111-4111-8111-111111111111", "Test", f"t{n}") for n in range(500)]
    with pytest.raises(FrostError, match="500 tenants") as caught:
        find(many, "test")
    lines = ambiguous_lines(caught.value)
    assert (len(lines), lines[-1]) == (11, "  and 490 more")
    evil = [tenant(A, "x", "evil", "\x1b]0;PWNED\x07"), tenant(B, "evil", "y", "b")]
    with pytest.raises(FrostError) as caught:
        find(evil, "evil")
    assert "\x1b" not in caught.value.message + "".join(ambiguous_lines(caught.value))


def test_an_invalid_display_name_is_refused_with_its_flag() -> None:
    for name in ("", "  ", "x" * 129, "a\x1bb", "a\nb"):
        with pytest.raises(FrostError, match="--name") as caught:
            tenancy.check_display_name(name)
        assert (caught.value.exit_code, "\x1b" in caught.value.message) == (Exit.USAGE, False)
    # The platform checks other names.
    for name in ("x" * 128, f" {'x' * 128} ", "東京", "e\u0301" * 128):
        assert tenancy.check_display_name(name) == name


NO_ORGANIZATION = "00000000-0000-4000-8000-000000000000"


@pytest.mark.parametrize(
    "line",
    [
        "tenant list --organization ORG",
        "tenant create --name x --organization ORG",
        "tenant use x --organization ORG",
        "tenant current --organization ORG",
        "tenant rename TENANT --name x --organization ORG",
        "tenant default-tags get --organization ORG",
        "tenant default-tags set --tag a=b --organization ORG",
        "tenant default-tags history --organization ORG",
        "tenant activity --organization ORG",
        "tenant activity --org --organization ORG",
        "tenant quota --organization ORG",
        "tenant quota --org --organization ORG",
        "tenant quota requests --org --organization ORG",
        "tenant --organization ORG list",
    ],
)
@pytest.mark.parametrize("value", ["ID", "aurora"])
@pytest.mark.parametrize("status", [403, 404])
def test_an_error_about_an_organization_names_the_given_value(
    platform: Scripted, line: str, value: str, status: int
) -> None:
    given = NO_ORGANIZATION.upper() if value == "ID" else value
    organization = {"id": NO_ORGANIZATION, "name": "Aurora", "slug": "aurora", "role": "viewer"}
    platform.on("GET /api/v1/organizations", {"organizations": [organization]})
    route = f"/api/v1/organizations/{NO_ORGANIZATION}"
    refusal = answer(status, {"code": "NOT_FOUND" if status == 404 else "FORBIDDEN", "message": "no such thing"})
    for path in ("", "/tenants", "/quotas-report", "/quota-requests", "/activity"):
        for method in ("GET", "POST"):
            platform.on(f"{method} {route}{path}", refusal)
    ended = platform.run(*line.replace("ORG", given).replace("TENANT", TENANT).split())
    assert ended.code == (5 if status == 404 else 4), ended
    assert f"--organization {given}: " in ended.err
