"""Modules of the standard library that a command executes at their first use."""

import subprocess
import sys

import pytest

from client.lazy_modules import OF_COMMANDS


@pytest.mark.process
def test_modules_are_executed_at_their_first_use() -> None:
    code = (
        "import sys\nbefore = set(sys.modules)\n"
        "from client import lazy_modules\nlazy_modules.install()\n"
        "import click, email.utils, socket, urllib.parse, calendar, calendar\n"
        f"lazy = [name for name in {[*OF_COMMANDS]} if type(sys.modules[name]) is lazy_modules.LazyModule]\n"
        "import inspect, ipaddress, platform\n"
        "from random import Random\n"
        "print(len(lazy), inspect.cleandoc(' a'), ipaddress.ip_address('::1').is_loopback, platform.system(),"
        " Random(1).randint(7, 7), calendar.monthrange(2026, 2)[1], type(calendar).__name__, platform.python_version())"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        env={"PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    import platform

    assert done.stdout.split() == [
        str(len(OF_COMMANDS)),
        "a",
        "True",
        platform.system(),
        "7",
        "28",
        "module",
        platform.python_version(),
    ]


@pytest.mark.process
def test_modules_that_are_imported_already_are_kept() -> None:
    code = (
        "import inspect, sys\nfrom client import lazy_modules\nlazy_modules.install()\n"
        "print(type(inspect).__name__, sys.modules['inspect'] is inspect)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["module", "True"]


@pytest.mark.process
def test_modules_are_executed_once_if_two_threads_use_them() -> None:
    code = (
        "import sys, threading, time\n"
        "from importlib.machinery import SourceFileLoader\n"
        "from client import lazy_modules\n"
        "execute = SourceFileLoader.exec_module\n"
        "count = []\n"
        "def slow(loader, module):\n"
        "    count.append(module.__name__)\n"
        "    time.sleep(0.2)\n"
        "    execute(loader, module)\n"
        "SourceFileLoader.exec_module = slow\n"
        "lazy_modules.install(['calendar'])\n"
        "import calendar\n"
        "days = []\n"
        "threads = [threading.Thread(target=lambda: days.append(calendar.monthrange(2026, 2)[1])) for _ in range(4)]\n"
        "[thread.start() for thread in threads], [thread.join() for thread in threads]\n"
        "print(days, count.count('calendar'), hasattr(calendar, 'absent'))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[28, 28, 28, 28] 1 False\n"
