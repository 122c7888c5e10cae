"""Clients for programs that use the platform (docs/library.md)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from client.connection import resolve

if TYPE_CHECKING:
    from client.transport.async_client import AsyncClient
    from client.transport.blocking_client import BlockingClient
    from client.transport.exchange import OnReply


def open_client(
    context: str | None = None,
    *,
    config_path: str | None = None,
    environ: Mapping[str, str] = os.environ,
    on_reply: OnReply | None = None,
) -> AsyncClient:
    """Return an asynchronous client for a context of the configuration. Close it with `async with` or `aclose`.

    Args:
        context: The name of the context; None selects it by `FROST_CONTEXT`, then by the file.
        config_path: The path of the configuration file; None is `$HOME/.cli/config.yaml`.
        environ: The environment, with `HOME` and the variables of frost.
        on_reply: Called on the event loop after each response, failed exchange and wait, for logs.

    Raises:
        FrostError: The file is invalid (exit 2), or the context does not exist (exit 5).
    """
    from client.transport.async_client import AsyncClient

    return AsyncClient(resolve(config_path, environ, context=context), on_reply=on_reply)


def open_blocking_client(
    context: str | None = None,
    *,
    config_path: str | None = None,
    environ: Mapping[str, str] = os.environ,
    on_reply: OnReply | None = None,
) -> BlockingClient:
    """Return a blocking client for a context of the configuration. It holds no connection, so it needs no close.

    Arguments and errors are those of `open_client`.
    """
    from client.transport.blocking_client import BlockingClient

    return BlockingClient(resolve(config_path, environ, context=context), on_reply=on_reply)
