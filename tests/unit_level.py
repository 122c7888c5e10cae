"""The unit level: tests that start no process and open no database.

`-m unit` selects them. In every run a unit test that starts a process or opens a database fails.
"""

import sys
from collections.abc import Generator
from pathlib import Path

import pytest

UNIT = (
    "tests/client",
    "tests/policy",
    "tests/service/test_admission.py",
    "tests/service/test_apply_rules.py",
    "tests/service/test_settings.py",
    "tests/service/test_json_bodies.py",
    "tests/service/test_files.py",
    "tests/service/test_iam_documents.py",
    "tests/service/test_lazy_route.py",
    "tests/service/test_peer_credentials.py",
    "tests/service/test_quota_rules.py",
    "tests/test_unit_level.py",
    "tests/tui/test_action_writes.py",
    "tests/tui/test_actions.py",
    "tests/tui/test_collections.py",
    "tests/tui/test_record_table.py",
    "tests/tui/test_command_line.py",
    "tests/tui/test_editor_parts.py",
    "tests/tui/test_key_widgets.py",
    "tests/tui/test_quota_bars.py",
    "tests/tui/test_small_parts.py",
    "tests/tui/test_tag_draft.py",
    "tests/tui/test_tag_widgets.py",
)
"""Folders and modules of the unit level. A test or module in them that needs a process has the marker `process`."""
_ROOT = Path(__file__).parents[1]
_REFUSED = frozenset(
    {"subprocess.Popen", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.system", "pty.spawn"}
    | {"sqlite3.connect"}
)
_running: list[str] = []


def _refuse(event: str, _: object) -> None:
    if event in _REFUSED and _running:
        raise RuntimeError(f"{event} in {_running[0]}, a unit test: mark it with pytest.mark.process")


@pytest.hookimpl
def pytest_configure() -> None:
    sys.addaudithook(_refuse)


@pytest.hookimpl
def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Skip the import of other test modules for `-m unit`."""
    if config.option.markexpr != "unit" or not collection_path.name.startswith("test_"):
        return None
    return None if str(collection_path.relative_to(_ROOT)).startswith(UNIT) else True


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if (
            item.nodeid.startswith(UNIT)
            and not any(item.iter_markers("process"))
            and not any(item.iter_markers("slow"))
        ):
            item.add_marker("unit")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    # Not the teardown, which in the last test of a worker ends what other tests have started.
    if any(item.iter_markers("unit")):
        _running.append(item.nodeid)
    try:
        return (yield)
    finally:
        _running.clear()
