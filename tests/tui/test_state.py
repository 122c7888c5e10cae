"""The preferences file."""

import json
from pathlib import Path

from tui.state import preferences

ROW = {"id": "t1", "displayName": "Web Shop", "slug": "web-shop", "status": "active", "organizationName": "Aurora Labs"}


def test_saved_preferences_are_loaded_for_their_endpoint(tmp_path: Path) -> None:
    state = preferences.State("contexts", theme="frost-light", sort={"tenants": ["slug", True]}, lines=["use Web Shop"])
    memory = state.of("local", "unix:/a")
    memory.tenants = preferences.remembered([{**ROW, "key": "fmk_secret", "runId": "r"}])
    assert memory.tenants == [ROW]
    memory.recent = ["t1"]
    preferences.save(tmp_path / "state.json", state)
    assert preferences.load(tmp_path / "state.json") == state
    assert state.of("local", "https://other/api").tenants == []


def test_the_file_is_private_and_may_fail_to_be_written(tmp_path: Path) -> None:
    preferences.save(tmp_path / ".cli" / "state.json", preferences.State())
    assert (tmp_path / ".cli" / "state.json").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in (tmp_path / ".cli").iterdir()] == ["state.json"]
    (tmp_path / "file").write_text("")
    preferences.save(tmp_path / "file" / "state.json", preferences.State())


def test_a_damaged_or_foreign_file_is_a_fresh_start(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    contexts = ("[]", '{"local": 7}', '{"local": {"tenants": 7}}')
    damaged = [f'{{"version": 1, "contexts": {value}}}' for value in contexts]
    for content in (*damaged, "", "{", "[]", "null", '{"version": 0, "screen": "contexts"}', "[" * 100_000, "\x00\xff"):
        path.write_text(content)
        assert preferences.load(path) == preferences.State(), content[:80]
    path.write_text(json.dumps({"version": 1, "screen": 7, "lines": ["a", 3], "theme": "frost-dark"}))
    state = preferences.load(path)
    assert (state.screen, state.lines, state.theme) == ("", ["a"], "frost-dark")
    for quota in (7, "x", {"used": "1", "limit": "2"}, {"used": [], "limit": 1}):
        state = preferences.State()
        state.of("local", "unix:/a").tenants = [{**ROW, "tightestQuota": quota}, ROW]
        preferences.save(path, state)
        assert preferences.load(path).of("local", "unix:/a").tenants == [ROW]
