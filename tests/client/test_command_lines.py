"""Command lines that the commands print: this one again, and others with the flags that they need."""

import shlex
from collections.abc import Iterator

import click
import pytest

from client.commands.command import Group
from client.commands.invocation import Invocation
from client.commands.root import root
from client.texts.command_lines import COMMAND, command_with_flags, with_flags
from tests.client.scripted import TENANT, Scripted

OTHER = "c169179d-57e5-43c5-bb9c-7dd71336348d"


def again(*words: str) -> str:
    """Return the command line of a run of these words, which are parsed but not run."""
    run = Invocation(list(words))
    ctx = root.make_context("frost", list(words), obj=run)
    while isinstance(ctx.command, Group) and (rest := [*ctx._protected_args, *ctx.args]):
        name, command, rest = ctx.command.resolve_command(ctx, rest)
        assert command is not None
        ctx = command.make_context(name, rest, parent=ctx)
    run.command_path = ctx.command_path
    return run.command_line()


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        ("iam policy create --name x --document {}", "iam policy create --name x --document @FILE"),
        ("iam policy create --document=- --name x", "iam policy create --document @FILE --name x"),
        ("iam policy check --document @p.json", "iam policy check --document @p.json"),
        ("iam policy check --document @/dev/fd/63", "iam policy check --document @FILE"),
        ("config set api_key fmk_secret", "config set api_key -"),
        ("-q tenant --organization 'Aurora Labs' quota", "--quiet tenant --organization 'Aurora Labs' quota"),
        (
            f"--tenant {TENANT} iam simulate --tenant {OTHER} --request-tag a=b --request-tag 'c=d e' --target '*'"
            " --operation a:b:c --document {}",
            f"--tenant {TENANT} iam simulate --tenant {OTHER} --request-tag a=b --request-tag 'c=d e' --target '*'"
            " --operation a:b:c --document @FILE",
        ),
        ("tenant quota what-if --organization=-x vcpu=1 ram=2", "tenant quota what-if vcpu=1 ram=2 --organization=-x"),
        ("tenant list", "tenant list"),
    ],
)
def test_a_command_line_is_repeated_without_secrets_inline_documents_and_standard_input(
    words: str, printed: str
) -> None:
    line = again(*shlex.split(words))
    assert line == f"frost {printed}"
    assert again(*shlex.split(line)[1:]) == line


def paths(group: Group, above: str = "") -> Iterator[str]:
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        path = f"{above} {name}".lstrip()
        if isinstance(command, Group):
            yield from paths(command, path)
        if not isinstance(command, Group) or command.does_something:
            yield path


def test_every_command_that_reads_a_context_gets_its_flags() -> None:
    for path in paths(root):
        completed = with_flags(f"see: frost {path} --all, or more", config="my file", tenant=TENANT, data_dir="d")
        of_platform = path.startswith(("platform", "completion", "help", "version"))
        assert (COMMAND.fullmatch(f"frost {path}") is None) == of_platform, path
        assert (f"see: frost {path} --config 'my file'" in completed) != of_platform, path
        assert completed.endswith(" --all, or more")


@pytest.mark.parametrize(
    ("text", "completed"),
    [
        ("list them: frost iam policy list --all", f"list them: frost iam policy list -T {TENANT} --all"),
        ("frost tenant use NAME (frost tenant list --all shows them)", None),
        ("frost tenant default-tags history shows the result", f"frost tenant default-tags history -T {TENANT} shows"),
        ("frost iam group list --tenant other", None),
        ("see frost iam group list --help", None),
        ("a file of frost iam-like texts, ~/.cli/frost iam x", None),
        ("frost iam simulate --tenant", None),
    ],
)
def test_commands_about_a_tenant_get_the_tenant(text: str, completed: str | None) -> None:
    expected = text if completed is None else completed.replace("-T", "--tenant")
    assert with_flags(text, tenant=TENANT).startswith(expected)
    assert with_flags("stop it: frost platform audit verify", data_dir="/a b").endswith("verify --data-dir '/a b'")
    assert with_flags("see frost platform backup --help", data_dir="/a").endswith("backup --help")


@pytest.mark.parametrize(
    ("text", "completed"),
    [
        ('policy 1 has the name "frost iam policy list" too', None),
        ("'frost iam policy list' is the name of 2 policies", None),
        ('"x --config y" is in use (see frost iam group list)', "list --config c)"),
        ("see frost iam group list --config a, or frost whoami", "group list --config a, or frost whoami --config c"),
        ("the platform's context; frost whoami, it's 'x --config y'", "frost whoami --config c, it's"),
        (
            "frost iam group list --filter 'it'\"'\"'s --config y'",
            "group list --config c --filter 'it'\"'\"'s --config y'",
        ),
        ("frost iam group list --config=a", None),
        ("frost iam group list --config-like", "group list --config c --config-like"),
    ],
)
def test_values_in_quotes_are_neither_commands_nor_flags(text: str, completed: str | None) -> None:
    assert (completed or text) in with_flags(text, config="c")


def test_a_value_of_a_command_line_is_no_flag() -> None:
    for name in ("x --config y", "frost iam policy list", "it's --tenant", "--config"):
        line = shlex.join(["frost", "iam", "policy", "create", f"--name={name}", "--document", "@FILE"])
        completed = command_with_flags(line, config="my file", tenant=TENANT)
        assert completed == line.replace("create", f"create --config 'my file' --tenant {TENANT}")
        assert f"--name={name}" in shlex.split(completed)
    assert command_with_flags("frost platform status", config="c") == "frost platform status"
    line = "frost iam policy list --config a --tenant b"
    assert command_with_flags(line, config="c", tenant=TENANT) == line


def test_hints_and_notes_have_the_flags_of_the_invocation(platform: Scripted) -> None:
    platform.on("GET /iam/policies", {"policies": [], "nextCursor": ""})
    for words in (
        ("iam", "policy", "get", "absent", "--tenant", TENANT),
        ("--tenant", TENANT, "iam", "policy", "get", "absent"),
    ):
        ended = platform.run(*words)
        assert ended.code == 5
        assert "ist them with: frost iam policy list --config " in ended.err
        assert f" --tenant {TENANT} --all" in ended.err
        assert f" --tenant {TENANT} --all" in platform.run(*words, "-o", "json").error()["hint"]
    # Without the flags a hint stays as it is.
    ended = platform.run("iam", "policy", "get", "absent")
    assert "--tenant" not in ended.err
    created = {"id": OTHER, "displayName": "x", "status": "provisioning", "organizationId": OTHER}
    platform.on(f"POST /api/v1/organizations/{OTHER}/tenants", created)
    ended = platform.run("tenant", "create", "--name", "x", "--organization", OTHER)
    assert "see frost tenant list --config " in ended.err
    assert f" --organization {OTHER}" in ended.err
