"""design: Three packages, arrows only downwards. The sources are read, and a running interpreter is asked."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
OURS = {"client", "tui", "service"}
ALLOWED = {"client": {"client"}, "tui": {"tui", "client"}, "service": {"service", "client.models"}}
ENTRY_POINT = "tui/__main__.py"


def imports(file: Path) -> Iterator[str]:
    """Every module a source names, wherever in the file it does."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None and node.level == 0:
            yield from (f"{node.module}.{name.name}" for name in node.names)


@pytest.mark.parametrize("package", sorted(OURS))
def test_a_package_imports_only_what_stands_below_it(package: str) -> None:
    for file in (ROOT / package).rglob("*.py"):
        for module in imports(file):
            if module.partition(".")[0] in OURS:
                below = any(module == name or module.startswith(f"{name}.") for name in ALLOWED[package])
                assert below, f"{file.relative_to(ROOT)} imports {module}"


def test_only_the_async_driver_imports_httpx() -> None:
    importers = [
        str(file.relative_to(ROOT))
        for package in OURS
        for file in (ROOT / package).rglob("*.py")
        if any(module.partition(".")[0] == "httpx" for module in imports(file))
    ]
    assert importers == ["client/http.py"]


def loaded_by(statement: str) -> set[str]:
    """The modules an interpreter holds after a statement."""
    code = f"{statement}\nimport sys; print('\\n'.join(sys.modules), file=sys.__stderr__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    return set(done.stderr.split())


@pytest.mark.parametrize(
    ("statement", "forbidden"),
    [
        ("import client.api.client, client.config, client.login, client.local", {"textual", "fastapi", "sqlalchemy"}),
        ("import client.oneshot, client.core, client.config", {"httpx", "asyncio", "pydantic", "ruamel", "keyring"}),
        ("import client.commands.root", {"textual", "httpx", "asyncio", "pydantic", "ruamel", "keyring"}),
        ("import tui.app", {"httpx", "fastapi", "sqlalchemy", "markdown_it", "tree_sitter", "numpy", "segno"}),
        ("import service.app", {"textual", "dbos", "alembic", "httpx", "keyring"}),
    ],
)
def test_a_front_end_does_not_load_what_it_does_not_use(statement: str, forbidden: set[str]) -> None:
    assert not {name for name in loaded_by(statement) if name.partition(".")[0] in forbidden}
