"""The generated parts of the documents say what the program says."""

import pytest

from tests.docs.generated import PARTS, Generated


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_the_generated_part_is_up_to_date(part: Generated) -> None:
    assert part.current() == part.expected(), "run: python -m tests.docs"
