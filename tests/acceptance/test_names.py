"""Commands accept the name of a policy, group, key, identity or organization in place of its id."""

from tests.acceptance.account import Account
from tests.acceptance.iam import IDENTITIES, KEYS, NO_ID, READ_TENANTS, Desk, requests
from tests.people import AURORA, BOREALIS, DATA_LAKE, WEB_SHOP

KEY = ("--type", "api_key", "--id")
IAM = f"/api/v1/tenants/{WEB_SHOP}/iam"
READS = """
policy get P --version 1
policy history P
policy diff P --from 1 --to 1
policy attach P --type group --id G --dry-run
policy attach P --type api_key --id K --dry-run
policy attach P --type workload_identity --id W --dry-run
group get G
group member list G
group member add G --type api_key --id K --dry-run
access api_key K
access workload_identity W
""".strip().splitlines()


def test_names_and_ids_read_the_same_object(desk: Desk) -> None:
    policy, group = desk.policy(READ_TENANTS, name="read by name"), desk.group("group read by name")
    ids = {"P": policy, "G": group, "K": KEYS["terraform"], "W": IDENTITIES["checkout"]}
    names = {"P": "Read By Name", "G": "GROUP READ BY NAME", "K": "Terraform", "W": "shop/checkout"}
    for line in READS:
        by_id, by_name = (desk.iam(*(known.get(word, word) for word in line.split())) for known in (ids, names))
        assert (by_name.code, by_name.out) == (0, by_id.out), line
    assert (desk.attached(policy), desk.members(group)) == (set(), set())


def test_policies_and_groups_are_changed_and_deleted_by_name(desk: Desk) -> None:
    policy, group = desk.policy(READ_TENANTS, name="by name"), desk.group("group by name")
    for words, change in (
        (("policy", "attach", "by name", "--type", "group", "--id", "group by name"), {"attacheeId": group}),
        (("policy", "detach", "by name", "--type", "group", "--id", "group by name"), {"attacheeId": group}),
        (("policy", "update", "by name", "--description", "d"), {"id": policy, "description": "d"}),
        (("policy", "rollback", "by name", "--version", "1"), {"id": policy}),
        (("policy", "delete", "by name", "--force"), {"id": policy, "status": "deleted"}),
        (("group", "member", "add", "group by name", *KEY, "Terraform"), {"memberId": KEYS["terraform"]}),
        (("group", "member", "remove", "group by name", *KEY, "Terraform"), {"memberId": KEYS["terraform"]}),
        (("group", "update", "group by name", "--name", "renamed by name"), {"id": group}),
        (("group", "delete", "renamed by name", "--force"), {"id": group, "status": "deleted"}),
    ):
        assert desk.done(*words).items() >= change.items(), words


def test_an_organization_is_selected_by_name_or_slug(desk: Desk) -> None:
    expected = desk.home.json("tenant", "list", "--organization", AURORA)
    for name in ("aurora labs", "aurora-labs", AURORA.upper()):
        assert desk.home.json("tenant", "list", "--organization", name) == expected
    by_name = desk.home.json("tenant", "quota", "--org", "--organization", "aurora labs")
    assert by_name == desk.home.json("tenant", "quota", "--org", "--organization", AURORA)
    assert desk.home.frost("tenant", "--organization", AURORA, "quota", "requests").code == 0
    for words, message in (
        (("current", "--organization", "borealis-media"), BOREALIS),
        (("list", "--organization", "nobody"), "no organization 'nobody' among your organizations. List your"),
    ):
        refused = desk.home.frost("tenant", *words)
        assert (refused.code, message in refused.err) == (5, True)


def test_every_page_is_searched(desk: Desk) -> None:
    desk.sql(
        f"WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 450)"
        f" INSERT INTO groups (id, tenant_id, name, description, version, created_by, created_at, updated_at)"
        f" SELECT printf('%08d-0000-4000-8000-000000000000', n), '{DATA_LAKE}', 'filler ' || n, '', 1,"
        f" g.* FROM numbers, (SELECT created_by, created_at, updated_at FROM groups LIMIT 1) g"
    )
    last = desk.done("group", "create", "--name", "after all fillers", "--tenant", DATA_LAKE)["id"]
    result = desk.iam("group", "get", "after all fillers", "--tenant", DATA_LAKE, "-o", "json", "-d")
    assert result.json()["id"] == last
    assert len([path for _, path in requests(result.err) if path.endswith("/groups")]) == 3


def test_an_id_is_sent_without_a_lookup_and_a_name_with_one(desk: Desk) -> None:
    policy, group = desk.policy(READ_TENANTS, name="counted requests"), desk.group()
    attach = ("policy", "attach", policy, "--type", "group", "--id", group)
    for words, *expected in (
        (("policy", "get", policy), ("GET", f"{IAM}/policies/{policy}")),
        (attach, ("POST", f"{IAM}/policies/{policy}/attachments")),
        (("group", "member", "add", group, *KEY, KEYS["terraform"]), ("POST", f"{IAM}/groups/{group}/members")),
        (
            ("policy", "delete", "counted requests", "--force"),
            ("GET", f"{IAM}/policies"),
            ("DELETE", f"{IAM}/policies/{policy}"),
        ),
    ):
        for typed in {words, tuple(word.upper() if len(word) == 36 else word for word in words)}:
            result = desk.iam(*typed, "-d", "-q", FROST_TENANT=WEB_SHOP)
            assert (result.code, requests(result.err)) == (0, expected)
    # A name with the form of an id is an id.
    other = desk.policy(READ_TENANTS)
    desk.policy(READ_TENANTS, name=other)
    assert desk.done("policy", "get", other)["id"] == other
    unknown = other.replace(other[:8], "00000000")
    desk.policy(READ_TENANTS, name=unknown)
    assert f"policy {unknown} not found" in desk.refused(5, "policy", "get", unknown)


def test_an_unknown_name_is_refused_with_the_tenant_and_the_list(desk: Desk) -> None:
    for kind in ("policy", "group"):
        assert desk.refused(5, kind, "get", "nope") == (
            f'frost: no {kind} named "nope" in tenant "Web Shop". List them with: frost iam {kind} list --all\n'
        )
    elsewhere = desk.refused(5, "policy", "get", "nope", "--tenant", DATA_LAKE)
    assert elsewhere.endswith(
        f'in tenant "Data Lake". List them with: frost iam policy list --tenant {DATA_LAKE} --all\n'
    )
    policy = desk.policy(READ_TENANTS)
    for kind, noun in (("api_key", "API key"), ("workload_identity", "workload identity"), ("group", "group")):
        refused = desk.refused(5, "policy", "attach", policy, "--type", kind, "--id", "nope")
        assert f'no {noun} named "nope" in tenant "Web Shop"' in refused
    error = desk.iam("policy", "get", "nope", "-o", "json").error()
    assert (error["code"], "frost iam policy list" in error["hint"]) == ("NOT_FOUND", True)
    desk.done("group", "create", "--name", "only there", "--tenant", DATA_LAKE)
    assert "no group named" in desk.refused(5, "group", "get", "only there")
    # The refusal of the list itself is reported as it is.
    refused, by_id = (
        desk.iam("policy", *words, "--tenant", NO_ID, "-o", "json") for words in (("get", "nope"), ("list",))
    )
    assert (refused.code, refused.error()["code"]) == (by_id.code, by_id.error()["code"])


def test_a_name_of_two_policies_is_refused_with_both_ids(desk: Desk) -> None:
    ids = [desk.policy(READ_TENANTS, name=name) for name in ("Twice", "twice")]
    for words in (("get",), ("delete", "--force"), ("attach", *KEY, "terraform")):
        refused = desk.refused(1, "policy", words[0], "TWICE", *words[1:])
        first, *lines = refused.splitlines()
        assert first == "frost: 'TWICE' is the name of 2 policies. Use one of the IDs"
        assert [line.split() for line in lines] == [[ids[0], "Twice"], [ids[1], "twice"]]
    # Each is still found by its exact name.
    assert [desk.iam("policy", "get", name, "-o", "json").json()["id"] for name in ("Twice", "twice")] == ids
    error = desk.iam("policy", "get", "tWICE", "-o", "json").error()
    assert (error["code"], error["details"]["count"]) == ("AMBIGUOUS_NAME", 2)
    assert [one["id"] for one in error["details"]["policies"]] == ids
    assert [desk.attached(identifier) for identifier in ids] == [set(), set()]


def test_a_name_is_never_part_of_a_path_and_an_empty_one_is_not_sent(desk: Desk, owner: Account) -> None:
    for name in ("../policies", "a\nb", " ", ""):
        for collection, *words in (
            ("policies", "policy", "get", name),
            ("groups", "group", "member", "list", name),
            ("api-keys", "group", "member", "add", NO_ID, *KEY, name),
        ):
            log = requests(desk.refused(5 if name.strip() else 2, *words, "-d"))
            paths = [path for method, path in log if method == "GET"]
            assert [path.endswith(collection) for path in paths[-2:-1]] == ([True] if name.strip() else [])
            assert not name.strip() or not [path for path in paths if name in path]
            assert name.strip() or log == []
        refused = owner.run("api-key", "get", name, "-d")
        assert (refused.code, refused.out) == (5 if name.strip() else 2, "")
        assert requests(refused.err) == ([("GET", "/api/v1/me/api-keys")] if name.strip() else [])


def create_key(owner: Account, name: str) -> str:
    return str(owner.done("api-key", "create", "--name", name, "--scopes", "compute:read")["apiKey"]["id"])


def test_a_key_reads_itself_by_id_and_name_and_no_other(owner: Account) -> None:
    context = owner.context("compute:read")
    itself = owner.done("profile", FROST_CONTEXT=context)["credential"]["id"]
    owner.done("api-key", "update", itself, "--name", "Reads Itself")
    for name in (itself, "reads itself"):
        assert owner.done("api-key", "get", name, FROST_CONTEXT=context)["id"] == itself
    for name in (create_key(owner, "other"), "other"):
        refused = owner.refused(5, "api-key", "get", name, FROST_CONTEXT=context)
        assert "the API key in use can read only its own record" in refused
    assert 'record, not named "other"' in refused


def test_a_key_is_read_changed_and_ended_by_a_name_that_one_key_has(owner: Account) -> None:
    first = create_key(owner, "Named Once")
    assert owner.done("api-key", "get", "named once")["id"] == first
    assert owner.done("api-key", "update", "named once", "--name", "Twice")["id"] == first
    second = owner.done("api-key", "rotate", "twice", "--overlap", "0")["apiKey"]["id"]
    for word in ("get", "revoke", "delete"):
        message, *lines = owner.refused(1, "api-key", word, "TWICE").splitlines()
        assert message == "frost: 'TWICE' is the name of 2 API keys. Use one of the IDs"
        assert {tuple(line.split()) for line in lines} == {
            (first, "Twice", "revoked", "Web", "Shop"),
            (second, "Twice", "active", "Web", "Shop"),
        }
    # `rotate` selects only active keys. Both are active until the overlap ends.
    third = owner.done("api-key", "rotate", "twice")["apiKey"]["id"]
    ambiguous = owner.refused(1, "api-key", "rotate", "twice").splitlines()[1:]
    assert {second, third} == {line.split()[0] for line in ambiguous}
    other = create_key(owner, "ended by name")
    assert owner.done("api-key", "revoke", "ended by name")["status"] == "revoked"
    assert owner.done("api-key", "delete", "ENDED BY NAME") == {"id": other, "status": "deleted"}
    for word in ("get", "revoke", "delete", "rotate"):
        result = owner.run("api-key", word, "ended by name", "-d")
        assert (result.code, requests(result.err)) == (5, [("GET", "/api/v1/me/api-keys")])
        assert 'you have no API key named "ended by name". List your keys: frost account api-key list' in result.err
