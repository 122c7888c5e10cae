"""Default and configured keys."""

from textual.binding import Binding

from tui.shell import actions, keymap
from tui.widgets.record_table import RecordTable

MOVEMENT = [binding for binding in RecordTable.BINDINGS if isinstance(binding, Binding)]


def test_default_keys_do_not_conflict() -> None:
    keys = keymap.resolve({}, MOVEMENT)
    assert keys.problems == ()
    assert keys.changed == {}
    heard: dict[tuple[str, str], str] = {}
    for screen in ("tenants", "contexts"):
        for name, pressed in keys.by_action.items():
            if name.partition(".")[0] in (screen, "list", "app", "table"):
                for key in pressed:
                    assert heard.setdefault((screen, key), name) == name, (key, name)


def test_no_writing_action_has_a_ctrl_key() -> None:
    for action in actions.ACTIONS:
        if action.writes or action.id == "contexts.sign_out":
            assert not any(key.startswith("ctrl+") for key in action.keys)


def test_a_configured_key_wins_over_a_default_and_conflicts_are_reported() -> None:
    keys = keymap.resolve({"tenants.create": "s"}, MOVEMENT)
    assert (keys.of("tenants.create"), keys.of("list.sort")) == (("s",), ())
    assert keys.changed["list.sort"] == keymap.UNBOUND
    assert keys.problems == ("keys: s now runs tenants.create instead of list.sort",)
    keys = keymap.resolve({"table.down": "ctrl+n,j"}, MOVEMENT)
    assert (keys.of("table.down"), keys.problems) == (("ctrl+n", "j"), ())
    assert keymap.resolve({"tenants.create": "question_mark"}, MOVEMENT).of("app.help") == ()
    for key, text in (("question_mark", "?"), ("ctrl+t", "^t"), ("ctrl+@", "^Space"), ("@", "@")):
        assert keymap.key_text(key) == text
    keys = keymap.resolve({"app.copy": "w", "app.refresh": "w"})
    assert (keys.of("app.copy"), keys.of("app.refresh")) == (("w",), ())
    assert any("w is assigned to app.copy and app.refresh" in problem for problem in keys.problems)
    assert keymap.resolve({"tenants.use": "w", "contexts.use": "w"}).problems == ()
    assert "did you mean tenants.rename?" in keymap.resolve({"tenants.renam": "w"}).problems[0]
    assert keymap.resolve({"app.copy": 7}).problems == ("keys: app.copy requires a key or a list of keys",)
