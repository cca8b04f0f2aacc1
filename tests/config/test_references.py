from pathlib import Path
from typing import Any

import pytest

from mdrecall.config.credentials import Access
from mdrecall.errors import ConfigError
from mdrecall.types import Secret
from tests.config import folder, write
from tests.config.conftest import Reach, models, remote, revealed

REMOTE = "memorySearch.remote"


def test_they_are_replaced_everywhere(reach: Reach) -> None:
    env = {"KEY": "k", "HOST": "box", "lower_2": "l"}
    config = {
        **remote(apiKey="sk-${KEY}-${lower_2}", baseUrl="http://${HOST}:8080/v1 ", headers={"A": "x ${KEY}"}),
        **models("openai", headers={"B": "${HOST}"}),
    }
    access = reach("openai", config, env=env)
    headers = {"A": Secret("x k"), "B": Secret("box")}
    assert access == Access("http://box:8080/v1", (Secret("sk-k-l"),), headers, f"{REMOTE}.apiKey", "")
    own = models("openai", apiKey="${KEY}", baseUrl="http://${HOST}")
    assert reach("openai", own, env=env)[:2] == ("http://box", (Secret("k"),))


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("$${KEY}", "${KEY}"),
        ("${KEY}$${KEY}", "k${KEY}"),
        ("$KEY", "$KEY"),
        ("${}", "${}"),
        ("${A-B}", "${A-B}"),
        ("${KEY", "${KEY"),
        ("${NESTED}", "${KEY}"),
    ],
)
def test_two_dollars_and_anything_else_are_literal(reach: Reach, text: str, meant: str) -> None:
    assert revealed(reach("openai", remote(apiKey=text), env={"KEY": "k", "NESTED": "${KEY}"})) == [meant]


@pytest.mark.parametrize("env", [{}, {"GONE": ""}, {"GONE": " "}])
def test_one_that_is_not_set_is_a_problem_of_the_key(reach: Reach, env: dict[str, str]) -> None:
    problem = reach("openai", remote(apiKey="sk-hush-${GONE}"), env=env).problem
    assert problem.startswith("memorySearch.remote.apiKey refers to ${GONE}, which is not set.")
    assert "hush" not in problem
    problem = reach("openai", models("openai", apiKey="${GONE}"), env=env).problem
    assert "models.providers.openai.apiKey refers to ${GONE}, which is not set." in problem


@pytest.mark.parametrize(
    ("config", "place"),
    [
        (remote(baseUrl="http://hush/${GONE}"), "memorySearch.remote.baseUrl"),
        (remote(headers={"X-Hidden": "hush ${GONE}"}), "memorySearch.remote.headers.X-Hidden"),
        (models("openai", baseUrl="http://hush/${GONE}"), "models.providers.openai.baseUrl"),
        (models("openai", headers={"X-Hidden": "hush ${GONE}"}), "models.providers.openai.headers.X-Hidden"),
    ],
)
def test_one_that_is_not_set_makes_the_address_or_header_unusable(
    reach: Reach, config: dict[str, Any], place: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        reach("openai", config, env={"OPENAI_API_KEY": "hush"})
    assert str(caught.value).startswith(f"{place} refers to ${{GONE}}, which is not set.")
    assert "hush" not in f"{caught.value} {caught.value.hint} {caught.value.problems}"


def in_file(pointer: str = "/providers/openai/apiKey", **more: Any) -> dict[str, Any]:
    return remote(apiKey={"source": "file", "id": pointer, **more})


def secrets(provider: str = "vault", **entry: Any) -> dict[str, Any]:
    return {"secrets": {"providers": {provider: {"source": "file", "path": "~/keys.json", **entry}}}}


def test_the_environment(reach: Reach) -> None:
    config = remote(apiKey={"source": "env", "provider": "default", "id": "MINE"})
    access = reach("openai", config, env={"MINE": " ${mine}\n"})
    assert (revealed(access), access.key_origin) == (["${mine}"], "memorySearch.remote.apiKey")
    assert reach("openai", config).problem.startswith(f"{REMOTE}.apiKey refers to MINE, which is not set.")


def test_what_cannot_be_the_name_of_a_variable_is_not_shown(reach: Reach) -> None:
    problem = reach("openai", remote(apiKey={"source": "env", "id": "sk-hush"})).problem
    assert problem == "memorySearch.remote.apiKey refers to a secret of source env, but has no valid id."


@pytest.mark.parametrize("path", ["~/keys.json", "keys.json", "{home}/keys.json", "${WHERE}/keys.json"])
def test_a_json_file(reach: Reach, tmp_path: Path, path: str) -> None:
    write(tmp_path / "keys.json", {"providers": {"openai": {"apiKey": " mine\n"}}})
    config = {**in_file(provider="vault"), **secrets(path=path.replace("{home}", str(tmp_path)))}
    assert revealed(reach("openai", config, env={"WHERE": str(tmp_path)})) == ["mine"]


@pytest.mark.parametrize(("pointer", "found"), [("/a~1b/c~0d", "1"), ("/list/1", "2"), ("/", "3"), ("/a~1b/%63", "4")])
def test_a_json_pointer(reach: Reach, tmp_path: Path, pointer: str, found: str) -> None:
    write(tmp_path / "keys.json", {"a/b": {"c~d": "1", "%63": "4"}, "list": ["x", "2"], "": "3"})
    config = {**in_file(pointer, provider="vault"), **secrets(mode="json")}
    assert revealed(reach("openai", config)) == [found]


def test_a_file_of_one_value(reach: Reach, tmp_path: Path) -> None:
    write(tmp_path / "keys.json", "  mine \n")
    config = {**in_file("value", provider="vault"), **secrets(mode="singleValue")}
    assert revealed(reach("openai", config)) == ["mine"]


def test_without_a_provider_it_is_the_default_one(reach: Reach, tmp_path: Path) -> None:
    write(tmp_path / "keys.json", {"k": "mine"})
    assert revealed(reach("openai", {**in_file("/k"), **secrets("default")})) == ["mine"]
    named = secrets("vault")
    named["secrets"]["defaults"] = {"file": "vault"}
    assert revealed(reach("openai", {**in_file("/k"), **named})) == ["mine"]


@pytest.mark.parametrize(
    ("content", "pointer", "complaint"),
    [
        (None, "/k", "refers to ~/keys.json (secrets.providers.vault), but there is no such file."),
        ("{sk-hush", "/k", "refers to ~/keys.json (secrets.providers.vault), which is not JSON."),
        ("[" * 100_000, "/k", "refers to ~/keys.json (secrets.providers.vault), which is not JSON."),
        ({"k": 5}, "/k", "refers to ~/keys.json (secrets.providers.vault), which has no string at /k."),
        ({"k": ["sk-hush"]}, "/k/1", "which has no string at /k/1."),
        ({"k": "sk-hush"}, "/k/0", "which has no string at /k/0."),
        ({"k": " "}, "/k", "where the secret is blank. Enter it there."),
        ({"k": "x"}, "sk-hush", "but its id is not a JSON pointer such as /providers/openai/apiKey."),
        ("x" * 1_100_000, "/k", "which is too large for a file of secrets."),
    ],
)
def test_a_file_without_it_is_named(
    reach: Reach, tmp_path: Path, content: object, pointer: str, complaint: str
) -> None:
    if content is not None:
        write(tmp_path / "keys.json", content)
    problem = reach("openai", {**in_file(pointer, provider="vault"), **secrets()}).problem
    assert problem.startswith("memorySearch.remote.apiKey refers to ")
    assert complaint in problem
    assert "hush" not in problem


def test_a_file_that_cannot_be_read_is_named(reach: Reach, tmp_path: Path) -> None:
    (tmp_path / "keys.json").write_bytes(b'{"k": "\xff"}')
    config = {**in_file("/k", provider="vault"), **secrets()}
    assert "which cannot be read: it is not UTF-8." in reach("openai", config).problem
    (tmp_path / "keys.json").unlink()
    folder(tmp_path / "keys.json")
    assert "but there is no such file." in reach("openai", config).problem


@pytest.mark.parametrize("entry", [None, 5, {}, {"source": "env"}, {"source": "file"}, {"source": "exec", "path": "x"}])
def test_a_provider_of_secrets_that_is_no_file_is_named(reach: Reach, entry: object) -> None:
    config = {**in_file(provider="vault"), "secrets": {"providers": {"vault": entry}}}
    expected = "refers to secrets.providers.vault, which must have source file and a path."
    assert expected in reach("openai", config).problem


def test_programs_are_not_run(reach: Reach) -> None:
    config = remote(apiKey={"source": "exec", "provider": "vault", "id": "openai"})
    assert reach("openai", config).problem == (
        "memorySearch.remote.apiKey refers to a secret of source exec, but mdrecall does not run programs for"
        " secrets. Use one of source env or file."
    )
