"""Policies, from the command line. What a document must be is held line by line in tests/policy and
tests/service; here it is said to the person who typed it, with the place in their own text.
"""

import json
import os

import pytest

from tests.acceptance.iam import ANYTHING, IDENTITIES, KEYS, NO_ID, READ_TENANTS, Desk, allow, deny, text
from tests.acceptance.people import DATA_LAKE, MEMBER, OWNER, REGIONAL, VIEWER

CREATE = ("policy", "create", "--name", "p", "--document")


def file(desk: Desk, content: str | bytes, name: str = "policy.json") -> str:
    """`@file` with this content."""
    path = desk.home.path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return f"@{name}"


def document_of(desk: Desk, policy: str) -> object:
    return desk.done("policy", "get", policy)["document"]


def test_a_policy_is_made_with_what_is_given(desk: Desk) -> None:
    rule = allow("compute:instances:read", targets=("frn:compute:*:*:instances/*",), equals={"frn:region": "fi-hel-1"})
    made = desk.done(*CREATE, text(rule), "--description", "d")
    assert (made["name"], made["description"], made["version"]) == ("p", "d", 1)
    assert made["document"] == {"schemaVersion": "1", "rules": [rule]}
    assert desk.done("policy", "get", made["id"]) == made


def test_a_name_that_another_policy_has_is_taken_with_a_warning(desk: Desk) -> None:
    first = desk.policy(READ_TENANTS, name="twin")
    again = desk.iam("policy", "create", "--name", "twin", "--document", text(READ_TENANTS), "-o", "json", "-q")
    assert (again.code, again.err) == (0, f'frost: warning: policy {first} has the name "twin" too\n')
    second = again.json()["id"]
    assert desk.iam("policy", "update", second, "--description", "the other", "-q").err == ""
    assert desk.iam("policy", "update", second, "--name", "Twin", "-q").err == ""
    assert f"policy {first} has the name" in desk.iam("policy", "update", second, "--name", "twin").err
    assert (
        f"policy {second} has the name"
        in desk.iam("policy", "update", first, "--name", " twin ", "--description", "d").err
    )
    alone = desk.iam("policy", "create", "--name", "no twin", "--document", text(READ_TENANTS), "-q")
    assert (alone.code, alone.err) == (0, "")


def test_a_document_comes_inline_from_a_file_or_from_the_input(desk: Desk) -> None:
    typed = text(READ_TENANTS)
    made = [
        desk.done(*CREATE, given)["document"]
        for given in (typed, file(desk, typed), file(desk, typed.encode("utf-8-sig")))
    ]
    piped = desk.iam(*CREATE, "-", "-o", "json", stdin=typed)
    assert [*made, piped.json()["document"]] == [json.loads(typed)] * 4
    tried = ("simulate", "--operation", "organizations:tenants:read", "--target", "*", "-o", "json", "--document")
    shown = {desk.iam(*tried, given, stdin=typed).out for given in (typed, file(desk, typed), "-")}
    assert len(shown) == 1


def test_name_and_document_are_needed_to_create_and_the_document_is_not_to_update(desk: Desk) -> None:
    assert "--document is required" in desk.refused(2, "policy", "create", "--name", "p")
    assert "--name is required" in desk.refused(2, "policy", "create", "--document", text(READ_TENANTS))
    assert desk.done("policy", "update", desk.policy(READ_TENANTS), "--name", "other")["name"] == "other"


def test_only_what_is_given_is_changed(desk: Desk) -> None:
    made = desk.done(*CREATE, text(READ_TENANTS), "--description", "first")
    renamed = desk.done("policy", "update", made["id"], "--name", "new")
    assert {**renamed, "name": "p"} == {**made, "version": 2, "updatedAt": renamed["updatedAt"]}
    described = desk.done("policy", "update", made["id"], "--description", "d")
    assert (described["name"], described["description"], described["document"]) == ("new", "d", made["document"])
    rewritten = desk.done("policy", "update", made["id"], "--document", file(desk, text(allow("compute:*"))))
    assert (rewritten["name"], rewritten["description"]) == ("new", "d")
    assert rewritten["document"] == json.loads(text(allow("compute:*")))


def test_nothing_to_change_is_refused(desk: Desk) -> None:
    assert "nothing to change" in desk.refused(2, "policy", "update", NO_ID)


def test_what_is_not_there_is_not_found(desk: Desk) -> None:
    for words in (["get"], ["update", "--name", "n"], ["delete", "--force"], ["attachments"], ["history"], ["diff"]):
        assert NO_ID in desk.refused(5, "policy", *words, NO_ID)


def test_policies_belong_to_one_tenant(desk: Desk) -> None:
    there = desk.done(*CREATE, text(READ_TENANTS), "--tenant", DATA_LAKE)["id"]
    assert there in [one["id"] for one in desk.items("policy", "list", "--tenant", DATA_LAKE)]
    assert there not in [one["id"] for one in desk.items("policy", "list", "--all")]
    desk.refused(5, "policy", "get", there)
    desk.refused(5, "policy", "delete", there, "--force")


def test_deleting_asks_and_needs_force_without_a_terminal(desk: Desk) -> None:
    made = desk.policy(READ_TENANTS)
    assert "--force" in desk.refused(2, "policy", "delete", made)
    assert desk.answering("", "policy", "delete", made)[0] == 1
    assert desk.done("policy", "get", made)["id"] == made
    assert desk.answering("y", "policy", "delete", made)[0] == 0
    desk.refused(5, "policy", "get", made)
    forced = desk.policy(READ_TENANTS)
    assert desk.done("policy", "delete", forced, "--force") == {"id": forced, "status": "deleted"}


def test_what_deleting_a_policy_takes_is_said_before_and_true_after(own_desk: Desk) -> None:
    desk, identity = own_desk, IDENTITIES["not-granted-yet"]
    policy = desk.policy(READ_TENANTS)
    desk.attach(policy, "api_key", KEYS["terraform"])
    desk.attach(policy, "workload_identity", identity)
    assert desk.renames("terraform") == 403
    code, shown = desk.answering("y", "policy", "delete", policy)
    assert code == 0
    assert "loses its last policy: limited only by its scopes and its creator's permissions" in shown
    assert "loses its last permission; its next request is denied" in shown
    assert "2 attachments and 1 version" in shown
    assert desk.renames("terraform") == 200
    assert desk.access("workload_identity", identity) == {}


def test_a_policy_changed_after_the_question_was_put_is_not_deleted(desk: Desk) -> None:
    made = desk.policy(READ_TENANTS)
    program = desk.on_terminal("policy", "delete", made)
    program.wait_for("cannot be undone")
    desk.done("policy", "update", made, "--description", "needed after all")
    program.until_quiet(0.2, 5)
    program.write(b"y\r")
    assert program.wait_end() == 6
    assert "by Astrid Lindqvist: description" in program.text
    assert desk.done("policy", "get", made)["version"] == 2


BROKEN = """{
  "schemaVersion": "1",
  "rules": [
    { "access": "allow",
      "operations": ["compute:instancs:read"],
      "targets": ["*"],
      "constrains": {} }
  ]
}
"""


@pytest.mark.parametrize("by", ["@file", "-", "inline"])
def test_problems_are_told_at_their_place_in_ones_own_text(desk: Desk, by: str) -> None:
    given = {"@file": file(desk, BROKEN), "-": "-", "inline": BROKEN}[by]
    source = {"@file": "policy.json", "-": "standard input", "inline": "--document"}[by]
    for words in (CREATE, ("policy", "update", NO_ID, "--document"), ("policy", "check", "--document")):
        said = desk.refused(2, *words, given, stdin=BROKEN).splitlines()
        assert "2 problems" in said[0]
        assert said[1].startswith(f"  {source}:5:22: compute:instancs:read matches no operation")
        assert "did you mean compute:instances:read" in said[1]
        assert said[1].endswith("($.rules[0].operations[0])")
        assert said[2].startswith(f"  {source}:7:7: unknown member")
        assert "did you mean constraints?" in said[2]


RULE = '{"access":"allow","operations":["compute:*"],"targets":["*"]%s}'


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ('{"rules":[%s]}' % (RULE % ""), 'this platform supports version "1"'),
        ('{"schemaVersion":"2","rules":[%s]}' % (RULE % ""), 'schemaVersion "1"'),
        ('{"schemaVersion":1,"rules":[%s]}' % (RULE % ""), 'schemaVersion "1"'),
        ('{"schemaVersion":"1","rules":[]}', "rule"),
        ('{"schemaVersion":"1","rules":{}}', "$.rules"),
        ('{"schemaVersion":"1","rules":[%s],"x":1}' % (RULE % ""), "$.x"),
        ('{"schemaVersion":"1","schemaVersion":"1","rules":[%s]}' % (RULE % ""), "duplicated"),
        (text(allow("nothing:*")), "no operation"),
        (text(allow("compute:inst*:read")), "compute:instances:read"),
        (text(allow("*", targets=("instances/i-1",))), "$.rules[0].targets[0]"),
        (text(allow("*", targets=("frn:compute:*:instances/i-1",))), "$.rules[0].targets[0]"),
        (text(allow("*", targets=("frn:comp*:*:*:instances/i-1",))), "must be the whole part"),
        (text(allow("*", equals={"frn:region": ["a", "b"]})), "$.rules[0].constraints.equals"),
        (text(allow("*", equals={"frn:colour": "blue"})), "frn:colour"),
        (text(allow("*", ipInRange={"frn:sourceIp": ["10.0.0.1/8"]})), "10.0.0.1/8"),
        (text(allow("*", before={"frn:currentTime": "tomorrow"})), "tomorrow"),
        (text(allow("*", sameAs={"frn:region": "x"})), "sameAs"),
    ],
)
def test_each_rule_of_a_document_is_told_when_it_is_broken(desk: Desk, given: str, expected: str) -> None:
    said = desk.refused(2, "policy", "check", "--document", given)
    assert expected in said
    assert "frost: --document:1:" in said


@pytest.mark.parametrize(
    "rule",
    [
        allow("compute:*"),
        allow("*:*:delete"),
        allow("*"),
        allow("compute:instances:read", targets=("frn:storage:*:*:buckets/logs-*",)),
        allow("compute:instances:read", targets=("frn:compute:*:*:instances/a:b:c",)),
        allow("*", equals={"frn:principalType": "api_key", "frn:tenant": "t"}, like={"frn:requestTag/env": "d*"}),
        allow("*", ipInRange={"frn:sourceIp": ["10.0.0.0/8", "2001:db8::/32"]}, notEquals={"frn:resourceTag/env": "p"}),
        allow(
            "*", after={"frn:currentTime": "2026-01-01T00:00:00Z"}, before={"frn:currentTime": "2027-01-01T00:00:00Z"}
        ),
    ],
)
def test_what_the_language_has_is_accepted(desk: Desk, rule: dict[str, object]) -> None:
    assert desk.done("policy", "check", "--document", text(rule))["answer"] == "within"


def test_denies_win_constraints_narrow_and_unknown_fails_closed(desk: Desk) -> None:
    def decided(*rules: dict[str, object], **flags: str) -> tuple[str, str]:
        words = [word for name, value in flags.items() for word in (f"--{name.replace('_', '-')}", value)]
        asked = ("simulate", "--operation", "compute:instances:read", "--target", "*", "--document")
        found = desk.done(*asked, text(*rules), *words)
        return found["decision"], found["reason"]

    everything, shut = allow("*"), deny("compute:*")
    assert decided(allow("dns:*")) == ("denied", "no_match")
    assert decided(everything, shut) == decided(shut, everything) == ("denied", "explicit_deny")
    only = deny("*", equals={"frn:region": "fi-hel-1"}, like={"frn:requestTag/env": "p*"})
    assert decided(everything, only, region="fi-hel-1", request_tag="env=dev") == ("allowed", "allowed")
    assert decided(everything, only, region="fi-hel-1", request_tag="env=prod") == ("denied", "explicit_deny")
    assert decided(everything, only, region="fi-hel-1") == ("denied", "explicit_deny")
    assert decided(allow("*", equals={"frn:region": "fi-hel-1"})) == ("denied", "unknown_context")


def test_a_policy_beyond_its_author_is_refused_with_what_it_would_allow(own_desk: Desk) -> None:
    desk = own_desk
    desk.home.sign_in(VIEWER)
    narrow = allow("compute:instances:delete", targets=("frn:compute:*:*:instances/web-*",))
    said = desk.refused(4, *CREATE, text(allow("compute:*:read"), narrow)).splitlines()
    assert said[0].startswith("frost: a policy cannot grant more than its author has")
    assert said[1].startswith("  compute:instances:delete on frn:compute:")
    assert "instances/web-" in said[1]
    assert said[-1] == "    rule 2 allows it; you do not have this permission"
    checked = desk.iam("policy", "check", "--document", text(narrow))
    assert (checked.code, checked.out.splitlines()[0].startswith("grants more than you have")) == (4, True)
    (example,) = json.loads(desk.iam("policy", "check", "--document", text(narrow), "-o", "json").out)[
        "counterexamples"
    ]
    assert example["operation"] == "compute:instances:delete"
    assert "p" not in [one["name"] for one in desk.items("policy", "list", "--all")]
    # Reading is theirs, and denying is anybody's who writes policies.
    assert desk.policy(allow("compute:*:read"))
    assert desk.policy(deny("*"))
    desk.home.sign_in(OWNER)
    assert desk.done("policy", "check", "--document", text(narrow))["answer"] == "within"


def test_targets_and_constraints_are_compared_too(own_desk: Desk) -> None:
    desk = own_desk
    desk.home.sign_in(REGIONAL)
    (role,) = [one for one in desk.home.json("whoami")["organizations"] if one["role"] == "regional"]
    assert role
    open_ = desk.iam("policy", "check", "--document", text(allow("compute:instances:read")), "-o", "json")
    assert (open_.code, open_.json()["answer"]) == (4, "beyond")
    (example, *_) = open_.json()["counterexamples"]
    assert example["operation"] == "compute:instances:read"
    assert example["target"].startswith("frn:compute:")


def test_the_check_is_made_at_update_and_attach_and_at_every_decision(own_desk: Desk) -> None:
    desk, identity = own_desk, IDENTITIES["not-granted-yet"]
    strong = desk.policy(allow("compute:instances:delete"))
    desk.attach(strong, "workload_identity", identity)
    desk.home.sign_in(VIEWER)
    weak = desk.policy(allow("compute:instances:read"))
    beyond = text(allow("compute:instances:delete"))
    assert "you do not have this permission" in desk.refused(4, "policy", "update", weak, "--document", beyond)
    key = KEYS["viewer-dashboard"]
    assert "cannot grant more" in desk.refused(4, "policy", "attach", strong, "--type", "api_key", "--id", key)
    # Whoever wrote it becomes less; so does what it gives, at once.
    assert desk.access("workload_identity", identity) == {"compute:instances:delete": "allowed"}
    desk.sql("UPDATE memberships SET role = 'viewer' WHERE user_id = (SELECT id FROM users WHERE email = ?)", OWNER)
    assert desk.access("workload_identity", identity) == {}


def test_no_policy_command_works_with_an_api_key_and_no_route_does(own_desk: Desk) -> None:
    desk = own_desk
    policy, group = desk.policy(READ_TENANTS), desk.group()
    desk.home.frost("--config", "key.yaml", "config", "set", "api_key", desk.home.world_key("terraform"))
    pair = ("--type", "group", "--id", group)
    for words in (
        ("create", "--name", "x", "--document", text(READ_TENANTS)),
        ("get", policy),
        ("list",),
        ("update", policy, "--name", "x"),
        ("delete", policy, "--force"),
        ("attach", policy, *pair),
        ("detach", policy, *pair),
        ("attachments", policy),
        ("history", policy),
        ("check", "--document", text(READ_TENANTS)),
        ("rollback", policy, "--version", "1"),
    ):
        result = desk.home.frost("--config", "key.yaml", "iam", "policy", *words)
        assert (result.code, result.out) == (4, ""), words
        assert "interactive session" in result.err
    for method, path in (
        ("GET", ""),
        ("PATCH", f"/{policy}"),
        ("DELETE", f"/{policy}"),
        ("POST", f"/{policy}/attachments"),
    ):
        body = {"name": "x"} if method == "PATCH" else None
        answer = desk.raw(method, f"/iam/policies{path}", body, key="terraform")
        assert (answer.status, answer.json()["error"]["code"]) == (403, "SESSION_REQUIRED")
    assert desk.done("policy", "get", policy)["version"] == 1


@pytest.mark.parametrize(
    "given",
    [
        text(*[allow("compute:*")] * 501),
        text(allow("compute:*")).replace("{", "{" + " " * 256 * 1024, 1),
        '{"schemaVersion":"1","rules":[{"x":' + "[" * 17 + "]" * 17 + "}]}",
    ],
    ids=["501 rules", "256 KiB", "17 levels"],
)
def test_a_document_over_a_limit_is_refused_before_it_is_evaluated(desk: Desk, given: str) -> None:
    for words in (CREATE, ("policy", "check", "--document")):
        assert "policy.json:" in desk.refused(2, *words, file(desk, given))


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ("{", "1:2"),
        ('{\n "schemaVersion": "1",\n "rules": [ }', "3:13"),
        ("policy", "1:1"),
        ("{} {}", "1:4"),
        ("[1,]", "1:4"),
    ],
)
def test_what_is_not_json_is_refused_with_line_and_column_and_not_sent(desk: Desk, given: str, place: str) -> None:
    for words in (CREATE, ("policy", "update", NO_ID, "--document")):
        said = desk.refused(2, *words, given, "-d")
        assert f"--document:{place}: " in said
        assert "/api/" not in said
    assert f"policy.json:{place}: " in desk.refused(2, *CREATE, file(desk, given))


def test_a_file_named_without_its_sign_is_recognised(desk: Desk) -> None:
    file(desk, text(READ_TENANTS))
    assert "--document @policy.json" in desk.refused(2, *CREATE, "policy.json")


@pytest.mark.parametrize(
    "name", ["missing.json", "folder", "/dev/null", "/dev/tty", "closed.json", "", "nul\\0", "big.json", "latin.json"]
)
def test_a_file_that_cannot_be_read_is_refused_by_its_name(desk: Desk, name: str) -> None:
    (desk.home.path / "folder").mkdir(exist_ok=True)
    file(desk, b"{}", "closed.json")
    (desk.home.path / "closed.json").chmod(0)
    file(desk, b" " * (1024 * 1024 + 1), "big.json")
    file(desk, '{"é": 1}'.encode("latin-1"), "latin.json")
    if name == "closed.json" and os.geteuid() == 0:
        pytest.skip("root reads every file")
    said = desk.refused(2, *CREATE, f"@{name}", "-d")
    assert (name or "@") in said
    assert "/api/" not in said


def test_on_a_terminal_the_document_is_waited_for_with_a_word(desk: Desk) -> None:
    program = desk.on_terminal("policy", "create", "--name", "typed", "--document", "-", columns=120)
    program.wait_for("Ctrl-D")
    program.write(text(READ_TENANTS).encode() + b"\r\x04")
    assert program.wait_end() == 0
    assert "typed" in [one["name"] for one in desk.items("policy", "list", "--all")]


def test_the_document_comes_back_in_canonical_form_and_sent_again_changes_nothing(desk: Desk) -> None:
    made = desk.done(
        *CREATE, '{"rules": [{"targets": ["*"], "operations": ["compute:*"], "access": "allow"}], "schemaVersion": "1"}'
    )
    canonical = json.dumps(made["document"])
    assert canonical == text(allow("compute:*"))
    again = desk.iam("policy", "update", made["id"], "--document", file(desk, canonical))
    assert again.err.startswith("nothing changed")
    assert desk.done("policy", "get", made["id"]) == made
    for version in (2, 3):
        assert desk.done("policy", "update", made["id"], "--description", f"v{version}")["version"] == version


def test_a_policy_changed_meanwhile_is_a_conflict_that_says_what_and_by_whom(own_desk: Desk) -> None:
    desk = own_desk
    made = desk.policy(READ_TENANTS)
    desk.home.sign_in(MEMBER)
    assert desk.done("policy", "update", made, "--description", "mine", "--if-version", "1")["version"] == 2
    desk.home.sign_in(OWNER)
    said = desk.refused(6, "policy", "update", made, "--document", text(ANYTHING), "--if-version", "1").splitlines()
    assert "current version is 2, not 1" in said[0]
    assert said[1].startswith("  version 2, ")
    assert said[1].endswith("by Priya Raman: description")
    assert document_of(desk, made) == json.loads(text(READ_TENANTS))


def test_former_documents_are_shown_compared_and_taken_back(desk: Desk) -> None:
    made = desk.policy(READ_TENANTS)
    desk.done(
        "policy", "update", made, "--document", text(allow("organizations:tenants:read", "compute:instances:read"))
    )
    assert desk.done("policy", "get", made, "--version", "1")["document"] == json.loads(text(READ_TENANTS))
    assert [one["version"] for one in desk.items("policy", "history", made)] == [2, 1]
    compared = desk.done("policy", "diff", made)
    assert (compared["from"], compared["to"]) == (1, 2)
    assert compared["gained"] == ["compute:instances:read"]
    assert compared["lost"] == ["organizations:tenants:list"]
    assert '+        "compute:instances:read"' in compared["text"]
    back = desk.done("policy", "diff", made, "--from", "2", "--to", "1")
    assert (back["gained"], back["lost"]) == (compared["lost"], compared["gained"])
    shown = desk.iam("policy", "diff", made).out
    assert "+ compute:instances:read" in shown
    assert "- organizations:tenants:list" in shown
    taken = desk.done("policy", "rollback", made, "--version", "1")
    assert (taken["version"], taken["document"]) == (3, json.loads(text(READ_TENANTS)))
    assert desk.iam("policy", "rollback", made, "--version", "1").err.startswith("nothing changed")
    assert desk.items("policy", "history", made)[0]["rolledBackTo"] == 1
    for words in (["get", made, "--version", "9"], ["rollback", made, "--version", "9"], ["diff", made, "--from", "9"]):
        assert "no version 9" in desk.refused(5, "policy", *words)
    assert "first" in desk.refused(2, "policy", "diff", desk.policy(READ_TENANTS))


def test_a_comparison_tells_what_changes_under_conditions_only(desk: Desk) -> None:
    def limited(operation: str, block: str, until: str) -> dict[str, object]:
        limits = {"ipInRange": {"frn:sourceIp": [block]}, "before": {"frn:currentTime": until}}
        return allow(operation) | {"constraints": limits}

    office = ("10.0.0.0/8", "2020-01-01T00:00:00Z")
    made = desk.policy(limited("dns:zones:read", *office), allow("dns:zones:list"))
    other = text(limited("dns:zones:read", "10.0.0.0/9", office[1]), limited("dns:zones:list", *office))
    desk.done("policy", "update", made, "--document", other)
    compared = desk.done("policy", "diff", made)
    assert compared["conditionsChanged"] == ["dns:zones:read"]
    assert (compared["gained"], compared["lost"], compared["nowConditional"]) == ([], *[["dns:zones:list"]] * 2)
    shown = desk.iam("policy", "diff", made).out
    assert "lost 1 operation:\n  - dns:zones:list (now conditional)\n" in shown
    assert shown.endswith("conditional changes for 1 operation:\n  ~ dns:zones:read (changed conditions)\n")
    later = text(limited("dns:zones:read", office[0], "2021-01-01T00:00:00Z"), allow("dns:zones:list"))
    desk.done("policy", "update", made, "--document", later)
    said = desk.iam("policy", "diff", made, "--from", "1").out
    assert "gained 0 operations\nlost 0 operations\nconditional changes for 1 operation:" in said
