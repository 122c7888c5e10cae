"""The messages in docs/identity-providers.md are those of the code."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs" / "identity-providers.md").read_text()
SOURCES = [*(ROOT / "client" / "auth").glob("*.py"), *(ROOT / "service" / "authn").glob("*.py")]
SOURCES.append(ROOT / "service" / "account" / "routes.py")
MESSAGES = re.findall(r"^\| `([^`]+)` \|", DOCUMENT.partition("## Trouble")[2].partition("## Tested")[0], re.MULTILINE)


def texts(source: Path) -> Iterator[str]:
    """The texts of a module, with `…` in place of their values."""
    for node in ast.walk(ast.parse(source.read_text())):
        if isinstance(node, ast.JoinedStr):
            yield "".join(part.value if isinstance(part, ast.Constant) else "…" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield re.sub(r"%[sr]", "…", node.value)


TEXTS = {text for source in SOURCES for text in texts(source)}


@pytest.mark.parametrize("message", MESSAGES)
def test_a_message_of_the_document_is_one_of_the_code(message: str) -> None:
    assert any(_matches(message, text) for text in TEXTS)


def _matches(message: str, text: str) -> bool:
    """Whether a text of the code gives this message; a value may be a text of its own, such as a reason."""
    if message == text:
        return True
    head, mark, reason = message.partition(" is refused: ")
    return bool(mark) and f"{head}{mark}…" == text and reason in TEXTS


def test_the_table_is_read() -> None:
    assert len(MESSAGES) >= 30
