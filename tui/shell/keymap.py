"""Key bindings: the defaults of the action table, changed by `keys:` in the config file.

A key set by the user takes precedence over a default. An action that loses its key is still in the palette and is
reported at the start. Keys are normalized: `?` and `question_mark` are equal.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from textual.binding import Binding

from tui.shell import actions
from tui.shell.action import load

UNBOUND = "unbound"
"""A key name that no terminal sends. It removes a binding through Textual's keymap."""

IN_BROWSER: Mapping[str, tuple[str, ...]] = {"app.switch_tenant": ("ctrl+o", "ctrl+t")}
"""Other defaults in a browser: most browsers reserve ctrl+t."""

_CHARACTERS = {
    "question_mark": "?",
    "colon": ":",
    "slash": "/",
    "minus": "-",
    "plus": "+",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "full_stop": ".",
    "comma": ",",
    "underscore": "_",
    "exclamation_mark": "!",
    "at": "@",
    "number_sign": "#",
}
_KEY_SIGNS = {
    "up": "↑",
    "down": "↓",
    "left": "←",
    "right": "→",
    "enter": "⏎",
    "escape": "Esc",
    "space": "Space",
    "pageup": "PgUp",
    "pagedown": "PgDn",
    "home": "Home",
    "end": "End",
    "delete": "Del",
    "ctrl+@": "^Space",  # as terminals send Ctrl+Space
}


def spelling(key: str) -> str:
    """Return the normalized name of a key."""
    key = key.strip()
    return _CHARACTERS.get(key, key)


def key_text(key: str) -> str:
    """Return a key as the user reads it: `^t` for ctrl+t, `?` for itself."""
    key = spelling(key)
    if key.startswith("ctrl+") and key not in _KEY_SIGNS:
        return "^" + key_text(key[5:])
    return _KEY_SIGNS.get(key, key)


class Keys(NamedTuple):
    """The effective keys."""

    by_action: Mapping[str, tuple[str, ...]]
    changed: Mapping[str, str] = MappingProxyType({})
    """The differences from the defaults, for `App.set_keymap`: action id -> keys joined by commas."""
    problems: tuple[str, ...] = ()
    """Problems of the config, each a sentence."""

    def of(self, action_id: str) -> tuple[str, ...]:
        """Return the keys of an action; empty if it is available by name only."""
        return self.by_action.get(action_id, ())

    def label(self, action_id: str) -> str:
        """Return the first key of an action as the user reads it, or an empty string."""
        keys = self.of(action_id)
        return key_text(keys[0]) if keys else ""


def bindings(*scopes: str) -> list[Binding]:
    """Return the default bindings of some scopes, with ids for the keymap."""
    return bindings_of(actions.of_scope(*scopes))


def bindings_of(table: Iterable[actions.Action]) -> list[Binding]:
    """Return the default bindings of some actions."""
    return [
        # With priority, an action runs before the focused widget sees its key.
        Binding(
            ",".join(action.keys),
            f"screen.perform('{action.id}')",
            action.title,
            show=False,
            priority=True,
            id=action.id,
        )
        for action in table
        if action.keys
    ]


def typed(key: str) -> bool:
    """Return whether a key types a character or edits text in an input."""
    return len(spelling(key)) == 1 or key in ("space", "left", "right", "backspace", "delete")


def resolve(configured: Mapping[str, object], movement: Iterable[Binding] = (), *, browser: bool = False) -> Keys:
    """Return the defaults, changed by the config. `movement` are bindings of lists, which can be changed as well."""
    table = (*actions.ACTIONS, *load("tui.iam.editor.actions:ACTIONS"))
    defaults = {action.id: tuple(spelling(key) for key in action.keys) for action in table}
    for binding in movement:
        if binding.id is not None:
            defaults[binding.id] = tuple(spelling(key) for key in binding.key.split(","))
    bound = dict(defaults)
    if browser:
        defaults.update(IN_BROWSER)
    problems: list[str] = []
    chosen: dict[str, tuple[str, ...]] = {}
    for name, value in configured.items():
        keys = _keys(value)
        if name not in defaults:
            import difflib

            near = difflib.get_close_matches(str(name), defaults, 1)
            problems.append(f"keys: unknown action {name}" + (f"; did you mean {near[0]}?" if near else ""))
        elif keys is None:
            problems.append(f"keys: {name} requires a key or a list of keys")
        else:
            taken = [(key, other) for key in keys for other in chosen if _meet(name, other) and key in chosen[other]]
            problems += [f"keys: {key} is assigned to {other} and {name}; {other} wins" for key, other in taken]
            chosen[name] = tuple(key for key in keys if key not in {key for key, _ in taken})
    result = dict(defaults)
    for name, keys in chosen.items():
        result[name] = keys
        for other in defaults:
            if other not in chosen and _meet(name, other) and (lost := set(keys) & set(result[other])):
                result[other] = tuple(key for key in result[other] if key not in lost)
                problems.append(f"keys: {', '.join(sorted(lost))} now runs {name} instead of {other}")
    changed = {name: ",".join(result[name]) or UNBOUND for name in result if result[name] != bound[name]}
    return Keys(result, changed, tuple(problems))


def _keys(value: object) -> tuple[str, ...] | None:
    if isinstance(value, str):
        # A comma separates keys; the comma key has its name, `comma`.
        return tuple(spelling(key) for key in value.split(",") if key.strip())
    if isinstance(value, list) and all(isinstance(key, str) for key in value):
        return tuple(spelling(key) for key in value if key.strip())
    return None


def _meet(one: str, other: str) -> bool:
    """Return whether one key press can reach both actions. It cannot if they belong to different screens."""
    if one == other:
        return False
    scopes = {one.partition(".")[0], other.partition(".")[0]}
    if "editor" in scopes:
        return len(scopes) == 1  # behind the editor, the main screen receives no keys
    return len(scopes) == 1 or bool(scopes & {actions.ANYWHERE, actions.LIST, "table"})
