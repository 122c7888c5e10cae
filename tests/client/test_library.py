"""docs/library.md: its programs run, and the types of calls match their models."""

import ast
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import pytest

import client.api
from client.transport.call import Model
from tests.homes import Home

pytestmark = pytest.mark.process

DOCUMENT = (Path(__file__).parents[2] / "docs" / "library.md").read_text()
SECTIONS = {
    heading: re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    for heading, text in re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", DOCUMENT, re.DOTALL | re.MULTILINE)
}
OUTPUT = {
    "Asynchronous": r"(\S.* \d+\n){3}",
    "Blocking": r"(\S.* \d+\n){3}",
    "Errors": r"NOT_FOUND 404 True\n",
    "Pages": r"(\d+ refused requests\n)+",
    "Writes and versions": r"\d+\n",
    "Waiting for an operation": r"(\w+ \d+ %\n)*completed 100 %\n",
    "Events": r"\[.*'night-shift'\]\n",
    "Credentials": r"session\n",
}


@pytest.mark.slow
def test_every_program_of_the_document_runs_against_the_platform(demo: Home) -> None:
    assert set(OUTPUT) == {heading for heading, programs in SECTIONS.items() if programs}
    for heading, pattern in OUTPUT.items():
        for program in SECTIONS[heading]:
            words, env = [sys.executable, "-c", program], demo.environment()
            result = subprocess.run(words, capture_output=True, text=True, env=env, cwd=demo.path, timeout=300)
            assert result.stderr == "", (heading, result.stderr)
            assert re.fullmatch(pattern, result.stdout), (heading, result.stdout)


def test_the_document_names_every_module_of_calls_and_has_short_first_examples() -> None:
    for heading in ("Asynchronous", "Blocking"):
        (program,) = SECTIONS[heading]
        assert len([line for line in program.splitlines() if line]) <= 10
    named = set(re.findall(r"^\| `(\w+)` \|", DOCUMENT, re.MULTILINE))
    assert named == {module.name for module in iter_modules(client.api.__path__)}


@pytest.mark.parametrize("name", [f"client.api.{module.name}" for module in iter_modules(client.api.__path__)])
def test_the_annotation_of_a_model_names_the_model_it_imports(name: str) -> None:
    """The type checker sees the annotation, the response is parsed by the imported class."""
    module = import_module(name)
    tree = ast.parse(Path(str(module.__file__)).read_text())
    declared = {
        node.target.id: ast.unparse(node.annotation)
        for node in tree.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }
    models = {variable: value for variable, value in vars(module).items() if isinstance(value, Model)}
    assert models
    assert {variable: f"Model[{model.load().__name__}]" for variable, model in models.items()} == declared
