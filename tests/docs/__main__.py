"""`python -m tests.docs` writes the generated parts of docs/commands.md and docs/screens.md."""

from tests.docs.generated import PARTS
from tests.docs.pages import ROOT

for part in PARTS:
    (ROOT / "docs" / part.name).write_text(part.expected())
