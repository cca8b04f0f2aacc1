from pathlib import Path

import pytest

from mdrecall.config.files import read_file
from mdrecall.config.load import load
from mdrecall.config.settings import SECTIONS
from mdrecall.errors import ConfigError
from tests.config import nested, openclaw_home, problems, value, write

FILE = "~/own/mdrecall.json"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ('{"memory": {"backend": "qmd"}}', {"memory": {"backend": "qmd"}}),
        ("{memory: {backend: 'qmd'}}", {"memory": {"backend": "qmd"}}),
        ('{"a": [1, 2,], "b": {},}', {"a": [1, 2], "b": {}}),
        ('// first\n{/* a\nb */ "a": 1 // last\n}', {"a": 1}),
        ("{a: .5, b: 5., c: +1, d: 0x10}", {"a": 0.5, "b": 5.0, "c": 1, "d": 16}),
        ("{a: 'it\\'s', b: 'one \\\ntwo'}", {"a": "it's", "b": "one two"}),
        ('{"a": "// no comment"}', {"a": "// no comment"}),
        ('\ufeff{"a": 1}', {"a": 1}),
        ("\ufeff{a: 1}", {"a": 1}),
        ("", {}),
        ("\ufeff", {}),
    ],
)
def test_a_file_is_read_as_json5(tmp_path: Path, content: str, expected: dict[str, object]) -> None:
    assert read_file(str(write(tmp_path / "x.json", content))) == expected


@pytest.mark.parametrize(
    ("content", "problem", "hint"),
    [
        ("{a: 1} b", "is not JSON5", ""),
        ("hello", "is not JSON5", ""),
        ("{" * 100_000, "is not JSON5", ""),
        ("// only", "is not JSON5", ""),
        ("{\n  a: 1,\n  oops 2\n}", "is not JSON5: syntax error at line 3, column 8.", ""),
        ("{\n  a: {\n  b: 1,\n", "is not JSON5: what begins at line 2, column 6 is never closed.", ""),
        ("{'apiKey': 'sk-hush', 'b': sk-hush}", "is not JSON5", ""),
        ("[]", "must contain one object in braces.", "An empty configuration is {}."),
        ("null", "must contain one object in braces.", "An empty configuration is {}."),
        ("// x\n[1,]", "must contain one object in braces.", "An empty configuration is {}."),
    ],
)
def test_a_broken_file_is_named_with_the_place_and_not_what_is_in_it(
    tmp_path: Path, content: str, problem: str, hint: str
) -> None:
    path = write(tmp_path / "x.json", content)
    with pytest.raises(ConfigError) as caught:
        read_file(str(path))
    assert str(caught.value).startswith(f"{path} {problem}")
    assert caught.value.hint == (hint or "Fix the file there.")
    assert "hush" not in f"{caught.value} {caught.value.problems}"


def test_a_file_of_our_own_that_the_environment_names_must_be_there(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "MDRECALL_CONFIG": "~/gone.json"}
    with pytest.raises(ConfigError, match=r"There is no configuration file .*gone\.json\."):
        load(env=env, cwd=str(tmp_path))
    for variable in ("OPENCLAW_CONFIG_PATH", "CLAWDBOT_CONFIG_PATH"):
        result = load(env={"HOME": str(tmp_path), variable: "~/gone.json"}, cwd=str(tmp_path), workspace=str(tmp_path))
        assert "There is no configuration file" in result.problem


def test_a_file_that_is_not_utf8_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(b'{"a": "\xff"}')
    with pytest.raises(ConfigError) as caught:
        read_file(str(path))
    assert str(caught.value).startswith(f"Cannot read the configuration file {path}: 'utf-8' codec")


KNOWN = ", ".join(SECTIONS["mdrecall"].entries)
REMOTE = "memorySearch.remote"


@pytest.mark.parametrize(
    ("path", "given", "complaint"),
    [
        # An unknown key, with the nearest known one.
        ("mdrecall.ignored", 1, f" is not a known setting; did you mean ignore? Known here: {KNOWN}."),
        ("memorySearch.query.maxResult", 1,
         " is not a known setting; did you mean maxResults? Known here: maxResults, minScore, hybrid."),
        # A value of the wrong type, with what is taken.
        ("memorySearch.enabled", None, " is null, but must be true or false."),
        ("memorySearch.sources", "memory", ' is "memory", but must be a list, each one of memory, sessions.'),
        ("memorySearch.query", 3, " must be an object with maxResults, minScore, hybrid."),
        ("agents.defaults", [], " must be an object."),
        ("agents.list", {}, " must be a list."),
        ("agents.entries.main", "x", " must be an object."),
        ("plugins.entries", 1, " must be an object."),
        # A fault inside a value, with the place in it.
        ("memory.qmd.paths", [{"path": "a", "nam": "b"}],
         "[0].nam is not a known key; did you mean name? Known here: path, name, pattern."),
        ("memory.qmd.scope", {"rules": [{"action": "ask"}]},
         '.rules[0].action is "ask", but must be one of allow, deny.'),
        # A secret, which is never shown.
        (f"{REMOTE}.apiKey", {"source": "sk-hush", "id": "x"},
         " has the wrong type; it must be a string, or an object with source, provider, id."),
        (f"{REMOTE}.headers", {"Authorization": ["sk-hush"]},
         " has the wrong type; it must be an object whose values are a string."),
        (f"{REMOTE}.apikey", "sk-hush",
         " is not a known setting; did you mean apiKey? Known here: baseUrl, apiKey, headers, batch."),
        (REMOTE, "sk-hush", " must be an object with baseUrl, apiKey, headers, batch."),
    ],
)  # fmt: skip
def test_a_fault_names_its_path_and_what_is_taken(tmp_path: Path, path: str, given: object, complaint: str) -> None:
    assert problems(tmp_path, nested(path, given)) == (f"{FILE}: {path}{complaint}",)


def test_all_problems_of_all_files_are_collected(tmp_path: Path) -> None:
    content = {
        "agents": {"defaults": {"memorySearch": {"enabled": 1, "query": {"maxResults": -1, "oops": 1}}}},
        "memory": {"backend": "x"},
        "plugins": {"slots": {"memory": 1}},
    }
    env = openclaw_home(tmp_path, {})
    write(tmp_path / "own" / "mdrecall.json", {**content, "mdrecall": {"maxFileBytes": "big"}})
    with pytest.raises(ConfigError) as caught:
        load(env=env, cwd="/")
    assert [problem.split(" is ")[0] for problem in caught.value.problems] == [
        f"{FILE}: agents.defaults.memorySearch.enabled",
        f"{FILE}: agents.defaults.memorySearch.query.maxResults",
        f"{FILE}: agents.defaults.memorySearch.query.oops",
        f"{FILE}: memory.backend",
        f"{FILE}: plugins.slots.memory",
        "~/own/mdrecall.json: mdrecall.maxFileBytes",
    ]
    assert str(caught.value) == f"{caught.value.problems[0]} (5 more)"
    assert "docs/settings.md" in caught.value.hint


def test_a_weaker_value_is_checked_even_where_a_stronger_one_wins(tmp_path: Path) -> None:
    content = {"memorySearch": {"model": 1}, "agents": {"defaults": {"memorySearch": {"model": "a"}}}}
    assert problems(tmp_path, content) == (f"{FILE}: memorySearch.model is 1, but must be a string.",)


@pytest.mark.parametrize(
    "path",
    [
        "agents.defaults.compaction.mode",
        "agents.entries.main.tools",
        "agents.entries.main.memory.other",
        "plugins.load",
        "plugins.entries.memory-lancedb.enabled",
        "plugins.slots.contextEngine",
        "$schema",
    ],
)
def test_where_openclaw_keeps_other_settings_an_unknown_key_is_let_be(tmp_path: Path, path: str) -> None:
    content = nested(path, {"any": ["thing"]})
    content.setdefault("agents", {}).setdefault("entries", {}).setdefault("main", {})["default"] = True
    content["mdrecall"] = {"ignore": ["read"]}
    assert value(tmp_path, content, "mdrecall.ignore") == ("read",)


def test_a_listed_agent_may_have_other_keys(tmp_path: Path) -> None:
    entry = {"id": "main", "default": True, "tools": {"deny": ["x"]}, "memorySearch": {"fallback": "local"}}
    assert value(tmp_path, {"agents": {"list": [entry]}}, "memorySearch.fallback") == "local"
