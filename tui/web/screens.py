"""The screens of one tab, started by tui/web/tab.py: `python -m tui.web.screens` with their flags."""

import sys

from tui import launch
from tui.__main__ import open_screens

if __name__ == "__main__":
    launch_flags = launch.parse(sys.argv[1:])
    assert launch_flags is not None
    sys.exit(open_screens(launch_flags._replace(browser=True)))
