"""`python -m service`: start the platform. `service/settings.py` lists the flags.

The lock and the sockets are taken before the framework is imported; early clients wait in the backlog meanwhile.
"""

import gc
import os
import signal
import sys


def main() -> int:
    """Serve until a stop signal. Exit status 75: the platform of this folder is already running."""
    # Until the server installs its handlers. A KeyboardInterrupt during an import may surface as another error. Exiting
    # here is safe: the folder is left as after a kill.
    signal.signal(signal.SIGINT, lambda *_: os._exit(130))
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
        sockets = [service_sockets.unix_socket(settings.socket)]
        if settings.listen:
            sockets.append(service_sockets.tcp_socket(*settings.listen))
    except service_sockets.StartError as error:
        sys.stderr.write(f"frost platform: {error}\n")
        return error.status

    if sys.stderr.isatty():
        # For a person at a terminal, before the log begins.
        sys.stderr.write("frost platform: starting; Ctrl-C stops it\n")

    # Imports create no garbage, but would trigger a hundred collections.
    gc.disable()
    from service.server import serve

    gc.freeze()
    gc.enable()
    try:
        return serve(settings, sockets)
    finally:
        # The lock is still held, so this is the socket of this process.
        settings.socket.unlink(missing_ok=True)


if __name__ == "__main__":
    sys.exit(main())
