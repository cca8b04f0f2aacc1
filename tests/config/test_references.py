from pathlib import Path
from typing import Any

import pytest

from mdrecall.config.credentials import Access
from mdrecall.errors import ConfigError
from mdrecall.types.documents import Secret
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
    assert access == Access("http://box:8080/v1", Secret("sk-k-l"), headers, f"{REMOTE}.apiKey", "")
    own = models("openai", apiKey="${KEY}", baseUrl="http://${HOST}")
    assert reach("openai", own, env=env)[:2] == ("http://box", Secret("k"))


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("$${KEY}", "${KEY}"),
        ("${KEY}$${KEY}", "k${KEY}"),
        ("${A-B}", "${A-B}"),
        ("${KEY", "${KEY"),
        ("${NESTED}", "${KEY}"),
    ],
)
def test_two_dollars_and_anything_else_are_literal(reach: Reach, text: str, meant: str) -> None:
    assert revealed(reach("openai", remote(apiKey=text), env={"KEY": "k", "NESTED": "${KEY}"})) == [meant]


@pytest.mark.parametrize("env", [{}, {"GONE": ""}, {"GONE": " "}])
def test_one_that_is_not_set_is_a_problem_of_the_key(reach: Reach, env: dict[str, str]) -> None:
    access = reach("openai", remote(apiKey="sk-hush-${GONE}"), env={**env, "OPENAI_API_KEY": "is no replacement"})
    assert (access.key, access.key_origin) == (None, "")
    assert access.problem.startswith("memorySearch.remote.apiKey refers to ${GONE}, which is not set.")
    assert "hush" not in access.problem
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


def test_the_environment(reach: Reach) -> None:
    config = remote(apiKey={"source": "env", "provider": "default", "id": "MINE"})
    access = reach("openai", config, env={"MINE": " ${mine}\n"})
    assert (revealed(access), access.key_origin) == (["${mine}"], f"{REMOTE}.apiKey")


@pytest.mark.parametrize(
    ("reference", "problem"),
    [
        ({"source": "env", "id": "MINE"}, "refers to MINE, which is not set."),
        ({"source": "env", "id": "sk-hush"}, "refers to a secret of source env, but has no valid id."),
        ({"source": "exec", "id": "openai"}, "refers to a secret of source exec, but mdrecall does not run programs"),
    ],
)  # fmt: skip
def test_a_reference_that_leads_nowhere_is_explained_without_what_may_be_a_secret(
    reach: Reach, reference: dict[str, str], problem: str
) -> None:
    assert reach("openai", remote(apiKey=reference)).problem.startswith(f"{REMOTE}.apiKey {problem}")


def in_file(pointer: str, **entry: Any) -> dict[str, Any]:
    vault = {"source": "file", "path": "~/keys.json", **entry}
    key = {"source": "file", "id": pointer, "provider": "vault"}
    return {**remote(apiKey=key), "secrets": {"providers": {"vault": vault}, "defaults": {"file": "vault"}}}


@pytest.mark.parametrize("path", ["~/keys.json", "keys.json", "{home}/keys.json", "${WHERE}/keys.json"])
def test_a_json_file(reach: Reach, tmp_path: Path, path: str) -> None:
    write(tmp_path / "keys.json", {"providers": {"openai": {"apiKey": " mine\n"}}})
    config = in_file("/providers/openai/apiKey", path=path.replace("{home}", str(tmp_path)))
    assert revealed(reach("openai", config, env={"WHERE": str(tmp_path)})) == ["mine"]
    del config["memorySearch"]["remote"]["apiKey"]["provider"]
    assert revealed(reach("openai", config, env={"WHERE": str(tmp_path)})) == ["mine"]


@pytest.mark.parametrize(("pointer", "found"), [("/a~1b/c~0d", "1"), ("/list/1", "2"), ("/", "3"), ("/a~1b/%63", "4")])
def test_a_json_pointer(reach: Reach, tmp_path: Path, pointer: str, found: str) -> None:
    write(tmp_path / "keys.json", {"a/b": {"c~d": "1", "%63": "4"}, "list": ["x", "2"], "": "3"})
    assert revealed(reach("openai", in_file(pointer, mode="json"))) == [found]


def test_a_file_of_one_value(reach: Reach, tmp_path: Path) -> None:
    write(tmp_path / "keys.json", "  mine \n")
    assert revealed(reach("openai", in_file("value", mode="singleValue"))) == ["mine"]


@pytest.mark.parametrize(
    "content", [None, "{sk-hush", "[" * 100_000, {"k": 5}, {"k": ["sk-hush"]}, {"k": " "}, "x" * 1_100_000]
)
def test_a_file_without_the_secret_is_named(reach: Reach, tmp_path: Path, content: object) -> None:
    if content is None:
        folder(tmp_path / "keys.json")
    else:
        write(tmp_path / "keys.json", content)
    problem = reach("openai", in_file("/k"), env={"OPENAI_API_KEY": "other"}).problem
    assert problem.startswith("memorySearch.remote.apiKey refers to secrets.providers.vault.path, where no")
    assert "hush" not in problem


@pytest.mark.parametrize("entry", [{"source": "env"}, {"source": "exec", "path": "x"}, {"path": None}])
def test_a_provider_of_secrets_that_is_no_file_is_named(reach: Reach, entry: dict[str, Any]) -> None:
    assert reach("openai", in_file("/k", **entry)).problem == "secrets.providers.vault.path must be a string."
