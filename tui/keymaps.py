"""Which key runs which action: the defaults of the action table, changed by `keys:` in the config file.

A key given by the user always wins over a default; what loses its key stays in the palette and is named
at the start (design: Screens). Keys are compared in one spelling: `?` and `question_mark` are the same.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from textual.binding import Binding

from tui import actions
from tui.editor import actions as editor

UNBOUND = "unbound"
"""A key name no terminal sends: how a binding is taken away through Textual's public keymap."""

IN_BROWSER: Mapping[str, tuple[str, ...]] = {"app.switch_tenant": ("ctrl+o", "ctrl+t")}
"""Other defaults in a browser, most of which keep ctrl+t to themselves."""

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
_SHOWN = {
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
}


def spelling(key: str) -> str:
    """A key in the one spelling of this module."""
    key = key.strip()
    return _CHARACTERS.get(key, key)


def shown(key: str) -> str:
    """A key as people read it: `^t` for ctrl+t, `?` for itself."""
    key = spelling(key)
    if key.startswith("ctrl+"):
        return "^" + shown(key[5:])
    return _SHOWN.get(key, key)


class Keys(NamedTuple):
    """The keys in force."""

    by_action: Mapping[str, tuple[str, ...]]
    changed: Mapping[str, str] = MappingProxyType({})
    """What differs from the defaults, for `App.set_keymap`: action id -> keys joined by commas."""
    problems: tuple[str, ...] = ()
    """What is wrong with the config, each a sentence."""

    def of(self, action_id: str) -> tuple[str, ...]:
        """The keys of an action; none when it can only be reached by name."""
        return self.by_action.get(action_id, ())

    def label(self, action_id: str) -> str:
        """The first key of an action as people read it, or nothing."""
        keys = self.of(action_id)
        return shown(keys[0]) if keys else ""


def bindings(*scopes: str) -> list[Binding]:
    """The default bindings of some scopes, with ids so that a keymap can change them."""
    return bindings_of(actions.of_scope(*scopes))


def bindings_of(table: Iterable[actions.Action]) -> list[Binding]:
    """The default bindings of some actions."""
    return [
        # With priority, so that the frame can wait for a dialog before the next key is handed on (action_perform).
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
    """Whether a key writes a character, where there is something to write into."""
    return len(spelling(key)) == 1 or key in ("space", "left", "right", "backspace", "delete")


def resolve(wanted: Mapping[str, object], movement: Iterable[Binding] = (), *, browser: bool = False) -> Keys:
    """The defaults with what the config asks for. `movement` are bindings of lists that can be changed as well."""
    table = (*actions.ACTIONS, *editor.ACTIONS)
    defaults = {action.id: tuple(spelling(key) for key in action.keys) for action in table}
    for binding in movement:
        if binding.id is not None:
            defaults[binding.id] = tuple(spelling(key) for key in binding.key.split(","))
    bound = dict(defaults)
    if browser:
        defaults.update(IN_BROWSER)
    problems: list[str] = []
    chosen: dict[str, tuple[str, ...]] = {}
    for name, value in wanted.items():
        keys = _keys(value)
        if name not in defaults:
            import difflib

            near = difflib.get_close_matches(str(name), defaults, 1)
            problems.append(f"keys: no action is called {name}" + (f"; did you mean {near[0]}?" if near else ""))
        elif keys is None:
            problems.append(f"keys: {name} needs a key or a list of keys")
        else:
            taken = [(key, other) for key in keys for other in chosen if _meet(name, other) and key in chosen[other]]
            problems += [f"keys: {key} is given to {other} and to {name}; {other} keeps it" for key, other in taken]
            chosen[name] = tuple(key for key in keys if key not in {key for key, _ in taken})
    result = dict(defaults)
    for name, keys in chosen.items():
        result[name] = keys
        for other in defaults:
            if other not in chosen and _meet(name, other) and (lost := set(keys) & set(result[other])):
                result[other] = tuple(key for key in result[other] if key not in lost)
                problems.append(f"keys: {', '.join(sorted(lost))} now runs {name}, no longer {other}")
    changed = {name: ",".join(result[name]) or UNBOUND for name in result if result[name] != bound[name]}
    return Keys(result, changed, tuple(problems))


def _keys(value: object) -> tuple[str, ...] | None:
    if isinstance(value, str):
        # A comma separates keys, so the comma itself is written by its name.
        return tuple(spelling(key) for key in value.split(",") if key.strip())
    if isinstance(value, list) and all(isinstance(key, str) for key in value):
        return tuple(spelling(key) for key in value if key.strip())
    return None


def _meet(one: str, other: str) -> bool:
    """Whether two actions can hear the same key press: not when they belong to two different places."""
    if one == other:
        return False
    scopes = {one.partition(".")[0], other.partition(".")[0]}
    if editor.EDITOR in scopes:
        return len(scopes) == 1  # over the editor nothing of the frame hears a key
    return len(scopes) == 1 or bool(scopes & {actions.ANYWHERE, actions.LIST, "table"})
