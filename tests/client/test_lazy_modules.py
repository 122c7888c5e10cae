"""Modules of the standard library that a command executes at their first use."""

import importlib
import platform
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from client.lazy_modules import OF_COMMANDS, install


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
    expected = [str(len(OF_COMMANDS)), "a", "True", platform.system(), "7", "28", "module", platform.python_version()]
    assert done.stdout.split() == expected


@pytest.mark.process
def test_modules_that_are_imported_already_are_kept() -> None:
    code = (
        "import inspect, sys\nfrom client import lazy_modules\nlazy_modules.install()\n"
        "print(type(inspect).__name__, sys.modules['inspect'] is inspect)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["module", "True"]


SLOW = """
import threading
may_end = threading.Event()
if globals().get("fails"):
    raise KeyboardInterrupt
if "fails" not in globals():
    may_end.wait()
value = 1
"""


@pytest.fixture
def slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A lazy module that waits while it is executed."""
    (tmp_path / "lazy_and_slow.py").write_text(SLOW)
    monkeypatch.syspath_prepend(tmp_path)
    install(["lazy_and_slow"])
    yield importlib.import_module("lazy_and_slow")
    del sys.modules["lazy_and_slow"]


def test_a_second_thread_waits_for_the_first_use_of_a_module(slow: Any) -> None:
    end = None
    with ThreadPoolExecutor(2) as threads:
        try:
            first = threads.submit(lambda: slow.value)
            while (end := vars(slow).get("may_end")) is None:
                assert not first.done()
            second = threads.submit(lambda: slow.value)
            end.wait(0.1)  # the second thread reaches the module, which has no value yet
            assert not second.done()
        finally:
            if end is not None:
                end.set()
        assert (first.result(), second.result()) == (1, 1)
    assert type(slow) is type(sys)
    with pytest.raises(AttributeError, match="missing"):
        _ = slow.missing


def test_an_interrupted_first_use_is_repeated(slow: Any) -> None:
    vars(slow)["fails"] = True
    with pytest.raises(KeyboardInterrupt):
        _ = slow.value
    vars(slow)["fails"] = False
    assert slow.value == 1


@pytest.mark.process
def test_ssl_is_hidden_only_while_no_other_thread_can_import_it() -> None:
    code = (
        "import sys, threading\nfrom client.commands.invocation import _load_http_without_ssl as load\n"
        "end = threading.Event()\nthread = threading.Thread(target=end.wait)\nthread.start()\nload()\n"
        "assert 'http.client' not in sys.modules and 'ssl' not in sys.modules\nend.set()\nthread.join()\nload()\n"
        "assert 'http.client' in sys.modules and 'ssl' not in sys.modules\n"
        "import http.client, ssl\nassert not hasattr(http.client, 'HTTPSConnection') and ssl.SSLContext"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
