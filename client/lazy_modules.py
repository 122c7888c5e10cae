"""Modules of the standard library that are executed at the first use of one of their attributes.

Libraries import them for features that a command or the first frame of the screens does not need.
`importlib.util.LazyLoader` does not help: in Python 3.11, the second `import` of a module already executes it.
"""

import os
import sys
from _thread import RLock
from collections.abc import Callable, Collection, Mapping
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


def _system_name() -> str:
    return os.uname().sysname


OF_COMMANDS = frozenset({"calendar", "inspect", "ipaddress", "platform", "random", "selectors"})
"""Imported by click, email, socket, urllib and uuid."""
OF_SCREENS = frozenset({"base64", "gettext", "ipaddress", "linecache", "locale", "platform", "textwrap", "tokenize"})
"""Imported by Textual, rich, asyncio, inspect and traceback. Together they take a thirtieth of the time to the first
frame.
"""
_FUNCTIONS: Mapping[str, Mapping[str, Callable[[], str]]] = {
    "platform": {"system": _system_name},  # uuid calls it when it is imported
}
"""Functions that a module has before it is executed."""
_lock = RLock()
"""Held while a module is executed. None of these modules imports a module that uses another of them when it is
imported, so this lock and the locks of the import system cannot wait for each other.
"""


class LazyModule(ModuleType):
    """A module that executes its code when a missing attribute is read.

    Another thread that reads a missing attribute waits for the end. An attribute that is defined already is returned
    at once, so it may be used before the module is complete.
    """

    def __getattr__(self, name: str) -> Any:
        with _lock:
            if name in vars(self):  # another thread has executed the module
                return vars(self)[name]
            if "_executing" in vars(self) or type(self) is not LazyModule:
                raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
            spec = self.__spec__
            assert spec is not None
            assert spec.loader is not None
            vars(self)["_executing"] = True
            try:
                spec.loader.exec_module(self)
            finally:
                del vars(self)["_executing"]
            self.__class__ = ModuleType  # type: ignore[assignment]
        return getattr(self, name)


def install(names: Collection[str] = OF_COMMANDS) -> None:
    """Put the modules into `sys.modules` that are not imported already."""
    for name in names:
        spec = None if name in sys.modules else _find_spec(name)
        if spec is not None and spec.loader is not None:
            module = LazyModule(name)
            module.__spec__, module.__loader__, module.__file__ = spec, spec.loader, spec.origin
            vars(module).update(_FUNCTIONS.get(name, {}))
            sys.modules[name] = module


def _find_spec(name: str) -> ModuleSpec | None:
    for finder in sys.meta_path:
        spec = finder.find_spec(name, None)
        if spec is not None:
            return spec
    return None
