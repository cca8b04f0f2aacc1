import pickle
from pathlib import Path
from typing import Any

import pytest

from mdrecall.config.credentials import Access, Credentials
from mdrecall.config.load import load
from mdrecall.errors import ConfigError
from mdrecall.types.documents import Secret
from tests.config import nested, openclaw_home
from tests.config.conftest import Reach, models, remote, revealed, stored

REMOTE = "memorySearch.remote"


VARIABLES = (
    ("openai", "OPENAI_API_KEY"),
    ("gemini", "GEMINI_API_KEY"),
    ("voyage", "VOYAGE_API_KEY"),
    ("mistral", "MISTRAL_API_KEY"),
    ("ollama", "OLLAMA_API_KEY"),
)


def test_every_source_is_stronger_than_those_after_it(reach: Reach) -> None:
    config: dict[str, Any] = {**remote(apiKey="from-remote"), **models("openai", apiKey="from-models")}
    env = {"OPENAI_API_KEY": "from-env"}
    profiles = stored({"key": "from-profile"})
    access = reach("openai", config, env=env, profiles=profiles)
    assert (revealed(access), access.key_origin) == (["from-remote"], "memorySearch.remote.apiKey")
    del config["memorySearch"]
    access = reach("openai", config, env=env, profiles=profiles)
    assert (revealed(access), access.key_origin) == (["from-profile"], "auth-profiles.json: a")
    access = reach("openai", config, env=env, profiles={})
    assert (revealed(access), access.key_origin) == (["from-env"], "OPENAI_API_KEY")
    access = reach("openai", config)
    assert (revealed(access), access.key_origin) == (["from-models"], "models.providers.openai.apiKey")
    assert access.problem == ""


@pytest.mark.parametrize(("provider", "variable"), VARIABLES)
def test_a_provider_has_its_variable(reach: Reach, provider: str, variable: str) -> None:
    access = reach(provider, env={variable: " key\n"})
    assert access == Access(None, Secret("key"), {}, variable, "")


def test_without_any_the_problem_names_the_variable(reach: Reach) -> None:
    missing = "There is no API key for openai. Set OPENAI_API_KEY."
    assert reach("openai") == Access(None, None, {}, "", missing)
    assert "no API key for gemini" in reach("gemini").problem


@pytest.mark.parametrize("provider", ["ollama", "openai-compatible"])
def test_some_providers_need_no_key(reach: Reach, provider: str) -> None:
    assert reach(provider, profiles="{broken") == Access(None, None, {}, "", "")


def test_openai_compatible_takes_no_key_that_is_openais(reach: Reach) -> None:
    profiles = stored({"key": "a"}, {"key": "b", "provider": "openai-compatible"})
    config = models("openai", apiKey="c", baseUrl="https://c", headers={"x": "c"})
    assert reach("openai-compatible", config, env={"OPENAI_API_KEY": "d"}, profiles=profiles).key is None
    own = models("openai-compatible", apiKey="e", baseUrl="http://e")
    assert reach("openai-compatible", own)[:2] == ("http://e", Secret("e"))
    given = {**own, **remote(apiKey="f", baseUrl="http://f")}
    assert reach("openai-compatible", given)[:2] == ("http://f", Secret("f"))


def test_what_is_meant_for_another_provider_is_not_used(reach: Reach) -> None:
    config = {
        **remote(apiKey="theirs", baseUrl="https://theirs", headers={"a": "theirs"}),
        **models("openai", headers={"b": "ours"}),
    }
    access = reach("openai", config, env={"OPENAI_API_KEY": "ours"}, uses_remote=False)
    assert access == Access(None, Secret("ours"), {"b": Secret("ours")}, "OPENAI_API_KEY", "")
    assert reach("mistral", config, uses_remote=False).key is None


def test_what_is_meant_for_another_provider_may_even_be_broken(reach: Reach) -> None:
    config = remote(apiKey="${GONE}", baseUrl="${GONE}", headers={"a": "${GONE}"})
    access = reach("openai", config, env={"OPENAI_API_KEY": "ours"}, uses_remote=False)
    assert (revealed(access), access.problem) == (["ours"], "")


def test_a_blank_key_is_none(reach: Reach) -> None:
    config = {**remote(apiKey=" "), **models("openai", apiKey="")}
    assert reach("openai", config, env={"OPENAI_API_KEY": "\n"}).key is None
    assert reach("openai", config, env={"OPENAI_API_KEY": "key"}).key_origin == "OPENAI_API_KEY"


@pytest.mark.parametrize("bad", ["sk-hu\nsh", "sk-hush\x00", "sk-hu\x7fsh", "sk-hush\x85x", "sk-hush–", "sk-hush✓"])
def test_a_key_that_cannot_be_sent_is_refused_without_showing_it(reach: Reach, bad: str) -> None:
    for config, env, place in (
        (remote(apiKey=bad), {}, "memorySearch.remote.apiKey"),
        (models("openai", apiKey=bad), {}, "models.providers.openai.apiKey"),
        ({}, {"OPENAI_API_KEY": bad}, "OPENAI_API_KEY"),
    ):
        access = reach("openai", config, env=env)
        assert access.key is None
        assert f"{place} contains a character that cannot be sent in a header" in access.problem
        assert "hush" not in access.problem


@pytest.mark.parametrize("wrong", [1, True, ["sk-hush"], {"sk-hush": 1}, {"source": "sky", "id": "sk-hush"}])
def test_a_key_of_the_wrong_type_is_a_problem(reach: Reach, wrong: object) -> None:
    access = reach("openai", models("openai", apiKey=wrong))
    assert access.key is None
    assert "models.providers.openai.apiKey must be a string" in access.problem
    assert "hush" not in access.problem


@pytest.mark.parametrize(
    "path",
    ["models", "models.providers", "models.providers.openai", "models.providers.openai.headers", "auth", "auth.order",
     "secrets"],
)  # fmt: skip
@pytest.mark.parametrize("wrong", [1, ["x"], "x", None])
def test_a_block_of_the_wrong_type_is_passed_over(reach: Reach, path: str, wrong: object) -> None:
    access = reach("openai", nested(path, wrong), env={"OPENAI_API_KEY": "key"}, profiles=stored({"key": "a"}))
    assert revealed(access) == ["a"]


def test_its_other_name_comes_first(reach: Reach) -> None:
    both = {"models": {"providers": {"google": {"apiKey": "a"}, "gemini": {"apiKey": "b", "baseUrl": "http://b"}}}}
    access = reach("gemini", both)
    assert (access.base_url, revealed(access)) == ("http://b", ["a"])
    assert access.key_origin == "models.providers.google.apiKey"
    assert revealed(reach("gemini", models("gemini", apiKey="b"))) == ["b"]
    for name in ("google", "gemini", " Google "):
        assert revealed(reach("gemini", profiles=stored({"key": "a"}, provider=name))) == ["a"]


@pytest.mark.parametrize("name", ["GEMINI_API_KEY", "GOOGLE_API_KEY"])
def test_the_name_of_a_variable_stands_for_it(reach: Reach, name: str) -> None:
    access = reach("gemini", remote(apiKey=name), env={name: "key"})
    assert (revealed(access), access.key_origin) == (["key"], "memorySearch.remote.apiKey")
    assert f"refers to {name}, which is not set" in reach("gemini", remote(apiKey=name)).problem
    assert revealed(reach("openai", remote(apiKey=name), env={name: "key"})) == [name]


def test_googles_key_alone_may_be_for_something_else(reach: Reach) -> None:
    access = reach("gemini", env={"GOOGLE_API_KEY": "maps"})
    assert access.key is None
    assert "Set GEMINI_API_KEY." in access.problem


def test_the_remote_address_is_stronger_than_the_providers(reach: Reach) -> None:
    config = {**remote(baseUrl="http://a"), **models("openai", baseUrl=" http://b ")}
    assert reach("openai", config).base_url == "http://a"
    assert reach("openai", config, uses_remote=False).base_url == "http://b"
    assert reach("openai", {**config, **remote(baseUrl=" ")}).base_url == "http://b"
    assert reach("openai").base_url is None


def test_remote_headers_lie_over_the_providers_by_their_exact_names(reach: Reach) -> None:
    config = {**remote(headers={"A": "1", "c": "2"}), **models("openai", headers={"A": "3", "a": "4", "B": "5"})}
    access = reach("openai", config)
    shown = {name: value.reveal() for name, value in access.headers.items()}
    assert shown == {"A": "1", "a": "4", "B": "5", "c": "2"}


def test_a_header_may_refer_to_a_secret(reach: Reach) -> None:
    config = models("openai", headers={"A": {"source": "env", "id": "MINE"}})
    assert reach("openai", config, env={"MINE": "mine"}).headers == {"A": Secret("mine")}


@pytest.mark.parametrize("value", ["hu\nsh", "hush\r\nX: y", "hush✓", 5, None, ["hush"]])
def test_a_header_that_cannot_be_sent_is_refused_without_showing_it(reach: Reach, value: object) -> None:
    with pytest.raises(ConfigError) as caught:
        reach("openai", models("openai", headers={"X-Hidden": value}))
    assert "models.providers.openai.headers.X-Hidden" in str(caught.value)
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize("name", ["", "a b", "a:", "a\n", "hush✓"])
def test_a_name_that_no_header_has_is_refused(reach: Reach, name: str) -> None:
    with pytest.raises(ConfigError, match=r"memorySearch\.remote\.headers has a name that is not valid for a header"):
        reach("openai", remote(headers={name: "x"}))


@pytest.mark.parametrize("wrong", [5, ["x"], {"a": 1}])
def test_an_address_of_the_wrong_type_is_refused(reach: Reach, wrong: object) -> None:
    with pytest.raises(ConfigError, match=r"models\.providers\.openai\.baseUrl must be a string\."):
        reach("openai", models("openai", baseUrl=wrong))


def test_nothing_that_is_found_shows_a_secret(reach: Reach) -> None:
    access = reach("openai", remote(apiKey="sk-hush", headers={"X-A": "hush"}))
    assert "hush" not in f"{access} {access!r} {access.headers}"
    with pytest.raises(TypeError):
        pickle.dumps(access)


def test_the_credentials_themselves_show_nothing(tmp_path: Path) -> None:
    env = {**openclaw_home(tmp_path, models("openai", apiKey="hush")), "OPENAI_API_KEY": "hush"}
    credentials = load(env=env, cwd=str(tmp_path)).credentials
    assert isinstance(credentials, Credentials)
    assert "hush" not in f"{credentials} {credentials!r}"


@pytest.mark.parametrize(
    ("env", "hub"),
    [
        ({}, "https://huggingface.co"),
        ({"HF_ENDPOINT": " "}, "https://huggingface.co"),
        ({"HF_ENDPOINT": " https://mirror.example/hf// "}, "https://mirror.example/hf"),
    ],
)
def test_hugging_face_may_be_elsewhere(tmp_path: Path, env: dict[str, str], hub: str) -> None:
    assert load(env={"HOME": str(tmp_path), **env}, cwd=str(tmp_path)).hub == hub
