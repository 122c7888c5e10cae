"""The example of changed keys in docs/screens.md is accepted by the program."""

import yaml

from tests.docs.pages import ROOT, Page
from tui.shell import keymap


def test_the_example_of_changed_keys_is_accepted_without_a_problem() -> None:
    (block,) = (block for block in Page(ROOT / "docs" / "screens.md").code_blocks if block.language == "yaml")
    wanted = yaml.safe_load(block.text)["keys"]
    keys = keymap.resolve(wanted)
    assert keys.problems == ()
    for name, value in wanted.items():
        assert keys.of(name) == (tuple(value) if isinstance(value, list) else (value,))
