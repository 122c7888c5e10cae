"""`frost --debug` with screens: requests and responses are logged in a private file, without secrets."""

import stat
from pathlib import Path

import pytest

from client.errors import FrostError
from client.transport.exchange import RequestLogEntry
from tests.homes import Home
from tests.terminal import screens
from tui.state.debug_log import DebugLog, debug_log_path


def test_an_exchange_is_a_line_of_a_file_that_only_the_user_can_read(tmp_path: Path) -> None:
    path = tmp_path / ".cli" / "debug.log"
    log = DebugLog(debug_log_path({"HOME": str(tmp_path)}))
    log.write(RequestLogEntry("GET", "/api/v1/me", 200, 0.012, request_id="r-1"))
    assert log.path == str(path)
    assert path.read_text().endswith(" GET /api/v1/me 200 12 ms request r-1\n")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_link_in_place_of_the_log_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("kept")
    (tmp_path / "debug.log").symlink_to(other)
    with pytest.raises(FrostError, match="cannot write"):
        DebugLog(str(tmp_path / "debug.log"))
    assert other.read_text() == "kept"


@pytest.mark.slow
def test_the_screens_log_their_requests_and_name_the_file_at_the_end(demo: Home) -> None:
    with screens(demo, "--debug") as program:
        program.wait_for("Data Lake")
        program.press("q")
        assert program.wait_end() == 0
        path = debug_log_path(demo.environment())
        assert path.encode() in program.raw()
    lines = Path(path).read_text().splitlines()
    assert any(" GET /api/v1/me 200 " in line for line in lines)
    assert not any("Bearer" in line or "authorization" in line.lower() for line in lines)
