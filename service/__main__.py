"""`python -m service`: start the platform. `service/settings.py` lists the flags.

The lock and the sockets are acquired before the framework is imported, so that early clients wait in the backlog.
"""

import gc
import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from service.start_signals import StartSignals

if TYPE_CHECKING:
    import socket

    from service.settings import Settings


def main() -> int:
    """Serve until a stop signal. Return the exit status, 75 if a platform already runs in this folder."""
    start_signals = StartSignals()
    start_signals.start()
    from service.http_server import sockets as service_sockets
    from service.logs import NAME
    from service.settings import from_arguments

    settings = from_arguments(sys.argv[1:], os.environ)
    os.umask(0o077)
    try:
        service_sockets.ensure_private_directory(settings.data_dir)
        service_sockets.require_not_symlink(settings.data_dir / NAME)
        service_sockets.acquire_lock(settings.data_dir)
        if any((settings.data_dir / name).exists() for name in ("restore.staged", "restore.ready")):
            from service.operator.restore import finish_interrupted_restore

            finish_interrupted_restore(settings)
        start_signals.before_end(lambda: settings.socket.unlink(missing_ok=True))  # with the lock
        sockets = [service_sockets.unix_socket(settings.socket)]
        if settings.listen:
            sockets.append(service_sockets.tcp_socket(*settings.listen))
    except service_sockets.StartError as error:
        sys.stderr.write(f"frost platform: {error}\n")
        return error.status
    except OSError as error:
        sys.stderr.write(f"frost platform: {error.filename or settings.data_dir} cannot be used: {error.strerror}\n")
        return 1

    if sys.stderr.isatty():
        sys.stderr.write("frost platform: starting; Ctrl-C stops it\n")

    # Imports create no garbage, but trigger collections.
    gc.disable()
    serve = import_server()
    gc.freeze()
    gc.enable()
    try:
        return serve(settings, sockets, start_signals)
    finally:
        # With the lock, so this is the socket of this process.
        settings.socket.unlink(missing_ok=True)


def import_server() -> "Callable[[Settings, Sequence[socket.socket], StartSignals], int]":
    """Import the server without work that no first answer needs. Return `serve`."""
    # To find plugins, pydantic would read the metadata of every installed package. The platform has none.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "1")
    from pydantic import BaseModel

    # Build the models of requests and of FastAPI's API descriptions on first use, which may be in several threads: safe
    # since pydantic 2.14.
    BaseModel.model_config["defer_build"] = True
    from service.server import serve

    del BaseModel.model_config["defer_build"]
    return serve


if __name__ == "__main__":
    sys.exit(main())
