"""`python -m service`: the platform as a process. Flags: service/settings.py

The order is the point (design: The local platform): take the folder, the lock and the sockets first, load the
framework after; early clients wait in the backlog meanwhile.
"""

import gc
import os
import signal
import sys


def main() -> int:
    """Serve until told to stop. Exit status 75: the platform of this folder is running already."""
    # Until the server has handlers of its own. A KeyboardInterrupt in the middle of an import may come out of it as
    # another error; nothing is lost, a folder left like this is taken as after a kill.
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
        # Before its log: a person sees that it takes a moment, and how it ends.
        sys.stderr.write("frost platform: starting; Ctrl-C stops it\n")

    # Importing makes no garbage, but the collector would look for it a hundred times.
    gc.disable()
    from service.server import serve

    gc.freeze()
    gc.enable()
    try:
        return serve(settings, sockets)
    finally:
        # Still under the lock: nobody else can have bound a new one here.
        settings.socket.unlink(missing_ok=True)


if __name__ == "__main__":
    sys.exit(main())
