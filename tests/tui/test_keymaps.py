"""Keys: the defaults do not meet, a key of the user's own wins, and every mistake in the config is named."""

from textual.binding import Binding

from tui.shell import actions, keymap
from tui.widgets.record_table import RecordTable

MOVEMENT = [binding for binding in RecordTable.BINDINGS if isinstance(binding, Binding)]


def test_no_two_defaults_hear_the_same_key() -> None:
    keys = keymap.resolve({}, MOVEMENT)
    assert keys.problems == ()
    assert keys.changed == {}
    heard: dict[tuple[str, str], str] = {}
    for screen in ("tenants", "contexts"):
        for name, pressed in keys.by_action.items():
            if name.partition(".")[0] in (screen, "list", "app", "table"):
                for key in pressed:
                    assert heard.setdefault((screen, key), name) == name, (key, name)


def test_nothing_destructive_sits_on_ctrl_and_a_letter() -> None:
    for action in actions.ACTIONS:
        if action.writes or action.id == "contexts.sign_out":
            assert not any(key.startswith("ctrl+") for key in action.keys)


def test_a_key_of_the_users_own_wins_over_a_default_and_the_loser_is_named() -> None:
    keys = keymap.resolve({"tenants.create": "s"}, MOVEMENT)
    assert keys.of("tenants.create") == ("s",)
    assert keys.of("list.sort") == ()
    assert keys.changed["list.sort"] == keymap.UNBOUND
    assert keys.problems == ("keys: s now runs tenants.create instead of list.sort",)


def test_a_key_for_moving_can_be_changed_as_well() -> None:
    keys = keymap.resolve({"table.down": "ctrl+n,j"}, MOVEMENT)
    assert keys.of("table.down") == ("ctrl+n", "j")
    assert keys.problems == ()


def test_two_actions_that_want_the_same_key_are_a_conflict_and_the_first_keeps_it() -> None:
    keys = keymap.resolve({"app.copy": "w", "app.refresh": "w"})
    assert keys.of("app.copy") == ("w",)
    assert keys.of("app.refresh") == ()
    assert any("w is assigned to app.copy and app.refresh" in problem for problem in keys.problems)


def test_the_same_key_in_two_places_is_no_conflict() -> None:
    assert keymap.resolve({"tenants.use": "w", "contexts.use": "w"}).problems == ()


def test_an_action_that_does_not_exist_is_named_with_the_nearest_one() -> None:
    assert "did you mean tenants.rename?" in keymap.resolve({"tenants.renam": "w"}).problems[0]


def test_a_key_that_is_no_text_is_named() -> None:
    assert keymap.resolve({"app.copy": 7}).problems == ("keys: app.copy requires a key or a list of keys",)


def test_long_and_short_names_of_a_key_are_the_same_key() -> None:
    keys = keymap.resolve({"tenants.create": "question_mark"}, MOVEMENT)
    assert keys.of("app.help") == ()
    assert keymap.key_text("question_mark") == "?"
    assert keymap.key_text("ctrl+t") == "^t"
