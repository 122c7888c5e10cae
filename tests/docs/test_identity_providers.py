"""The messages in docs/identity-providers.md are those of the code."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

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


def is_in_code(message: str) -> bool:
    """Whether a text of the code gives this message; a value may be a text of its own, such as a reason."""
    head, mark, reason = message.partition(" is refused: ")
    return message in TEXTS or (bool(mark) and f"{head}{mark}…" in TEXTS and reason in TEXTS)


def test_the_messages_of_the_document_are_those_of_the_code() -> None:
    assert len(MESSAGES) >= 30
    assert [message for message in MESSAGES if not is_in_code(message)] == []
