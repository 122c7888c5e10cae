"""Structure-aware fuzzing of what is read as text: `python -m tests.hostile.test_fuzz CASES [SEED]`.

A case is a policy document or a configuration file that begins as a good one, is changed where its structure allows it
(members gone, doubled, renamed, of another kind), written down in one of the many ways its format has, and changed once
more as text and as bytes. It must be read or refused with its place, nothing else; a document that is read must decide
the same before and after storing, as the plain reference does, and say what an ordinary reader of JSON finds in it.
"""

import json
import random
import stat
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from client.config import reader, strict_yaml
from client.errors import Exit, FrostError
from client.policy.coverage import Catalogue
from client.policy.document import InvalidDocument, canonical, canonical_text, parse_document
from client.policy.engine import compile_document
from client.text import safe
from tests.policy import reference, worlds

CATALOGUE = Catalogue(worlds.CATALOGUE)
OF_CONFIG = 0.1
JUNK: list[Any] = ["*", "allow", "deny", "1", 1, -0.0, 1e9, None, True, [], {}, "", "frn:*:*:*:a/b", "compute:*"]
JUNK += ["10.0.0.0/8", "::ffff:10.0.0.0/104", "\u200b", "\u2028", "K", "2026-01-01T00:00:00Z", "a" * 300, [[[]]]]
TOKENS = ["{", "}", "[", "]", ",", ":", '"', "\\", "\\u0000", "\\ud800", "\\udc00\\ud800", "NaN", "Infinity", "-"]
TOKENS += ["1e999", "00", "true", "null", "//", "/*", "'", '"rules":', "\t", "\r", "\x00", "\x0b", "\ufeff", "\u2028"]
TOKENS += ["9" * 200]
SIGNS = ["&a ", "*a", "!!python/object:os.system ", "!!int ", "<<: ", "? ", "- ", "| ", "> ", "---\n", "...\n", "\t"]
SIGNS += ["%YAML 9\n", "#", "'", '"', "{", "}", "[", "]", ",", ": ", ":", "~", "no", "0123", "\n", "\n\n  ", "\x00"]
SIGNS += ["\x85", "\u2028", "\ufeff"]


def mutated(chance: random.Random, value: Any) -> Any:
    """A value with something in it replaced, removed, doubled or renamed."""
    if isinstance(value, dict) and value and chance.random() < 0.8:
        name = chance.choice(list(value))
        rest = {other: value[other] for other in value if other != name}
        if chance.random() < 0.1:
            return rest
        renamed = name if chance.random() < 0.9 else chance.choice((name.upper(), name + " ", "x", name + "\u0301"))
        return {**rest, renamed: mutated(chance, value[name])}
    if isinstance(value, list) and value and chance.random() < 0.8:
        place = chance.randrange(len(value))
        return [*value[:place], *[mutated(chance, value[place])] * chance.choice((0, 1, 1, 1, 2)), *value[place + 1 :]]
    if isinstance(value, str) and value and chance.random() < 0.5:
        place = chance.randrange(len(value))
        return value[:place] + chance.choice(("*", ":", "/", "", " ", "z", "9", "\n", "é")) + value[place + 1 :]
    return chance.choice(JUNK)


def written(chance: random.Random, value: Any) -> str:
    """JSON in one of the many ways to write it: space, escapes, the order of members, a member twice."""
    space = chance.choice(("", "", " ", "\n\t"))
    if isinstance(value, dict):
        members = list(value.items())
        chance.shuffle(members)
        if members and chance.random() < 0.02:
            members.append(chance.choice(members))
        inside = f",{space}".join(f"{written(chance, name)}:{space}{written(chance, one)}" for name, one in members)
        return f"{{{space}{inside}{space}}}"
    if isinstance(value, list):
        return f"[{space}{f',{space}'.join(written(chance, one) for one in value)}{space}]"
    if isinstance(value, str) and chance.random() < 0.1:
        return '"' + "".join(f"\\u{ord(one):04x}" if ord(one) < 65536 else one for one in value) + '"'
    return json.dumps(value, ensure_ascii=chance.random() < 0.5)


def scarred(chance: random.Random, text: str, tokens: list[str]) -> str | bytes:
    """The text with something put in, taken out or cut off; now and then as bytes of some encoding."""
    for _ in range(chance.choice((0, 0, 0, 1, 2))):
        begin = chance.randrange(len(text) + 1)
        end = begin + chance.choice((0, 0, 1, 1, 5, len(text)))
        text = text[:begin] + chance.choice(tokens) * chance.choice((1, 1, 1, 1, 40)) + text[end:]
    if chance.random() < 0.9:
        return text
    data = text.encode(chance.choice(("utf-8", "utf-8-sig", "utf-16", "utf-32-le", "utf-7")), "surrogatepass")
    if data and chance.random() < 0.5:
        place = chance.randrange(len(data))
        data = data[:place] + bytes([chance.randrange(256)]) + data[place + 1 :]
    return data


def rightly_refused(refused: InvalidDocument, source: str | bytes) -> str:
    """With places, and in words that can be sent."""
    assert 1 <= len(refused.problems) <= 20
    for problem in refused.problems:
        assert problem.line >= 1, source
        assert problem.column >= 1, source
        assert problem.path.startswith("$"), source
        assert f"{problem}".encode()
    return "document refused"


def document_case(chance: random.Random) -> str:
    value: Any = canonical(worlds.document(chance, most=2))
    for _ in range(chance.choice((0, 0, 1, 1, 2, 3))):
        value = mutated(chance, value)
    source = scarred(chance, written(chance, value), TOKENS)
    try:
        document = parse_document(source, CATALOGUE).document
    except InvalidDocument as refused:
        return rightly_refused(refused, source)
    stored = canonical_text(document)
    again = parse_document(stored, CATALOGUE).document
    assert canonical_text(again) == stored, source
    # What another reader finds in it, one that lets more through, is the same document.
    plain = json.loads(source if isinstance(source, bytes) else source.removeprefix("\ufeff"))
    assert canonical_text(parse_document(json.dumps(plain), CATALOGUE).document) == stored, source
    before, after = compile_document(document), compile_document(again)
    for _ in range(2):
        question = worlds.question(chance)
        request = (question.operation, question.target, question.context)
        decided = reference.decide(list(document.rules), question)
        assert before.decide(*request) == after.decide(*request) == decided, (source, question)
    return "document read"


CONFIG: dict[str, Any] = {
    "current_context": "work",
    "defaults": {"output_format": "json", "read_only": "no"},
    "contexts": {
        "work": {
            "api_endpoint": "https://api.example.com/api",
            "region": "no",
            "tenant": "0123",
            "credentials": {"api_key": "fmk_x", "refresh_token": "12:30:45"},
        },
        "local": {"api_endpoint": "unix:/tmp/x.sock"},
    },
    "keys": {"quit": "q"},
}


def yaml_written(chance: random.Random, value: Any, indent: int = 0) -> str:
    if isinstance(value, (dict, list)) and (not value or chance.random() < 0.15):
        return written(chance, value)
    pad = "\n" + " " * indent
    if isinstance(value, dict):
        deeper = indent + chance.choice((1, 2, 2, 4))
        return "".join(f"{pad}{name}: {yaml_written(chance, one, deeper)}" for name, one in value.items())
    if isinstance(value, list):
        return "".join(f"{pad}- {yaml_written(chance, one, indent + 2)}" for one in value)
    if isinstance(value, str) and chance.random() < 0.6:
        return value
    return json.dumps(value)


def config_case(chance: random.Random, file: Path) -> str:
    value: Any = CONFIG
    for _ in range(chance.choice((0, 1, 1, 2))):
        value = mutated(chance, value)
    source = scarred(chance, yaml_written(chance, value), SIGNS)
    data = source if isinstance(source, bytes) else source.encode("utf-8", "surrogatepass")
    try:
        texts(strict_yaml.read(data, "config.yaml"))
        file.write_bytes(data)
        config = reader.load(str(file), environ={"HOME": "/home/ada"})
    except FrostError as error:
        refused = error
    else:
        assert config.contexts, data
        return "config read"
    shown = f"{refused.message}\n{refused.hint}"
    assert refused.exit_code == Exit.USAGE, data
    assert all(safe(line) == line for line in shown.splitlines()), (data, shown)
    assert "fmk_x" not in shown, data
    return "config refused"


def texts(value: Any) -> None:
    """Check that a value has only maps, lists and text."""
    if isinstance(value, dict):
        assert {type(name) for name in value} <= {str}
        texts(list(value.values()))
    elif isinstance(value, list):
        for one in value:
            texts(one)
    else:
        assert value is None or type(value) is str, value


def run(cases: int, seed: int) -> Counter[str]:
    """Try many cases, and count their outcomes. Raises AssertionError with the text of a case that broke a rule."""
    chance, outcomes = random.Random(seed), Counter[str]()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "config.yaml"
        file.touch(stat.S_IRUSR | stat.S_IWUSR)
        for _ in range(cases):
            outcomes[config_case(chance, file) if chance.random() < OF_CONFIG else document_case(chance)] += 1
    return outcomes


@pytest.mark.parametrize("cases", [2_000, pytest.param(20_000, marks=pytest.mark.slow)])
def test_documents_and_configuration_files_are_read_or_refused(cases: int) -> None:
    outcomes = run(cases, seed=cases)
    assert set(outcomes) == {"document read", "document refused", "config read", "config refused"}
    assert min(outcomes.values()) > 15, outcomes


if __name__ == "__main__":
    cases, seed = [*map(int, sys.argv[1:]), 1][:2]
    sys.stdout.write(f"{cases} cases, each read or refused: {dict(run(cases, seed))}\n")
