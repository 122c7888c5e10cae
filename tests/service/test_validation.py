"""The forms of an id."""

import pytest

from service.errors import ApiError
from service.validation import canonical_id, is_id

ID = "01a0c0de-0000-7000-8000-00000000000a"


def test_every_spelling_of_an_id_has_one_canonical_form() -> None:
    for text in (ID, ID.upper(), ID.replace("-", ""), f"{{{ID}}}", f"urn:uuid:{ID}", f"URN:UUID:{{{ID.upper()}}}"):
        assert canonical_id(text, "tenant") == ID
        assert is_id(text) is (text == ID)
    invalid = ("", "x", ID[:-1], ID + "0", f"{{{ID}", f"{ID}}}", f" {ID}", f"{ID}\n", ID.replace("a", "١"))
    for text in (*invalid, "0_" + ID[2:]):
        assert not is_id(text)
        with pytest.raises(ApiError, match="invalid tenant ID"):
            canonical_id(text, "tenant")
