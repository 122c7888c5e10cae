"""`--output table`: on a terminal a table fits its width and keeps every id; a pipe gets all."""

import sys

import pytest

from tests.acceptance.people import WEB_SHOP
from tests.homes import Home
from tests.terminal import Program

DEPLOYERS = "142c8364-7806-4577-93e7-83e7eb04b39b"
CHECKOUT = "47eaa099-2cb6-416d-86dc-283cf0480ff9"
COMPUTE_ALL = "42a68fec-c75a-43c4-8d0d-866b16519537"
OWNER_ID = "dfb359ee-cc3a-4c40-8c3e-0826d45751a4"


def printed(home: Home, columns: int, *words: str) -> str:
    """What a command writes to a terminal of so many columns."""
    program = Program(
        [sys.executable, "-m", "tui", *words, "--no-color"], columns, 60, env=home.environment(), inherit=False
    )
    assert program.wait_end() == 0
    return program.raw().decode().replace("\r\n", "\n")


@pytest.mark.parametrize(
    ("words", "identifier", "long"),
    [
        (("tenant", "list", "--all"), WEB_SHOP, "Aurora Labs"),
        (("iam", "group", "list"), DEPLOYERS, "What rolls out"),
        (("iam", "group", "member", "list", DEPLOYERS), CHECKOUT, "workload_identity"),
        (("account", "api-key", "list"), COMPUTE_ALL, "deploy-pipeline"),
    ],
)
def test_a_table_fits_80_columns_keeps_ids_and_is_whole_in_a_pipe(
    shared: Home, words: tuple[str, ...], identifier: str, long: str
) -> None:
    lines = printed(shared, 80, *words).splitlines()
    assert max(map(len, lines)) <= 80
    assert f"  {identifier}  " in "\n".join(lines)
    assert long not in "\n".join(lines)
    assert "…" in "\n".join(lines)
    piped = shared.frost(*words).out
    assert long in piped
    assert "…" not in piped


def test_no_id_is_ever_cut(shared: Home) -> None:
    columns = 20
    assert WEB_SHOP in printed(shared, columns, "tenant", "list", "--all")
    assert DEPLOYERS in printed(shared, columns, "iam", "group", "list", "-o", "wide")
    assert OWNER_ID in printed(shared, columns, "whoami")
    assert COMPUTE_ALL in printed(shared, columns, "account", "api-key", "list")
