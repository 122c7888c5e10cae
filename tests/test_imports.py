"""The import rules: packages, folders and their order, no circles, and declared dependencies."""

import ast
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from importlib.metadata import packages_distributions
from itertools import accumulate
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
OURS = {"client", "tui", "service"}
ALLOWED = {
    "client": {"client"},
    "tui": {"tui", "client"},
    "service": {"service", "client.models", "client.policy"},
    "client.policy": {"client.policy", "client.models"},
}
# Each imports only those before it. A folder counts as one; so does a module outside the folders.
ORDER = (
    *(
        "digests",
        "settings",
        "clock",
        "lru_cache",
        "token_bucket",
        "json_bodies",
        "errors",
        "files",
        "principal",
        "db",
        "catalogue",
        "validation",
    ),
    *(
        "secret_key",
        "audit",
        "principals",
        "http_server",
        "authn",
        "logs",
        "authz",
        "readiness_cache",
        "context",
        "api",
    ),
    *("jobs", "operator", "account", "activity", "default_tags", "iam", "workloads", "quotas", "resources", "authzen"),
    *("oidc_issuer", "tenants", "retention", "seed", "data_directory", "app", "start_signals", "server", "__main__"),
)
CLIENT_ORDER = (
    *(
        "errors",
        "text",
        "name_lookup",
        "models",
        "policy",
        "tables",
        "times",
        "time_zone",
        "transport",
        "paths",
        "config",
        "api",
    ),
    *("auth", "platform", "connection", "contexts", "tenancy", "operations"),
    *("quota_rules", "texts", "commands"),
)
FEATURES = ("account", "activity", "contexts", "default_tags", "iam", "quotas", "tenants")
TUI_ORDER = ("launch", "terminal", "state", "widgets", "shell", *FEATURES, "__main__", "web")
ORDERS = {"client": CLIENT_ORDER, "tui": TUI_ORDER, "service": ORDER}
MOST_MODULES = 20


@cache
def imports(file: Path) -> tuple[str, ...]:
    """Return every module that a source names, also inside functions and under TYPE_CHECKING."""
    nodes = list(ast.walk(ast.parse(file.read_text())))
    from_nodes = [node for node in nodes if isinstance(node, ast.ImportFrom) and node.module and not node.level]
    names = [name.name for node in nodes if isinstance(node, ast.Import) for name in node.names]
    return (*names, *(f"{node.module}.{name.name}" for node in from_nodes for name in node.names))


@cache
def graph(package: str) -> Mapping[str, frozenset[str]]:
    """Return the modules of a package with those of it that they import."""
    files = {
        ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): file
        for file in (ROOT / package).rglob("*.py")
        if "versions" not in file.parts
    }
    return {
        module: frozenset(
            found
            for name in imports(file)
            for found in (name if name in files else name.rpartition(".")[0],)
            if found in files and found != module
        )
        for module, file in files.items()
    }


def circle(edges: Mapping[str, frozenset[str]]) -> list[str]:
    """Return modules that import each other in a circle, if there are any."""
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def folder_edges(package: str) -> set[tuple[str, str]]:
    """Return which folder of a package imports which."""
    edges = [(module, name) for module, names in graph(package).items() for name in names]
    return {(a.split(".")[1], b.split(".")[1]) for a, b in edges if "." in a and "." in b}


@pytest.mark.parametrize("package", sorted(ORDERS))
def test_no_module_is_in_a_circle_and_folders_import_only_those_before_them(package: str) -> None:
    triangle = {"a": frozenset("b"), "b": frozenset("c"), "c": frozenset("a"), "d": frozenset("a")}
    assert set(circle(triangle)) == {"a", "b", "c"}
    assert circle(graph(package)) == []
    edges, order = folder_edges(package), ORDERS[package]
    assert {name for edge in edges for name in edge} <= set(order)
    assert [(a, b) for a, b in sorted(edges) if order.index(a) < order.index(b)] == []
    assert {edge for edge in edges if package == "tui" and set(edge) <= set(FEATURES) and edge[0] != edge[1]} == set()


@pytest.mark.parametrize("package", ["client", "tui"])
def test_no_folder_has_too_many_modules(package: str) -> None:
    folders = Counter(file.parent for file in (ROOT / package).rglob("*.py") if file.name != "__init__.py")
    assert {str(folder.relative_to(ROOT)): n for folder, n in folders.items() if n > MOST_MODULES} == {}


@pytest.mark.parametrize("package", sorted(ALLOWED))
def test_a_package_imports_only_packages_below_it(package: str) -> None:
    for file in (ROOT / package.replace(".", "/")).rglob("*.py"):
        for module in imports(file):
            if module.partition(".")[0] in OURS:
                below = any(module == name or module.startswith(f"{name}.") for name in ALLOWED[package])
                assert below, f"{file.relative_to(ROOT)} imports {module}"


def test_only_the_async_driver_imports_httpx() -> None:
    files = [file for package in OURS for file in (ROOT / package).rglob("*.py")]
    importers = [file for file in files if any(module.partition(".")[0] == "httpx" for module in imports(file))]
    assert importers == [ROOT / "client/transport/async_client.py"]


def loaded(statement: str) -> list[str]:
    """Return the modules that a fresh interpreter has loaded after a statement."""
    code = f"{statement}\nimport sys; print('\\n'.join(sys.modules), file=sys.__stderr__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    return done.stderr.split()


@pytest.mark.parametrize(
    ("statement", "forbidden"),
    [
        (
            "import client.transport.async_client, client.config.reader, client.auth.sign_in, client.platform.control",
            {"textual", "fastapi", "sqlalchemy"},
        ),
        ("from client.transport.async_client import AsyncClient", {"client.api", "client.models", "pydantic"}),
        ("import client.transport.blocking_client, client.api.tenants", {"uuid"}),
        ("import tui.shell.app", {"httpx", "fastapi", "sqlalchemy", "markdown_it", "tree_sitter", "numpy", "segno"}),
        # Dialogs, inputs and the prompt are loaded when they are opened, or once the first frame is on the screen.
        (
            "from tui.__main__ import omit_palette; omit_palette()\n"
            "import tui.shell.app, tui.tenants.screen, client.connection",
            {
                *("httpx", "pydantic", "markdown_it", "tree_sitter", "numpy", "pygments", "segno", "ruamel", "keyring"),
                *(f"tui.widgets.{name}" for name in ("dialog", "form", "lines", "picker")),
                *(f"tui.shell.{name}" for name in ("clipboard", "command_prompt", "palette")),
                *(f"tui.contexts.{name}" for name in ("sign_in", "screen")),
                *(f"textual.widgets._{name}" for name in ("input", "option_list", "tree")),  # of its palette
            },
        ),
        # What `service.__main__` imports before it disables the garbage collector for the framework's imports.
        (
            "import service.http_server.sockets, service.logs, service.settings",
            {"fastapi", "sqlalchemy", "uvicorn", "pydantic"},
        ),
        # Not needed for the first response on SQLite: PostgreSQL, queue, migrations, identity providers, tokens,
        # metrics, catalogue files.
        (
            "import service.server",
            {
                *("textual", "httpx", "keyring", "aiohttp", "asyncpg", "sqlalchemy.dialects.postgresql"),
                *("dbos", "alembic", "psycopg", "authlib", "joserfc", "cryptography", "prometheus_client", "yaml"),
            },
        ),
    ],
)
def test_a_front_end_does_not_load_what_it_does_not_use(statement: str, forbidden: set[str]) -> None:
    assert not {name for name in loaded(statement) if forbidden & {*accumulate(name.split("."), "{}.{}".format)}}


def test_no_test_imports_another_test() -> None:
    # Parsing all tests takes seconds.
    imported = re.compile(
        r"^\s*(?:from|import) tests\.(?:\w+\.)*test_\w+|^\s*from tests\S* import .*\btest_", re.MULTILINE
    )
    tests = [file for file in (ROOT / "tests").rglob("*.py") if ".parts" not in file.parts]  # installed packages
    assert {str(file.relative_to(ROOT)) for file in tests if imported.search(file.read_text())} == set()


def normalised(name: str) -> str:
    """Normalise the name of a distribution for comparisons (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def declared() -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return {normalised(re.split(r"[\[<>=!~; ]", requirement)[0]) for requirement in project["dependencies"]}


def test_every_import_from_outside_is_of_a_declared_dependency() -> None:
    distributions, known = packages_distributions(), declared()
    names = {
        name.partition(".")[0] for package in OURS for file in (ROOT / package).rglob("*.py") for name in imports(file)
    }
    outside = names - OURS - sys.stdlib_module_names
    assert {
        name for name in outside if not known & {normalised(one) for one in distributions.get(name, [name])}
    } == set()
    lock = tomllib.loads((ROOT / "uv.lock").read_text())
    (project,) = (one for one in lock["package"] if one["name"] == "frost-iam")
    assert {one["name"] for one in project["dependencies"]} == known
