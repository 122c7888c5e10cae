"""The preferences file."""

import json
from pathlib import Path

import pytest

from tui.state import preferences

ROW = {"id": "t1", "displayName": "Web Shop", "slug": "web-shop", "status": "active", "organizationName": "Aurora Labs"}


def test_saved_preferences_are_loaded_for_their_endpoint(tmp_path: Path) -> None:
    kept = preferences.State(
        screen="contexts", theme="frost-light", sort={"tenants": ["slug", True]}, lines=["use Web Shop"]
    )
    memory = kept.of("local", "unix:/a")
    memory.tenants = preferences.remembered([ROW])
    memory.recent = ["t1"]
    preferences.save(tmp_path / "state.json", kept)
    assert preferences.load(tmp_path / "state.json") == kept
    assert preferences.remembered([{**ROW, "key": "fmk_secret", "runId": "r"}]) == [ROW]
    kept = preferences.State()
    kept.of("local", "unix:/a").tenants = [ROW]
    assert kept.of("local", "https://other/api").tenants == []


def test_the_file_is_private_and_may_fail_to_be_written(tmp_path: Path) -> None:
    preferences.save(tmp_path / ".cli" / "state.json", preferences.State())
    assert (tmp_path / ".cli" / "state.json").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in (tmp_path / ".cli").iterdir()] == ["state.json"]
    (tmp_path / "file").write_text("")
    preferences.save(tmp_path / "file" / "state.json", preferences.State())


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "null",
        '{"version": 0, "screen": "contexts"}',
        '{"version": 1, "contexts": []}',
        '{"version": 1, "contexts": {"local": 7}}',
        '{"version": 1, "contexts": {"local": {"tenants": 7}}}',
        "[" * 100_000,
        "\x00\xff",
    ],
)
def test_a_damaged_or_foreign_file_is_a_fresh_start(tmp_path: Path, content: str) -> None:
    path = tmp_path / "state.json"
    path.write_text(content)
    assert preferences.load(path) == preferences.State()


def test_members_of_a_wrong_type_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    path.write_text(json.dumps({"version": 1, "screen": 7, "lines": ["a", 3], "theme": "frost-dark"}))
    loaded = preferences.load(path)
    assert (loaded.screen, loaded.lines, loaded.theme) == ("", ["a"], "frost-dark")


@pytest.mark.parametrize("quota", [7, "x", {"used": "1", "limit": "2"}, {"used": [], "limit": 1}])
def test_a_row_of_a_wrong_shape_is_left_out(tmp_path: Path, quota: object) -> None:
    kept = preferences.State()
    kept.of("local", "unix:/a").tenants = [{**ROW, "tightestQuota": quota}, ROW]
    preferences.save(tmp_path / "state.json", kept)
    assert preferences.load(tmp_path / "state.json").of("local", "unix:/a").tenants == [ROW]
