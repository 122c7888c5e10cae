"""Routes that FastAPI analyses on their first use, because analysing all of them takes a sixth of the start."""

import gc
import logging
import threading
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any

from fastapi import params
from fastapi.routing import APIRoute
from starlette.routing import PARAM_REGEX, BaseRoute, compile_path, get_name

logger = logging.getLogger(__name__)

DELAY_SECONDS = 0.5
PAUSE_SECONDS = 0.002
_lock = threading.RLock()


class LazyRoute(APIRoute):
    """A route with its arguments as attributes. The first use of another attribute analyses the endpoint."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        self._options = options
        self._is_analysed = False
        self.path = path
        self.path_format = PARAM_REGEX.sub(r"{\1}", path)
        self.endpoint = endpoint
        self.name = options.get("name") or get_name(endpoint)
        self.methods = {method.upper() for method in options.get("methods") or ("GET",)}
        self.status_code: int | None = options.get("status_code")
        self.tags: list[str | Enum] = options.get("tags") or []
        self.dependencies: list[params.Depends] = list(options.get("dependencies") or ())
        self.responses: dict[int | str, dict[str, Any]] = options.get("responses") or {}
        self.openapi_extra: dict[str, Any] | None = options.get("openapi_extra")
        self.operation_id: str | None = options.get("operation_id")

    def __getattr__(self, name: str) -> Any:
        """Set a missing attribute and return it. Python calls this only for attributes that are not set."""
        if name in ("path_regex", "param_convertors"):
            # A request compares its path with many routes that it does not use.
            self.path_regex, _, self.param_convertors = compile_path(self.path)
        elif name.startswith("__") or name in ("_options", "_is_analysed"):
            raise AttributeError(name=name, obj=self)
        else:
            self.analyse()
        return self.__getattribute__(name)

    def analyse(self) -> None:
        """Analyse the parameters and dependencies of the endpoint, unless this is done.

        Raises:
            FastAPIError: FastAPI does not support a parameter.
        """
        # Two threads may use the route first; analysing takes about a millisecond.
        with _lock:
            if not self._is_analysed:
                # First, because FastAPI may look for attributes that no route has.
                self._is_analysed = True
                try:
                    super().__init__(self.path, self.endpoint, **self._options)
                except BaseException:
                    self._is_analysed = False
                    raise


def start_analysis(routes: Iterable[BaseRoute], stopping: threading.Event) -> threading.Thread:
    """Start a thread that analyses all routes, so that few requests wait for it."""
    thread = threading.Thread(target=analyse_routes, args=(tuple(routes), stopping), name="routes", daemon=True)
    thread.start()
    return thread


def analyse_routes(
    routes: Iterable[BaseRoute], stopping: threading.Event, delay: float = DELAY_SECONDS, pause: float = PAUSE_SECONDS
) -> None:
    """Analyse routes after a delay, with pauses in which requests run."""
    if stopping.wait(delay):
        return
    for route in routes:
        if isinstance(route, LazyRoute):
            try:
                _ = route.path_regex
                route.analyse()
            except Exception:
                logger.exception("%s cannot be analysed", route.path)
            if stopping.wait(pause):
                return
    # As after the imports: these objects stay until the end, so collections need not visit them.
    gc.freeze()
