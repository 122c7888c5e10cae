"""`frost completion` and the answers the shells ask for.

A shell hands over the words as typed and gets one candidate a line, `value<TAB>what it is`. The values are data: they
are quoted for bash here, by the shell itself in zsh and fish, and none is ever evaluated (hostile G09). An error prints
nothing.
"""

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from client.commands.frame import Command
from client.commands.invocation import Invocation
from client.commands.output import Output

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

SHELLS = ("bash", "zsh", "fish")
_SECONDS = 2.0
"""How long Tab waits for names from the platform."""

_BASH = r"""# frost completion for bash: source <(frost completion bash)
_frost_completion() {
    local line
    COMPREPLY=()
    while IFS= read -r line; do
        COMPREPLY+=("$line")
    done < <(frost __complete bash "${COMP_LINE:0:COMP_POINT}" "$2" 2>/dev/null)
    [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace
    return 0
}
complete -o nosort -F _frost_completion frost
"""

_ZSH = r"""#compdef frost
# frost completion for zsh: source <(frost completion zsh)
_frost() {
    local line
    local -a values shown
    while IFS= read -r line; do
        values+=("${line%%$'\t'*}")
        shown+=("${line/$'\t'/  -- }")
    done < <(frost __complete zsh "${(@Q)words[2,CURRENT]}" 2>/dev/null)
    (( ${#values} )) && compadd -l -V frost -d shown -a -- values
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _frost "$@"
else
    compdef _frost frost
fi
"""

_FISH = r"""# frost completion for fish: frost completion fish | source
function __frost_complete
    set -l words (commandline -opc)
    frost __complete fish $words[2..-1] (commandline -ct) 2>/dev/null
end
complete -c frost -f -a '(__frost_complete)'
"""

_SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


def _print_script(run: Invocation, shell: str) -> None:
    """Print the completion script of a shell.

    It completes commands, flags and the names of your contexts, tenants and organizations.
    """
    Output().text(_SCRIPTS[shell].rstrip("\n"))


completion = Command(
    "completion",
    callback=_print_script,
    params=[click.Argument(["shell"], metavar="SHELL", type=click.Choice(SHELLS), help="bash, zsh or fish.")],
    help="Print the completion script of a shell.\n\nIt completes commands, flags and the names of your contexts, "
    "tenants and organizations.",
    ours=True,
    examples=(
        "source <(frost completion bash)",
        "source <(frost completion zsh)",
        "frost completion fish | source",
    ),
)


# --- answering a shell -----------------------------------------------------------------------------------------------


def answer(words: list[str]) -> int:
    """Print the candidates for what stands before the cursor; `words` are the shell's name and what it hands over."""
    try:
        _give_up_after(_SECONDS)
        shell, *typed = words
        if shell == "bash":
            lines = _for_bash(*typed)
        else:
            *before, incomplete = typed
            unquoted = _unquoted(incomplete) if shell == "fish" else incomplete
            lines = [f"{item.value}\t{item.help or ''}".rstrip("\t") for item in _candidates(before, unquoted)]
        sys.stdout.write("".join(f"{line}\n" for line in lines))
        sys.stdout.flush()
    except Exception:
        return 1
    return 0


def _give_up_after(seconds: float) -> None:
    import signal

    def late(number: int, frame: object) -> None:
        raise TimeoutError

    signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)


def _for_bash(line: str, replaced: str) -> list[str]:
    """Quoted words. `replaced` is the part of the last word that bash puts them in place of: it parts words at `:`
    and `=` too, and leaves an opening quote out."""
    from click.shell_completion import split_arg_string

    before = split_arg_string(line)[1:]
    word = _last_word(line)
    if word:
        before = before[:-1]
    quote = word[:1] if word[:1] in ("'", '"') else ""
    incomplete = _unquoted(word)
    kept = incomplete[: len(incomplete) - len(_unquoted(replaced))] if incomplete.endswith(_unquoted(replaced)) else ""
    lines = []
    for item in _candidates(before, incomplete):
        value = item.value.removeprefix(kept)
        lines.append(_quoted(value, quote))
    return lines


def _last_word(line: str) -> str:
    """The word at the end of a command line as typed, quotes and backslashes included; empty after a space."""
    start, quote, escaped = 0, "", False
    for index, character in enumerate(line):
        if escaped:
            escaped = False
        elif character == "\\" and quote != "'":
            escaped = True
        elif quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character.isspace():
            start = index + 1
    return line[start:]


def _unquoted(word: str) -> str:
    from click.shell_completion import split_arg_string

    return "".join(split_arg_string(word))


_PLAIN_WORD = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_./:=@%+,")


def _quoted(value: str, quote: str) -> str:
    """A value as one word of bash, in the quotes that were opened before it, else with backslashes."""
    if quote == "'":
        return value.replace("'", "'\\''")
    if quote == '"':
        return "".join(f"\\{character}" if character in '"\\$`!' else character for character in value)
    return "".join(
        character if character in _PLAIN_WORD or ord(character) > 127 else f"\\{character}" for character in value
    )


def _candidates(before: list[str], incomplete: str) -> "Iterable[CompletionItem[str]]":
    from click.shell_completion import ShellComplete

    from client.commands.root import root

    run = Invocation(before)
    _remember_flags(run, before)
    found = ShellComplete(root, {"obj": run}, "frost", "").get_completions(before, incomplete)
    return [item for item in found if item.value.isprintable()]


def _remember_flags(run: Invocation, before: list[str]) -> None:
    """What decides where names come from; click keeps callbacks quiet while it completes."""
    for index, word in enumerate(before):
        name, equals, value = word.partition("=")
        if name == "--config":
            run.flags.config = value if equals else "".join(before[index + 1 : index + 2])
