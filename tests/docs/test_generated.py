"""The generated parts of the documents say what the program says, and it accepts the example of changed keys."""

import pytest
import yaml

from tests.docs.generated import PARTS, Generated
from tests.docs.pages import ROOT, Page
from tui.shell import keymap


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_the_generated_part_is_up_to_date(part: Generated) -> None:
    assert part.current() == part.expected(), "run: python -m tests.docs"


def test_the_example_of_changed_keys_is_accepted_without_a_problem() -> None:
    (block,) = (block for block in Page(ROOT / "docs" / "screens.md").code_blocks if block.language == "yaml")
    configured = yaml.safe_load(block.text)["keys"]
    keys = keymap.resolve(configured)
    assert keys.problems == ()
    for name, value in configured.items():
        assert keys.of(name) == (tuple(value) if isinstance(value, list) else (value,))
