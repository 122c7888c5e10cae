"""`frost tenant quota` against scripted responses, and quota plans compared with a unit by unit search."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.quota_rules import AT_ONCE, FITS, REVIEW, SUPPORT, UNKNOWN, what_if
from tests.client.scripted import Scripted, refused
from tests.client.wire import answer

REQUEST = ("tenant", "quota", "request")
REPORT = "/quotas-report"
REQUESTS = "/quota-requests"


def quota(resource_type: str, used: int | None, limit: int, unit: str = "count", **more: Any) -> dict[str, Any]:
    return {"resourceType": resource_type, "title": "", "used": used, "limit": limit, "unit": unit, **more}


QUOTAS = [
    quota("instance", 7, 20, requestable=50, creating=2),
    quota("vcpu", None, 20, requestable=100),
    quota("ram", 1536, 65536, "mb", requestable=131072),
    quota("disk", 600, 500, "gb", requestable=500),
    quota("gpu", 0, 0, requestable=4),
    quota("qubit", 3, 9, "entanglements"),
]


@pytest.fixture
def quotas(platform: Scripted) -> Scripted:
    platform.on(f"GET {REPORT}", {"report": {"scope": "tenant", "quotas": QUOTAS}})
    platform.on("GET /quotas", {"instances": 20, "images": 0, "imageStorageGb": 100})
    platform.on("GET /quotas/usage", {"instances": 7, "images": 0, "imageStorageGb": None})
    return platform


def rows(table: str) -> dict[str, list[str]]:
    """The lines of a table by their first word."""
    return {line.split()[0]: line.split()[1:] for line in table.splitlines()[1:]}


def made(status: str, limit: int, before: int, resource_type: str = "instance", **more: Any) -> bytes:
    record = {"id": "q1", "scope": "tenant", "resourceType": resource_type, "unit": "count", "from": before}
    return answer(201, {"request": {**record, "limit": limit, "status": status, "decision": None, **more}})


def test_the_table_shows_figures_in_their_units(quotas: Scripted) -> None:
    ended = quotas.run("tenant", "quota")
    table = rows(ended.out)
    assert table["instance"][:2] == ["7", "20"]
    assert table["vcpu"] == ["—", "20"]
    assert table["ram"] == ["1.5", "GB", "64", "GB"]
    assert table["disk"] == ["600", "GB", "500", "GB", "100", "GB", "over", "the", "limit"]
    assert table["gpu"] == ["0", "0", "no", "allowance"]
    assert table["qubit"] == ["3", "entanglements", "9", "entanglements"]
    assert "over the limit: disk" in ended.err


def test_the_document_has_every_type_unknown_as_null_and_images_always(quotas: Scripted) -> None:
    items = {one["resourceType"]: one for one in quotas.document("tenant", "quotas")["items"]}
    assert (items["vcpu"]["used"], items["ram"]["used"]) == (None, 1536)
    assert items["image"] == quota("image", 0, 0) | {"title": "Custom images"}
    assert items["image_storage"]["used"] is None
    table, wide = (rows(quotas.run("tenant", "quota", "-o", form).out) for form in ("table", "wide"))
    assert set(wide) - set(table) == {"image"}
    assert table["image_storage"] == ["—", "100", "GB"]


def test_an_answer_that_is_no_report_is_not_believed(quotas: Scripted) -> None:
    reports: list[Any] = [{}, {"quotas": [{"resourceType": "x"}]}, {"quotas": [quota("x", True, 5)]}, {"quotas": 7}]
    figures = ({"unit": None}, {"requestable": "50"}, {"creating": "2"}, {"allocated": [1]})
    reports += [{"quotas": [quota("x", 1, 5) | members]} for members in figures]
    for report in reports:
        quotas.on(f"GET {REPORT}", {"report": report})
        for words in (["tenant", "quota"], *([*REQUEST, "x", limit, "--reason", "y"] for limit in "59")):
            ended = quotas.run(*words)
            assert (ended.code, ended.out) == (1, "")
            assert "not a quota report" in ended.err


@pytest.mark.parametrize("org", [[], ["--org"]])
def test_only_plain_digits_up_to_two_to_the_53rd_are_a_number(quotas: Scripted, org: list[str]) -> None:
    numbers = ("40.5", "-1", "+40", "1e3", "0x28", "1_000", "４０", "٤٠", "", " 40", "40\n", "²", "9007199254740993")
    for number in numbers:
        ended = quotas.run(*REQUEST, "instance", "--reason", "launch", *org, "--", number)
        assert (ended.code, ended.out, quotas.sent()) == (2, "", [])
        assert "whole number in digits" in ended.err


def test_an_invalid_quota_request_is_not_sent(quotas: Scripted) -> None:
    for words, message in (
        (["instance", "30"], "--reason"),
        (["instance", "30", "--reason", ""], "reason"),
        (["instance", "30", "--reason", " \t"], "reason"),
        (["instance", "30", "--reason", "x" * 501], "500"),
        (["instance", "--reason", "x"], "NEW_LIMIT"),
        (["image", "5", "--reason", "x"], "contact support"),
        (["image_storage", "5", "--reason", "x", "--org"], "contact support"),
    ):
        ended = quotas.run(*REQUEST, *words)
        assert (ended.code, ended.out, quotas.sent()) == (2, "", [])
        assert message.casefold() in ended.err.casefold()
    # Flags of the list are not dropped in front of a command.
    ended = quotas.run("tenant", "quota", "--org", "request", "instance", "30", "--reason", "x")
    assert (ended.code, quotas.sent(), "--org" in ended.err) == (2, [], True)


def test_an_unknown_type_is_refused_with_those_there_are(quotas: Scripted) -> None:
    for unknown in ("Instance", "instances", "nothing"):
        ended = quotas.run(*REQUEST, unknown, "30", "--reason", "x", "-o", "json")
        assert (ended.code, quotas.sent()) == (2, [f"GET {REPORT}"])
        known = json.loads(ended.err)["error"]["details"]["known"]
        assert known == [one["resourceType"] for one in quotas.document("tenant", "quota")["items"]]
    assert "did you mean instance?" in quotas.run(*REQUEST, "Instance", "30", "--reason", "x").err.casefold()


def test_above_the_bound_the_refusal_is_the_same_before_and_after_sending(quotas: Scripted) -> None:
    before = quotas.run(*REQUEST, "ram", "131073", "--reason", "x", "-o", "json")
    assert quotas.sent() == [f"GET {REPORT}"]
    details = {"resourceType": "ram", "limit": 131073, "requestable": 131072, "current": 65536}
    # The bound was higher when the command read it.
    quotas.on(f"GET {REPORT}", {"report": {"quotas": [quota("ram", 0, 65536, "mb", requestable=2**30)]}})
    quotas.on(f"POST {REQUESTS}", refused(409, "QUOTA_BOUND_EXCEEDED", "without review…", details=details))
    after = quotas.run(*REQUEST, "ram", "131073", "--reason", "x", "-o", "json")
    assert f"POST {REQUESTS}" in quotas.sent()
    assert (before.code, after.code) == (1, 1)
    first, second = json.loads(before.err)["error"], json.loads(after.err)["error"]
    assert {**first, "requestId": ""} == {**second, "requestId": ""}
    assert "131072 MB (128 GB)" in first["message"]
    assert "--org" in first["hint"]


def test_exactly_at_the_bound_it_is_sent_as_the_new_limit(quotas: Scripted) -> None:
    quotas.on(f"POST {REQUESTS}", made("approved", 131072, 65536, "ram", unit="mb"))
    ended = quotas.run(*REQUEST, "ram", "131072", "--reason", " launch ")
    assert ended.code == 0
    assert json.loads(quotas.heard[-1].body) == {"resourceType": "ram", "limit": 131072, "reason": "launch"}
    assert quotas.heard[-1].headers["idempotency-key"]
    assert "131072 MB (128 GB)" in ended.out
    assert "131072 MB (128 GB)" in ended.err


def test_lowering_needs_yes_and_prints_the_command(quotas: Scripted) -> None:
    ended = quotas.run(*REQUEST, "ram", "1024", "--reason", "less is enough")
    assert (ended.code, ended.out, quotas.sent()) == (2, "", [f"GET {REPORT}"])
    assert "tenant quota request ram 1024 --reason 'less is enough' --yes" in ended.err
    ended = quotas.run(*REQUEST, "--reason", "x", "--", "ram", "1024")
    assert "tenant quota request ram 1024 --reason x --yes" in ended.err
    assert "65536 MB (64 GB)" in ended.err
    assert "1024 MB (1 GB)" in ended.err


USE = {"used": 2048, "creating": 512, "limit": 1024}


@pytest.mark.parametrize(
    ("decision", "details", "reason"),
    [
        ("2048 in use", USE, "2048 MB (2 GB) in use, 512 MB (0.5 GB) in creation"),
        ("what is in use is not known", {"reason": "usage_unknown"}, "what is in use is not known"),
        (None, None, "no reason given"),
    ],
)
def test_a_denied_request_is_a_refusal_with_its_reason(
    quotas: Scripted, decision: str | None, details: Any, reason: str
) -> None:
    quotas.on(f"POST {REQUESTS}", made("denied", 1024, 65536, "ram", decision=decision, details=details))
    ended = quotas.run(*REQUEST, "ram", "1024", "--reason", "x", "--yes")
    assert (ended.code, ended.out, reason in ended.err) == (1, "", True)


def test_the_limit_there_is_already_is_nothing_to_send(quotas: Scripted) -> None:
    for yes in ([], ["--yes"]):
        ended = quotas.run(*REQUEST, "instance", "20", "--reason", "x", *yes)
        assert (ended.code, quotas.sent()) == (0, [f"GET {REPORT}"])
        assert "already 20" in ended.err


def test_a_plan_is_printed_in_the_units_of_its_types(quotas: Scripted) -> None:
    ended = quotas.run("tenant", "quota", "what-if", "instance=4", "ram=65536", "vcpu=2", "image=1")
    assert ended.code == 1
    table = rows(ended.out)
    assert table["instance"] == ["7", "4", "11", "20", "0", "50", "fits"]
    assert " ".join(table["ram"]) == "1.5 GB 64 GB 65.5 GB 64 GB 1.5 GB 128 GB request it"
    assert table["vcpu"] == ["—", "2", "—", "20", "—", "100", "use", "unknown"]
    assert table["image"][-2:] == ["contact", "support"]
    assert "ram 67072 --reason TEXT" in ended.err
    assert "the limit of image can be changed only by support" in ended.err
    assert [quotas.run("tenant", "quota", "what-if", plan).code for plan in ("instance=4", "vcpu=2")] == [0, 0]
    for plan, times in (("instance=4", "3 times over"), ("instance=13", "once")):
        assert f"the plan fits {times}\n" in quotas.run("tenant", "quota", "what-if", plan).err
    unknown = quotas.run("tenant", "quota", "what-if", "vcpu=22")
    assert unknown.code == 1
    assert "at least 2 of vcpu short; its use is unknown; at once: frost tenant quota request " in unknown.err
    assert "vcpu 22 --reason TEXT" in unknown.err
    beyond = quotas.run("tenant", "quota", "what-if", "instance=44")
    assert beyond.code == 1
    assert "31 of instance short; 51 is more than the 50 that need no review" in beyond.err
    assert "frost tenant quota --config" in beyond.err
    assert not [one for one in quotas.sent() if not one.startswith("GET ")]
    for wrong in (["instance"], ["=4"], ["instance=x"], ["instance=1", "instance=2"], ["nothing=1"], []):
        assert quotas.run("tenant", "quota", "what-if", *wrong).code == 2


SMALL = st.integers(0, 30)
QUOTA = st.fixed_dictionaries(
    {"used": st.none() | SMALL, "limit": SMALL, "unit": st.just("count")},
    optional={"requestable": st.integers(0, 60)},
)
PLANNED_QUOTAS = st.dictionaries(st.sampled_from(["vcpu", "ram", "volume", "image"]), QUOTA, min_size=1).map(
    lambda result: [{"resourceType": name, **quota} for name, quota in result.items()]
)


@st.composite
def plans(draw: st.DrawFn) -> tuple[list[dict[str, Any]], dict[str, int]]:
    quotas = draw(PLANNED_QUOTAS)
    names = draw(st.lists(st.sampled_from([one["resourceType"] for one in quotas]), unique=True, min_size=1))
    return quotas, {name: draw(SMALL) for name in names}


def fits(quotas: list[dict[str, Any]], wanted: dict[str, int], times: int) -> bool:
    """Whether this number fits, as far as the use is known."""
    return all(
        one["used"] is None or not wanted.get(one["resourceType"])
        or one["used"] + times * wanted[one["resourceType"]] <= one["limit"]
        for one in quotas
    )  # fmt: skip


@given(plans())
def test_a_plan_fits_as_often_as_it_can_be_carried_out(plan: tuple[list[dict[str, Any]], dict[str, int]]) -> None:
    quotas, wanted = plan
    result = what_if(quotas, wanted)
    if result.times is None:
        assert result.first is None
        assert all(need.used is None or not need.addition for need in result.needs)
        return
    assert result.times == 0 or fits(quotas, wanted, result.times)
    assert not fits(quotas, wanted, result.times + 1)
    # The first exceeded quota is exceeded by the first plan too many, or is the nearest one.
    by_type = {one["resourceType"]: one for one in quotas}
    first = by_type[str(result.first)]
    assert first["used"] + (result.times + 1) * wanted[first["resourceType"]] > first["limit"]
    parts = {
        one["resourceType"]: (one["limit"] - one["used"]) / wanted[one["resourceType"]]
        for one in quotas
        if wanted.get(one["resourceType"]) and one["used"] is not None
    }
    assert parts[str(result.first)] == min(parts.values())


@given(plans())
def test_every_need_is_answered_from_its_quota(plan: tuple[list[dict[str, Any]], dict[str, int]]) -> None:
    quotas, wanted = plan
    by_type = {one["resourceType"]: one for one in quotas}
    result = what_if(quotas, wanted)
    for need in result.needs:
        quota, bound = by_type[need.resource_type], by_type[need.resource_type].get("requestable")
        known = need.used is not None
        assert need.after == (quota["used"] + need.addition if known else None)
        assert need.short == (max(need.after - need.limit, 0) if known and need.after is not None else None)
        least = need.after if need.after is not None else need.addition
        over = bool(need.addition) and least > quota["limit"]
        if not over:
            assert need.answer == (FITS if known or not need.addition else UNKNOWN)
        else:
            assert need.answer == (SUPPORT if bound is None else AT_ONCE if least <= bound else REVIEW)
    answers = {need.answer for need in result.needs}
    assert result.fits is (False if answers - {FITS, UNKNOWN} else None if UNKNOWN in answers else True)
