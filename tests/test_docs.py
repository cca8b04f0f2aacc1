"""Documentation cannot rot: examples run, and every command, option, setting and error is described."""

import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

import mdrecall
from mdrecall import errors
from mdrecall.cli.main import COMMANDS, PARTS, _parse_options, build_parser
from mdrecall.cli.options import ABOUT_WORKSPACE
from mdrecall.config.load import load
from tests.record.reference import list_options, settings_page

PROJECT = Path(mdrecall.__file__).parent.parent
DOCS = PROJECT / "docs"


def test_every_setting_is_in_the_docs_with_its_default() -> None:
    assert (DOCS / "settings.md").read_text() == settings_page(), "python -m tests.record --write"


@pytest.mark.parametrize("command", [*COMMANDS, *PARTS])
def test_every_command_and_option_is_in_the_docs(command: str) -> None:
    text = (DOCS / "cli.md").read_text()
    section = re.search(rf"^## mdrecall {command}\b.*?(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert section, command
    assert list_options(command) in section[0], "python -m tests.record --write"


@pytest.mark.parametrize("command", [name for name in COMMANDS if name != "install"])
def test_every_help_and_the_docs_tell_the_same_default_of_the_workspace(command: str) -> None:
    actions = [action for action in build_parser(command).arguments if "--workspace" in action.option_strings]
    assert all((action.help or "").startswith(ABOUT_WORKSPACE) for action in actions)
    assert f"| `--workspace DIR` | {ABOUT_WORKSPACE} (" in (DOCS / "cli.md").read_text()


def code_blocks(path: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", path.read_text(), re.MULTILINE | re.DOTALL)


# The tutorial is one walk: tests/test_tutorial.py takes it, as it does what the README says.
PAGES = [PROJECT / "README.md", *(path for path in sorted(DOCS.rglob("*.md")) if path.name != "tutorial.md")]
EXAMPLES = [(path, code) for path in PAGES for code in code_blocks(path)]


@pytest.mark.usefixtures("no_event_loop_left")
@pytest.mark.parametrize(("path", "code"), EXAMPLES, ids=[path.name for path, _ in EXAMPLES])
def test_the_python_examples_run(
    path: Path, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if "memory-lancedb" in code:
        pytest.importorskip("lancedb", reason="needs lancedb: pip install -e '.[lancedb]'")
    for folder in ("my-notes", "team-notes"):
        shutil.copytree(PROJECT / "mdrecall/sample", tmp_path / folder)
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith(("OPENCLAW_", "CLAWDBOT_", "MDRECALL_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    names: dict[str, Any] = {}
    try:
        exec(compile(code, str(path), "exec"), names)
    except errors.PackageMissing as error:
        pytest.skip(errors.message_with_hint(error))
    assert capsys.readouterr().out.strip()


def blocks(kind: str) -> list[Any]:
    """Every fenced block of a kind in the docs, with the page that it is in."""
    fence = re.compile(rf"^```{kind}\n(.*?)^```", re.MULTILINE | re.DOTALL)
    return [pytest.param(text, id=path.name) for path in PAGES for text in fence.findall(path.read_text())]


@pytest.mark.parametrize("text", blocks("json5"))
def test_the_configurations_are_valid(text: str, tmp_path: Path) -> None:
    file = tmp_path / "mdrecall.json"
    file.write_text(text)
    loaded = load(env={"HOME": str(tmp_path)}, cwd=str(tmp_path), workspace=str(tmp_path), config=str(file))
    assert loaded.files == ("~/mdrecall.json",)
    assert any(value.origin.startswith("~/mdrecall.json") for value in loaded.values.values()) or "secrets" in text


@pytest.mark.parametrize("text", [*blocks("sh"), *blocks("console")])
def test_the_commands_have_options_that_exist(text: str) -> None:
    extras = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for line in re.findall(r"^\$ (.*?)$", text, re.MULTILINE) or text.splitlines():
        for command in re.split(r"&&|\||;", re.sub(r"\$[A-Z]+", "1", line)):
            words = shlex.split(command, comments=True)
            words = words[words[:1] == ["if"] :]
            if words[:1] == ["mdrecall"]:
                assert _parse_options(words[1:])
            elif words[:2] == ["pip", "install"] and words[-1] != ".":
                assert words[-1].removeprefix(".[").removesuffix("]") in extras


def test_the_readme_says_where_the_index_is(tmp_path: Path) -> None:
    text = (PROJECT / "README.md").read_text()
    named = (
        "~/Library/Application Support/mdrecall/index/"
        if sys.platform == "darwin"
        else "~/.local/state/mdrecall/index/"
    )
    (tmp_path / "notes").mkdir()
    env = {"HOME": str(tmp_path)}
    index = load(env=env, cwd=str(tmp_path), workspace=str(tmp_path / "notes")).settings.index_path
    assert named in text
    assert index.startswith(named.replace("~", str(tmp_path)))
    (tmp_path / ".openclaw/workspace").mkdir(parents=True)
    index = load(env=env, cwd=str(tmp_path)).settings.index_path
    assert "`~/.openclaw/memory/`" in text
    assert index.startswith(str(tmp_path / ".openclaw/memory/"))


def list_anchors(path: Path) -> list[str]:
    """The anchors that GitHub gives the headings of a page."""
    text = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return [re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings]


LINKED = [*sorted(PROJECT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]


@pytest.mark.parametrize("path", LINKED, ids=lambda path: path.name)
def test_links_between_the_docs_lead_somewhere(path: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#:\s]*)(?:#([^)]*))?\)", path.read_text()):
        page = (path.parent / target).resolve() if target else path
        assert page.exists(), target
        assert DOCS not in path.parents or DOCS in page.parents, f"{target} is not a page of the site"
        assert not anchor or anchor in list_anchors(page), f"{target}#{anchor}"


def test_the_tests_that_check_promises_exist() -> None:
    for page in ("reliability.md", "flush.md", "digest.md"):
        for name in re.findall(r"`(?:tests/)?([a-z_]+/test_[a-z_]+\.py|test_[a-z_]+\.py)`", (DOCS / page).read_text()):
            assert (PROJECT / "tests" / name).exists(), f"{page}: {name}"


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    pytest.importorskip("zensical", reason="needs Zensical: pip install '.[docs]'")
    shutil.copy(PROJECT / "zensical.toml", tmp_path)
    shutil.copytree(DOCS, tmp_path / "docs")
    command = [sys.executable, "-m", "zensical", "build", "--strict"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    for page in DOCS.rglob("*.md"):
        name = page.relative_to(DOCS).with_suffix("")
        folder = name.parent if name.name == "README" else name
        assert (tmp_path / "site" / folder / "index.html").exists(), name
    assert (tmp_path / "site/llms-full.txt").stat().st_size > 100_000


def test_every_page_is_in_the_navigation() -> None:
    text = (PROJECT / "zensical.toml").read_text()
    for page in [*DOCS.glob("*.md"), *DOCS.glob("hosts/*.md")]:
        assert f'"{page.relative_to(DOCS)}" }}' in text, page


@pytest.mark.parametrize("path", LINKED, ids=lambda path: path.name)
def test_no_two_headings_of_a_page_are_the_same(path: Path) -> None:
    anchors = list_anchors(path)
    assert sorted(set(anchors)) == sorted(anchors)


def test_the_readme_has_exactly_two_commands_to_set_up_and_ci_runs_the_second() -> None:
    commands = re.findall(r"^```sh\n(.*?)\n```", (PROJECT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    assert len(commands) == 2
    assert commands[0].endswith("mdrecall search --demo --into my-notes")
    assert commands[1] in (PROJECT / ".ci/run").read_text()


def test_the_film_is_the_picture_of_its_recording() -> None:
    draw = runpy.run_path(str(PROJECT / "scripts/film"))["draw"]
    assert draw((DOCS / "film.cast").read_text()) == (DOCS / "film.svg").read_text()


def list_files() -> list[Path]:
    """The text files of the project that may name where it is published."""
    names = (
        "*.md",
        "*.toml",
        "Dockerfile",
        ".github/**/*.yml",
        "docs/**/*.md",
        "mdrecall/**/*.json",
        "mdrecall/**/*.py",
    )
    return [path for name in names for path in PROJECT.glob(name)]


def test_the_account_that_publishes_stands_where_the_releasing_page_fills_it_in() -> None:
    """Every address of the project has the same account, and only in pyproject.toml."""
    assert "sed -i 's/OWNER/your-account/' pyproject.toml`" in (PROJECT / "RELEASING.md").read_text()
    text = (PROJECT / "pyproject.toml").read_text()
    owner = tomllib.loads(text)["project"]["urls"]["Source"].split("/")[3]
    # scripts/docs takes the address of the site from this line.
    assert f'\nDocumentation = "https://{owner}.github.io/mdrecall/"\n' in text
    address = re.compile(r"(?:github(?:usercontent)?\.com|ghcr\.io)/([\w-]+)/mdrecall\b|([\w-]+)\.github\.io/mdrecall")
    for path in list_files():
        owners = {one or other for one, other in address.findall(path.read_text())}
        assert owners <= ({owner} if path.name == "pyproject.toml" else set()), path


def test_a_release_has_one_version_and_a_page_of_news() -> None:
    script = runpy.run_path(str(PROJECT / "scripts/release"))
    assert {script["read_version"](path) for path in script["COPIES"]} == {mdrecall.__version__}
    version, _, news = script["read_news"]()
    assert version == mdrecall.__version__
    assert len(news.split()) <= 700
    assert script["find_problems"](f"v{mdrecall.__version__}9")


def test_every_action_of_the_workflows_is_pinned() -> None:
    for path in PROJECT.glob(".github/workflows/*.yml"):
        for used in re.findall(r"uses: (.*)", path.read_text()):
            assert re.fullmatch(r"[\w/-]+@[0-9a-f]{40} # v[\d.]+", used), used
