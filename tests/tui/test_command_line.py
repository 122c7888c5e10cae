"""The `:` line: lines and their meaning."""

import pytest

from tui.shell import routes
from tui.shell.command_line import Go, Mistake, Run, complete, parse
from tui.shell.command_prompt import History

SCREENS = ("tenants", "contexts")
EVERY = ("tenants", "policies", "groups", "catalogue", "contexts")
ACCOUNT = ("tenants", "api-keys", "sessions", "account")
TAGS = ("tenants", "default-tags")
KNOWN = "account profile, account delete, account session list, account api-key list, account api-key create"
TO_DATA_LAKE = Run("app.switch_tenant", "Data Lake")
LINES = {
    SCREENS: {
        "": None,
        "   ": None,
        ":": None,
        **dict.fromkeys(("tenants", ":tenants", "Tenants", "ten", "t", "tenant list"), Go("tenants")),
        "tenants status:active !web": Go("tenants", "status:active !web"),
        "con local": Go("contexts", "local"),
        **dict.fromkeys(("use Data Lake", "use 'Data Lake'", 'use "Data Lake"'), TO_DATA_LAKE),
        **dict.fromkeys(("tenant use 'Data Lake'", "frost tenant use Data Lake"), TO_DATA_LAKE),
        "use 'Data Lake": Mistake("unclosed quote"),
        "use O'Neill": Run("app.switch_tenant", "O'Neill"),
        "use": Run("app.switch_tenant"),  # a whole word is not a prefix, although use-context begins with it
        "create  Night  Shift ": Run("tenants.create", "Night  Shift"),
        "tenants.rename New [/x] Name": Run("tenants.rename", "New [/x] Name"),
        "tenant quota": Go("quotas"),
        "tenant quotas --org": Run("quotas.organization"),
        "tenant quota requests": Run("quotas.requests"),
        "tenant quota request vcpu 40 --reason 'second region'": Run("quotas.request", "vcpu 40"),
        "tenant quota request vcpu 40 --reason x --org": Run("quotas.request_organization", "vcpu 40"),
        "tenant quota what-if vcpu=4 ram=1024": Run("quotas.what_if", "vcpu=4 ram=1024"),
        "tenant quota raise": Mistake(
            "tenant quota supports here: tenant quota --org, requests, request TYPE LIMIT, what-if TYPE=N"
        ),
        "context prod": Run("contexts.use", "prod"),
        "login": Run("contexts.sign_in"),
        **dict.fromkeys(("q", "quit"), Run("app.quit")),
        "quit now": Mistake("quit takes no argument"),
        "theme": Run("app.theme"),
        "filter status:active !web": Run("list.filter", "status:active !web"),
        "filter": Run("list.filter"),
        "sort slug": Run("list.sort", "slug"),
        "tenatns": Mistake("unknown command: tenatns; did you mean tenants?"),
        "fliter web": Mistake("unknown command: fliter; did you mean filter?"),
        "nowhere": Mistake("unknown command: nowhere; Tab lists commands"),
    },
    ("tenants", "tags"): {"t": Mistake("t is ambiguous: tenants or tags")},
    ACCOUNT: {
        **dict.fromkeys(("account", "frost account profile"), Go("account")),
        "account delete": Run("account.delete"),
        "account session list": Go("sessions"),
        "account sessions revoke-all": Run("sessions.end_all"),
        **dict.fromkeys(("account api-key list", "api-key", "api"), Go("api-keys")),
        **dict.fromkeys(("account api-key get k-1 -o json", "account api-key revoke k-1"), Go("api-keys", "id:k-1")),
        "account api-key create --name 'night watch' --scopes dns:read": Run("api-keys.create", "night watch"),
        "account api-key": Mistake(f"account api-key is not supported here; use: {KNOWN}"),
        "account 'x": Mistake("unclosed quote"),
        "api-keys used:never": Go("api-keys", "used:never"),
    },
    TAGS: {
        **dict.fromkeys(("default-tags", "default", "frost tenant default-tags get"), Go("default-tags")),
        **dict.fromkeys(("tenant default-tags set", "tenant default-tags clear --yes"), Go("default-tags")),
        "default-tag env": Go("default-tags", "env"),
        "apply": Run("default-tags.follow"),
        "tenant default-tags set --merge --tag eq=x=y": Run("default-tags.add", "eq=x=y"),
        "tenant default-tags apply": Run("default-tags.apply"),
        "tenant default-tags apply --preview": Run("default-tags.preview"),
        "tenant default-tags history": Run("default-tags.versions"),
        "tenant default-tag undo 0192": Run("default-tags.runs"),
        "default-tags.add env=prod": Run("default-tags.add", "env=prod"),
    },
    EVERY: {
        "iam catalog --filter key-pairs": Go("catalogue", "key-pairs"),
        "frost iam group list": Go("groups"),
        "iam group member list g-1": Run("groups.open", "g-1"),
        "iam policy history p-1": Run("policies.versions", "p-1"),
        "iam policy update p-1 --name x": Run("policies.edit", "p-1"),
        "iam who --operation a:b:c": Run("catalogue.who", "a:b:c *"),
        "iam who --operation a:b:c --target frn:x": Run("catalogue.who", "a:b:c frn:x"),
        "groups.open on call": Run("groups.open", "on call"),
        "catalog": Go("catalogue"),
        **dict.fromkeys(("policies", "policy"), Go("policies")),
        "Policy author:olga": Go("policies", "author:olga"),
        "group ops": Go("groups", "ops"),
    },
}


@pytest.mark.parametrize(
    ("screens", "typed", "meaning"), [(screens, *line) for screens, lines in LINES.items() for line in lines.items()]
)
def test_a_line_means(screens: tuple[str, ...], typed: str, meaning: object) -> None:
    assert parse(typed, screens) == meaning


def test_a_screen_is_found_by_its_title_and_a_command_without_one_is_no_filter() -> None:
    for route in routes.ROUTES:
        assert parse(route.title.lower().replace(" ", "-"), routes.NAMES) == Go(route.name)
    for line in ("iam policy delete p-1", "iam group get", "iam 'x"):
        assert isinstance(parse(line, EVERY), Mistake), line


def test_completion_offers_screens_then_words_then_actions() -> None:
    assert complete("te", SCREENS, ())[0] == "tenants"
    assert "tenants.rename" in complete("te", SCREENS, ())
    assert complete("policy", EVERY, ())[0] == "policies"
    assert complete("use da", SCREENS, ["Data Lake", "Sandbox"]) == ["use Data Lake"]
    assert complete("tenant use da", SCREENS, ["Data Lake", "Sandbox"]) == ["tenant use Data Lake"]
    assert complete("tenant use ", SCREENS, ["Data Lake", "Sandbox"]) == ["tenant use Data Lake", "tenant use Sandbox"]
    assert complete("tenant u", SCREENS, ["Data Lake"]) == ["tenant use "]
    assert "tenant quota" in complete("tenant ", SCREENS, ())
    assert complete("quit x", SCREENS, ["x"]) == []
    assert complete("sort da", SCREENS, ["Data Lake"]) == []


def test_the_history_goes_back_and_returns_to_the_typed_line() -> None:
    history = History(["one", "two"])
    typed = ["thr"]
    for step in (history.older, history.older, history.older, history.newer, history.newer, history.newer):
        typed.append(step(typed[-1]))
    assert typed == ["thr", "two", "one", "one", "two", "thr", "thr"]
    history.add("one")
    assert history.lines == ["two", "one"]
