from typing import Any

import pytest

from mdrecall.config.credentials import Access
from mdrecall.errors import ConfigError
from mdrecall.types import Secret
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


def test_the_environment(reach: Reach) -> None:
    config = remote(apiKey={"source": "env", "provider": "default", "id": "MINE"})
    access = reach("openai", config, env={"MINE": " ${mine}\n"})
    assert (revealed(access), access.key_origin) == (["${mine}"], "memorySearch.remote.apiKey")
    assert reach("openai", config).problem.startswith(f"{REMOTE}.apiKey refers to MINE, which is not set.")


def test_what_cannot_be_the_name_of_a_variable_is_not_shown(reach: Reach) -> None:
    problem = reach("openai", remote(apiKey={"source": "env", "id": "sk-hush"})).problem
    assert problem == "memorySearch.remote.apiKey refers to a secret of source env, but has no valid id."


@pytest.mark.parametrize("source", ["exec", "file"])
def test_programs_are_not_run_and_files_of_secrets_not_read(reach: Reach, source: str) -> None:
    config = remote(apiKey={"source": source, "provider": "vault", "id": "openai"})
    assert reach("openai", config, env={"OPENAI_API_KEY": "other"}).problem == (
        f"memorySearch.remote.apiKey refers to a secret of source {source}, which mdrecall does not use."
        " Use one of source env."
    )
