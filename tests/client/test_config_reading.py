"""The configuration file as it is read: contexts, sources, and everything that is refused."""

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from client.config import reader, strict_yaml
from client.config.reader import load, select
from client.errors import Exit, FrostError
from tests.effort import effort

HOME = {"HOME": "/home/ada"}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where a configuration file is going to be, in a folder of this user alone."""
    tmp_path.chmod(0o700)
    return tmp_path / "config.yaml"


def write(file: Path, text: str | bytes, mode: int = 0o600) -> str:
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    file.chmod(mode)
    return str(file)


def refused(path: str, **more: bool) -> FrostError:
    with pytest.raises(FrostError) as caught:
        load(path, environ=HOME, **more)
    assert caught.value.exit_code == Exit.USAGE
    return caught.value


def test_no_file_and_one_without_contexts_are_the_local_context(file: Path) -> None:
    config = load(str(file), environ=HOME)
    assert (config.exists, list(config.contexts), config.output_format) == (False, ["local"], "table")
    chosen, source = select(config, {})
    assert (chosen.api_endpoint, source) == ("unix:/home/ada/.cli/platform/api.sock", "default")
    assert "config init" in refused(str(file), explicit=True).hint
    for text in ("", "# nothing\n", "defaults: {output_format: json}\n", "keys: {quit: q}\n"):
        config = load(write(file, text), environ=HOME)
        assert (list(config.contexts), config.flat) == (["local"], False), text
    assert config.keys == {"quit": "q"}


def test_top_level_values_count_in_a_flat_file(file: Path) -> None:
    path = write(file, "api_endpoint: https://h.example/api\nregion: r1\napi_key: K1\noutput_format: yaml\n")
    config = load(path, environ=HOME)
    chosen, _ = select(config, {})
    assert (chosen.name, chosen.api_endpoint, chosen.region) == ("default", "https://h.example/api", "r1")
    assert chosen.credentials.api_key == "K1"
    assert chosen.sources["api_endpoint"] == "file"
    assert config.output_format == "yaml"


def test_top_level_values_do_not_count_beside_contexts(file: Path) -> None:
    path = write(
        file,
        "api_endpoint: https://top.example/api\nregion: top\ncredentials: {api_key: TOP}\n"
        "current_context: b\ncontexts:\n  a: {region: ra, credentials: {api_key: KA}}\n  b: {tenant: t1}\n",
    )
    chosen, source = select(load(path, environ=HOME), {})
    assert (chosen.name, source) == ("b", "file")
    assert chosen.api_endpoint == "unix:/home/ada/.cli/platform/api.sock"
    assert chosen.region == ""
    assert chosen.credentials.kinds == ()  # neither the top level's nor context a's
    assert chosen.sources == {
        "api_endpoint": "default",
        "region": "default",
        "tenant": "context",
        "read_only": "default",
    }


def test_the_variable_wins_over_the_file_and_a_flag_over_both(file: Path) -> None:
    config = load(write(file, "current_context: a\ncontexts: {a: {}, b: {}, c: {}}\n"), environ=HOME)
    assert select(config, {}) == (config.contexts["a"], "file")
    assert select(config, {"FROST_CONTEXT": "b"}) == (config.contexts["b"], "variable")
    assert select(config, {"FROST_CONTEXT": "b"}, "c") == (config.contexts["c"], "flag")
    assert select(config, {"FROST_CONTEXT": ""}) == (config.contexts["a"], "file")


def test_an_unknown_context_is_refused_with_the_known_ones(file: Path) -> None:
    for environ, current, message in (
        ({"FROST_CONTEXT": "x"}, "a", "FROST_CONTEXT"),
        ({}, "gone", "current_context"),
        ({}, '""', "no context is selected"),
    ):
        config = load(write(file, f"current_context: {current}\ncontexts: {{a: {{}}, b: {{}}}}\n"), environ=HOME)
        with pytest.raises(FrostError, match="a, b") as caught:
            select(config, environ)
        assert message in caught.value.message
        assert caught.value.exit_code == Exit.NOT_FOUND


def test_members_of_a_context_are_read(file: Path) -> None:
    config = load(write(file, "contexts: {a: {read_only: true}}\nkeys: {switch-tenant: f5}\n"), environ=HOME)
    assert config.contexts["a"].read_only
    assert config.keys == {"switch-tenant": "f5"}
    assert "line 1, column 27" in refused(write(file, "contexts: {a: {read_only: maybe}}\n")).message
    assert load(write(file, "contexts: {a: {session: ended}}\n"), environ=HOME).contexts["a"].session_ended
    # An unknown output format is reported and not used.
    config = load(write(file, "defaults: {output_format: wide}\n"), environ=HOME)
    assert (config.output_format, "'wide'" in config.notices[0]) == ("table", True)


def test_home_must_be_an_absolute_path() -> None:
    for environ in ({}, {"HOME": ""}, {"HOME": "ada"}):
        with pytest.raises(FrostError, match="HOME"):
            reader.default_path(environ)
    assert reader.default_path({"HOME": "/h/$(id)\n'"}) == "/h/$(id)\n'/.cli/config.yaml"  # plain text


def test_plain_scalars_stay_the_text_they_are(file: Path) -> None:
    path = write(file, "contexts: {a: {region: no, tenant: 0123, api_endpoint: 12:30:45}}\nkeys: {on: 1e3, '~': ~}\n")
    config = load(path, environ=HOME)
    chosen = config.contexts["a"]
    assert (chosen.region, chosen.tenant, chosen.api_endpoint) == ("no", "0123", "12:30:45")
    assert config.keys == {"on": "1e3", "~": ""}


@pytest.mark.parametrize(
    ("text", "line", "column", "reason"),
    [
        ("a: 1\napi_key: X\napi_key: Y\n", 3, 1, "is a duplicate key"),
        ("a: !!python/object/apply:os.system [id]\n", 1, 4, "tags"),
        ("a: !!str x\n", 1, 4, "tags"),
        ("a: ! x\n", 1, 4, "tags"),
        ("? [a, b]\n: c\n", 1, 3, "plain text"),
        ("x: &b {r: 1}\ny:\n  <<: *b\n", 3, 3, "merge"),
        ("a: [1, 2\n", 2, 1, "did not find"),
        ("a: b\n\tc: d\n", 2, 1, "tab"),
        ("ok: 1\nb: x\x00y\n", 2, 5, "control character"),
        ("a: *nowhere\n", 1, 4, "alias"),
        ("a: &a [*a]\n", 1, 8, "alias"),
        ("a: 1\n---\nb: 2\n", 2, 1, "one document"),
        ("- a\n- b\n", 1, 1, "members"),
        ("just text\n", 1, 1, "members"),
        ("contexts: [a]\n", 1, 11, "members"),
        ("contexts:\n  a: {region: [x]}\n", 2, 15, "text"),
        (b"a: 1\nb: caf\xe9\n", 2, 7, "UTF-8"),
        ("a: " + "[" * 40 + "]" * 40 + "\n", 1, 16, "deeper"),
    ],
)
def test_damaged_and_forbidden_yaml_is_refused_at_its_place(
    file: Path, text: str | bytes, line: int, column: int, reason: str
) -> None:
    path = write(file, text)
    before = file.read_bytes()
    error = refused(path)
    assert f"line {line}, column {column}: " in error.message
    assert reason in error.message
    assert file.read_bytes() == before


def test_no_value_of_the_file_is_in_an_error_or_a_representation(file: Path) -> None:
    for text in ("api_key: [SECRET\n", "api_key: SECRET: x\n", "credentials: SECRET\n", "api_key: {a: SECRET}\n"):
        assert "SECRET" not in str(refused(write(file, text)).document())
    credentials = "{api_key: SECRET1, access_token: SECRET2, refresh_token: SECRET3}"
    assert "SECRET" not in repr(load(write(file, f"contexts: {{a: {{credentials: {credentials}}}}}\n"), environ=HOME))


def test_an_alias_bomb_is_refused_at_once(file: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    path = write(file, "\n".join(lines) + "\n")
    error, taken = effort(lambda: refused(path))
    assert "values, aliases followed" in error.message
    assert taken < 200


def test_size_and_values_with_aliases_are_bounded(file: Path) -> None:
    few = [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 4)}]" for n in range(1, 12)]
    with pytest.raises(FrostError, match="values"):
        strict_yaml.read(("a0: &a0 [x, x, x, x]\n" + "\n".join(few)).encode(), "f")
    with pytest.raises(FrostError, match="more than 100 aliases"):
        strict_yaml.read(f"a: &a x\nb: [{'*a, ' * 101}]\n".encode(), "f")
    assert "256 KiB" in refused(write(file, "a: " + "x" * 300_000)).message
    assert "values" in refused(write(file, "a: [" + "x," * 30_000 + "]")).message
    assert strict_yaml.read(b"a: &a {r: 1}\nb: *a\n", "f") == {"a": {"r": "1"}, "b": {"r": "1"}}


NAMES = ("contexts", "b-c", "_d", "null", "no", "x1")
PLAIN = ["null", "no", "12:30:45", "a=b", "unix:/home/x", "fmk_A-b", "-a", "-1", "_a-", "-/", "x:", "a.", "-", "/"]
VALUES = ("", "", "", "", *(f" {value}" for value in PLAIN))
OTHERS = ["", "~", "'q'", "a b", "y #", ".5", "+", "@x", "---", "&a", "*a", "[", "ä", "\u2028"]
OTHER_VALUES = (*(f" {value}" for value in OTHERS), "\tx", "\r")


def test_the_parser_of_plain_files_agrees_with_pyyaml() -> None:
    def places(value: object) -> object:
        inner = {key: places(one) for key, one in value.items()} if isinstance(value, strict_yaml.Map) else value
        return (inner, value.positions) if isinstance(value, strict_yaml.Map) else inner

    chance = random.Random(1)
    plain = 0
    for _ in range(20_000):
        lines = [
            chance.choice(("# a", " # a", "", "  "))
            if chance.random() < 0.1
            else " " * chance.choice((0, 0, 2, 2, 4, 1))
            + chance.choice(NAMES)
            + ":"
            + chance.choice(VALUES if chance.random() < 0.95 else OTHER_VALUES)
            for _ in range(chance.randint(1, 6))
        ]
        text = "\n".join(lines) + chance.choice(("", "\n"))
        parsed = strict_yaml._plain(text)
        if parsed is not None:
            plain += 1
            assert places(parsed) == places(strict_yaml._Builder("f", strict_yaml._events(text, "f")).document()), text
    assert plain > 1_000


def test_files_and_folders_that_others_can_change_are_refused(file: Path) -> None:
    notices = load(write(file, "a: 1\n", mode=0o644), environ=HOME).notices
    assert len(notices) == 1
    assert f"chmod 600 {file}" in notices[0]
    path = write(file, "a: 1\n")
    assert load(path, environ=HOME).notices == ()
    file.parent.chmod(0o777)
    assert "writable by other users" in refused(path).message
    file.parent.chmod(0o1777)  # as /tmp: others cannot exchange the file
    load(path, environ=HOME)
    if os.geteuid() == 0:
        for foreign in (file, file.parent):
            os.chown(foreign, 65534, 65534)
            assert "another user" in refused(path).message
            os.chown(foreign, 0, 0)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can plant another user's link")
def test_a_link_of_another_user_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    for name in ("real", "mine"):
        (tmp_path / name).mkdir(mode=0o700)
    write(tmp_path / "real" / "config.yaml", "a: 1\n")
    file, folder = tmp_path / "mine" / "config.yaml", tmp_path / "link"
    for link, target, path in (
        (file, tmp_path / "real" / "config.yaml", file),
        (folder, tmp_path / "real", folder / "config.yaml"),
    ):
        link.symlink_to(target)
        os.chown(link, 65534, 65534, follow_symlinks=False)
        assert "link that is owned by another user" in refused(str(path)).message


def test_links_in_a_circle_a_folder_and_a_pipe_are_refused(file: Path, tmp_path: Path) -> None:
    file.symlink_to(file.name)
    assert "has more than 16 links" in refused(str(file)).message
    (tmp_path / "folder").mkdir()
    assert "not a regular file" in refused(str(tmp_path / "folder")).message
    os.mkfifo(tmp_path / "pipe", 0o600)
    assert "not a regular file" in refused(str(tmp_path / "pipe")).message


@pytest.mark.process
def test_reading_a_file_that_frost_wrote_loads_neither_pyyaml_nor_what_writing_needs(file: Path) -> None:
    path = write(
        file, "# a comment\ncurrent_context: a\ncontexts:\n  a:\n    credentials:\n      expires_at: 1\nfile_id: 1\n"
    )
    unwanted = ("yaml", "pathlib", "ruamel", "keyring", "subprocess", "tempfile", "http.client", "dataclasses")
    code = (
        "import sys\nfrom client.config.reader import load\n"
        f"expires_at = load({path!r}, environ={{'HOME': '/h'}}).contexts['a'].credentials.expires_at\n"
        f"print(expires_at, [name for name in {unwanted} if name in sys.modules])"
    )
    environment = {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-S", "-c", code], capture_output=True, text=True, env=environment, check=True
    )
    assert done.stdout.strip() == "1 []"
