"""The screens of one tab, started by tui/web/tab.py: `python -m tui.web.screens` with their flags."""

import sys

from tui import launch
from tui.__main__ import open_screens

if __name__ == "__main__":
    wanted = launch.parse(sys.argv[1:])
    assert wanted is not None
    sys.exit(open_screens(wanted._replace(browser=True)))
