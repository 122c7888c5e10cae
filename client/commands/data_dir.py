"""`--data-dir`: which of this machine's platforms a command of `frost platform` is about (ours)."""

import os

import click

from client.connection import Staff
from client.errors import usage

DATA_DIR = click.Option(["--data-dir"], metavar="DIR", help="Where its files are; default $HOME/.cli/platform.")


def staff_of(data_dir: str | None, command: str, *, starts: bool = False) -> Staff:
    """The platform with its files in that folder, for the owner of its socket; None is the local one.

    Raises:
        FrostError: The folder is empty, or the path of its socket cannot be used (exit 2).
    """
    if data_dir == "":
        raise usage(f"--data-dir needs a value, an empty one was given ({command})")
    return Staff(os.environ, starts=starts, folder=data_dir or "")
