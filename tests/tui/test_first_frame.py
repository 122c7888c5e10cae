"""The modules that the first frame and a command load."""

import subprocess
import sys

FRAME = (
    "from tui.__main__ import omit_palette; omit_palette(); import tui.shell.app, tui.tenants.screen, client.connection"
)
HEAVY = {"httpx", "pydantic", "markdown_it", "tree_sitter", "numpy", "pygments", "segno", "ruamel.yaml", "keyring"}


def loaded(code: str) -> set[str]:
    listing = subprocess.run(
        [sys.executable, "-c", f"import sys; {code}; print(' '.join(sys.modules))"],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(listing.stdout.split())


def test_the_first_frame_loads_no_heavy_module() -> None:
    modules = loaded(FRAME)
    assert not modules & HEAVY
    # Dialogs, inputs and the prompt are loaded when they are opened, or once the first frame is on the screen.
    later = {
        *(f"tui.widgets.{name}" for name in ("dialog", "form", "lines", "picker")),
        *(f"tui.shell.{name}" for name in ("clipboard", "command_prompt", "palette")),
        *(f"tui.contexts.{name}" for name in ("sign_in", "screen")),
    }
    assert not modules & later
    assert not any(f"textual.widgets._{name}" in modules for name in ("input", "option_list", "tree"))  # of its palette


def test_a_command_loads_nothing_of_the_screens() -> None:
    modules = loaded("from tui.__main__ import main; main(['--version'])")
    assert not any(name.partition(".")[0] in ("textual", "rich", "httpx") for name in modules)
    assert {name for name in modules if name.startswith("tui")} <= {"tui", "tui.__main__", "tui.launch"}
