"""Imports from outside are declared dependencies, so that every installation has them."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
OURS = ("client", "service", "tui")


def imported(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the top-level names of absolute imports, each with its file."""
    for path in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module or ""]
            yield from ((name.partition(".")[0], str(path.relative_to(ROOT))) for name in names)


def normalised(name: str) -> str:
    """Normalise the name of a distribution for comparisons (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def declared() -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return {normalised(re.split(r"[\[<>=!~; ]", requirement)[0]) for requirement in project["dependencies"]}


@pytest.mark.parametrize("package", OURS)
def test_every_import_from_outside_is_of_a_declared_dependency(package: str) -> None:
    distributions, known = packages_distributions(), declared()
    undeclared = {
        f"{name} ({path})"
        for name, path in imported(ROOT / package)
        if name not in sys.stdlib_module_names
        and name not in OURS
        and not known & {normalised(one) for one in distributions.get(name, [name])}
    }
    assert undeclared == set()


def test_the_lock_file_has_every_declared_dependency() -> None:
    lock = tomllib.loads((ROOT / "uv.lock").read_text())
    (project,) = (one for one in lock["package"] if one["name"] == "frost")
    assert {one["name"] for one in project["dependencies"]} == declared()
