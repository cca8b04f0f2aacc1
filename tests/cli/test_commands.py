import errno
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from mdrecall.cli.main import ALIASES, COMMANDS, GROUPS, PARTS, _parse_options
from mdrecall.config.load import load
from tests.cli.conftest import Run, own_env, run_program
from tests.conftest import Workspace


@pytest.mark.parametrize(
    "arguments",
    [
        ["search", "--help"],
        ["mcp", "--help"],
        ["search", "walrus"],
        ["get", "memory/none.md", "--json"],
        ["config", "show"],
        ["serach"],
    ],
    ids=" ".join,
)
def test_a_process_of_its_own_says_the_same_as_main(
    workspace: Workspace, run: Run, run_process: Run, arguments: list[str]
) -> None:
    """The other tests call ``main``, where modules that they have imported before are there already."""
    workspace.write("MEMORY.md", "The walrus sleeps.\n")
    assert run_process(*arguments) == run(*arguments)


def test_status_of_several_agents_reports_each(workspace: Workspace, run: Run) -> None:
    other = workspace.home / "other"
    other.mkdir()
    config = workspace.home / "c.json5"
    config.write_text(
        f"{{agents: {{list: [{{id: 'one', workspace: '{other}'}}, {{id: 'two', workspace: '/no/where'}}]}}}}"
    )
    ran = run("status", "--config", str(config), "--json")
    assert ran.code == 2
    assert [record["agentId"] for record in ran.json] == ["one", "two"]
    assert "/no/where" in ran.json[1]["error"]
    printed = run("status", "--config", str(config))
    assert (printed.code, "Memory of agent one" in printed.out, "/no/where" in printed.err) == (2, True, True)


def test_config_show_tells_where_each_value_came_from(workspace: Workspace, run: Run) -> None:
    workspace.configure("{memorySearch: {query: {maxResults: 9}, remote: {apiKey: 'sk-hush', headers: {X: 'hush'}}}}")
    ran = run("config", "show")
    assert "hush" not in ran.out
    shown = dict(line.split(maxsplit=1) for line in ran.out.splitlines())
    origin = f"({workspace.state}/mdrecall.json: memorySearch.query.maxResults)"
    assert shown["memorySearch.query.maxResults"] == f"9  {origin}"
    width = max(map(len, shown))
    assert ran.out.splitlines() == [f"{name:{width}}  {value}" for name, value in shown.items()]


def test_a_provider_of_an_older_version_is_an_error_of_the_settings_and_a_search_answers(
    workspace: Workspace, run: Run
) -> None:
    workspace.write("MEMORY.md", "The walrus lives on the ice.")
    workspace.configure(
        '{memorySearch: {fallback: "minilm"}, agents: {defaults: {memorySearch: {provider: "minilm"}}}}'
    )
    for command in (("config", "check"), ("doctor",)):
        ran = run(*command)
        assert ran.code == 2
        for at in ("memorySearch.fallback", "agents.defaults.memorySearch.provider"):
            assert f': {at} is "minilm", which this version does not have. Remove this line' in ran.out + ran.err
    assert "Remove this line" in run("status").err
    ran = run("search", "walrus", "--json")
    assert (ran.code, ran.json["provider"], ran.json["mode"]) == (0, "offline", "hybrid")


def test_openclaws_file_is_read_with_warnings_and_a_list_of_what_is_not_used(workspace: Workspace, run: Run) -> None:
    workspace.beside_openclaw()
    file = workspace.home / ".openclaw/openclaw.json"
    agents = {"entries": {"main": {"workspace": str(workspace.path)}, "new": {"workspace": "~/not-yet"}}}
    search = {"telepathy": True, "provider": "bedrock", "multimodal": {"enabled": True}}
    file.write_text(json.dumps({"agents": agents, "memory": {"search": search}, "gateway": {"port": 1}}))
    ran = run("config", "check")
    assert ran.code == 0
    assert ran.err.count("telepathy") == ran.err.count("bedrock") == ran.err.count("not-yet") == 1
    assert ran.out.splitlines()[1:] == ["Accepted, not used:", "  memory.search.multimodal", "  gateway"]
    checked = run("config", "check", "--json").json
    assert checked["unused"] == ["memory.search.multimodal", "gateway"]
    assert len(checked["warnings"]) == 3
    for command in ("status", "doctor"):
        ran = run(command, "--agent", "main")
        assert ran.code == 0
        assert (ran.out + ran.err).count("telepathy") == 1
    (record,) = run("status", "--agent", "main", "--json").json
    assert len(record["configWarnings"]) == 2
    assert run("status").code == 0
    workspace.write("MEMORY.md", "The walrus is grey.")
    ran = run("search", "walrus", "--agent", "main")
    assert (ran.code, "telepathy" in ran.err) == (0, False)


def test_demo_into_a_folder_keeps_it_and_refuses_to_overwrite(workspace: Workspace, run: Run) -> None:
    assert run("demo", "--into", "sample").code == 0
    assert (workspace.path / "sample/MEMORY.md").is_file()
    for folder, said in (("sample", "already exists"), ("sample/MEMORY.md/x", "MEMORY.md/x: Not a directory. Choose")):
        refused = run("demo", "--into", folder)
        assert (refused.code, said in " ".join(refused.err.split())) == (2, True)


def test_a_bug_is_told_in_the_form_that_was_asked_for(
    workspace: Workspace, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(options: object) -> int:
        raise ValueError("odd")

    monkeypatch.setattr("mdrecall.cli.notes.run_list", fail)
    hint = "This is a bug. Please report it with the traceback that MDRECALL_DEBUG=1 shows."
    plain = run("list")
    assert (plain.code, plain.out) == (2, "")
    assert "Unexpected error: ValueError: odd." in plain.err
    assert hint in plain.err
    error = run("list", "--json").json["error"]
    assert (error["type"], error["message"], error["hint"]) == ("Bug", "Unexpected error: ValueError: odd.", hint)
    with pytest.raises(ValueError, match="odd"):
        run("list", MDRECALL_DEBUG="1")


def test_ctrl_c_says_what_is_kept(workspace: Workspace, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(options: object) -> int:
        raise KeyboardInterrupt

    for module, command, said in (
        ("notes", "list", "Stopped.\n"),
        ("index", "index", "Stopped. Everything indexed so far is kept; run `mdrecall index` to continue.\n"),
    ):
        monkeypatch.setattr(f"mdrecall.cli.{module}.run_{command}", interrupt)
        ran = run(command)
        assert (ran.code, ran.err) == (130, said)


def test_a_demo_that_cannot_be_copied_leaves_nothing_behind(
    workspace: Workspace, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill_the_disk(sample: Path, target: str) -> None:
        Path(target).mkdir()
        Path(target, "MEMORY.md").write_text("half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("shutil.copytree", fill_the_disk)
    ran = run("demo", "--into", "sample")
    assert (ran.code, f"{workspace.path / 'sample'}: No space left on device." in ran.err) == (2, True)
    assert not (workspace.path / "sample").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["get", "x.md", "--lines", "many"], "not a whole number"),
        (["search", "x", "--since", "soon"], "'soon' is not a date"),
        (["search", "x", "--until", "2026-02-30"], "Give a date such as"),
        (["search", "x", "--since", "2026-03-02", "--until", "2026-03-01"], "No day is since 2026-03-02"),
        ([], "search notes and past conversations"),
        (["--verison"], "--verison is not an option"),
        (["status", "x"], "does not take x"),
        (["note", "-tea"], "put -- before text that starts with -"),
    ],
)
def test_bad_input_is_named_and_exits_with_2(workspace: Workspace, run: Run, arguments: list[str], said: str) -> None:
    workspace.write("MEMORY.md", "text")
    ran = run(*arguments)
    assert ran.code == 2
    assert said in ran.err
    assert "Traceback" not in ran.err


def test_help_lists_every_command(run: Run) -> None:
    text = run("--help").out
    assert all(re.search(rf"^  {name} +{about[1]}$", text, re.MULTILINE) for name, about in COMMANDS.items())
    assert re.findall(r"^([a-z]+):$", text, re.MULTILINE) == [*GROUPS, "options"]
    assert "None" not in text
    assert max(map(len, text.splitlines())) <= 80


EXAMPLES = [(name, example) for name, (_, _, *examples) in (COMMANDS | PARTS).items() for example in examples]


@pytest.mark.parametrize(("name", "example"), EXAMPLES, ids=[example for _, example in EXAMPLES])
def test_the_examples_in_the_help_of_a_command_can_be_run(run: Run, name: str, example: str) -> None:
    assert f"  mdrecall {example}\n" in run(*name.split(), "--help").out
    command = _parse_options(shlex.split(example.partition(" > ")[0])).command
    assert command == name or (command in PARTS and command.split()[0] == name)


@pytest.mark.parametrize("word", ALIASES)
def test_a_word_that_was_a_command_still_is_one(run: Run, word: str) -> None:
    assert run(word, "--help") == run(*ALIASES[word], "--help")
    assert run("--help").out.find(f"  {word} ") == -1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("search --limt 3 foo", "`mdrecall search` has no option --limt. Did you mean --limit?"),
        ("search foo --limt=3", "`mdrecall search` has no option --limt. Did you mean --limit?"),
        ("index --now", "`mdrecall index` has no option --now."),
    ],
)
def test_a_mistyped_option_is_told_in_two_lines(run: Run, arguments: str, said: str) -> None:
    ran = run(*arguments.split())
    hint = f"Run `mdrecall {arguments.split()[0]} --help` to see its options."
    assert (ran.code, ran.out, ran.err) == (2, "", f"mdrecall: {said}\n          {hint}\n")


def on_a_terminal(workspace: Workspace, command: str, **more_env: str) -> str:
    """What a person sees: the command on a pseudo-terminal of its own."""
    script = f"import pty, sys; sys.exit(pty.spawn(['bash', '-c', {command!r}]) >> 8)"
    env = own_env(workspace, TERM="xterm", **more_env)
    done = subprocess.run([sys.executable, "-c", script], cwd=workspace.path, env=env, capture_output=True, check=False)
    return done.stdout.decode()


#: A window title, a cleared screen in two encodings, a bell, a backspace, a carriage return and reversed text.
HOSTILE = "\x1b]0;owned\x07 \x1b[2J \x9b2J \x08 over\rwritten \u202e"
#: What a terminal may get: text, line ends as it makes them, and mdrecall's own styles.
SAFE = re.compile(r"(?:[^\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]|\r\n|\x1b\[[\d;]*m|\x1b\[K|\r(?=\x1b\[K))*")


#: All in one process, because each takes long to start; a line of its own is printed after each.
IN_TURN = (
    "import sys; from mdrecall.cli.main import main; [(main(line.split()), print('-' * 9)) for line in sys.argv[1:]]"
)


def test_no_control_character_of_a_note_reaches_a_terminal(workspace: Workspace) -> None:
    commands = [
        "get memory/a.md", "get memory/a.md --json", "search walrus --explain",
        "context --workspace . --message walrus", "list", "links memory/a.md", "forget walrus", "sessions show talk",
        "sessions history talk", "sessions search walrus",
    ]  # fmt: skip
    workspace.configure(
        '{"memorySearch": {"sources": ["memory", "sessions"], "experimental": {"sessionMemory": true}}}'
    )
    text = f"The walrus {HOSTILE} sleeps beside [[a]].\n"
    workspace.write("MEMORY.md", text + f"- walrus food {HOSTILE} <!-- trigger: walrus -->\n")
    workspace.write("memory/a.md", text)
    workspace.write(f"memory/{HOSTILE}\n0.999  MEMORY.md#L1.md", text)
    folder = Path(load(env=workspace.env, workspace=str(workspace.path)).settings.sessions_dir)
    folder.mkdir(parents=True)
    message = {"role": "user", "content": [{"type": "text", "text": text}]}
    (folder / "talk.jsonl").write_text(json.dumps({"type": "message", "message": message}) + "\n")
    seen = on_a_terminal(workspace, shlex.join([sys.executable, "-c", IN_TURN, *commands]))
    for command, shown in zip(commands, seen.split("-" * 9 + "\r\n"), strict=False):
        assert "\ufffd" in shown or "\\u009b" in shown, command
        assert SAFE.fullmatch(shown), (command, shown)


def test_a_pipe_gets_every_byte_of_a_note(workspace: Workspace) -> None:
    text = f"The walrus {HOSTILE} sleeps."
    workspace.write("memory/a.md", text)
    command = [sys.executable, "-m", "mdrecall", "get", "memory/a.md"]
    done = subprocess.run(command, cwd=workspace.path, env=own_env(workspace), capture_output=True, check=True)
    assert text.encode() in done.stdout


def test_a_terminal_shows_other_scripts_and_colour_unless_no_color_is_set(workspace: Workspace) -> None:
    text = "一\u3000二 می\u200cخواهم 👨\u200d👩\u200d👧\u00a0!"
    workspace.write("MEMORY.md", f"walrus\n{text}\n")
    command = f"{sys.executable} -m mdrecall get MEMORY.md; {sys.executable} -m mdrecall search walrus"
    shown = on_a_terminal(workspace, command)
    assert text in shown
    assert "\x1b[1;36mMEMORY.md#L1" in shown
    assert "\x1b" not in on_a_terminal(workspace, command, NO_COLOR="1")


def test_what_follows_two_dashes_is_no_option_and_options_can_be_shortened(workspace: Workspace, run: Run) -> None:
    workspace.write("MEMORY.md", "the flag --limt is mistyped")
    for arguments in (["--", "--limt"], ["--limt is mistyped"], ["mistyped", "--max", "1", "--expl"]):
        assert run("search", *arguments).code == 0


def test_openclaws_home_is_never_created(workspace: Workspace, run: Run) -> None:
    workspace.write("MEMORY.md", "walrus")
    for command in (["search", "walrus"], ["index"], ["status"], ["get", "MEMORY.md"], ["config", "show"], ["demo"]):
        assert run(*command).code == 0
    assert list(workspace.home.iterdir()) == []


HEAVY = {
    "asyncio", "concurrent.futures", "dataclasses", "difflib", "inspect", "logging",
    "numpy", "pyjson5", "shutil", "sqlite3", "subprocess", "tempfile", "tokenizers",
    "mdrecall.embed.offline.transformer", "mdrecall.embed.offline.word_vectors",
}  # fmt: skip


@pytest.mark.parametrize(
    ("command", "used", "unused"),
    [
        (
            ["search", "walrus", "--no-warm"],
            {"mdrecall.embed.offline", "mdrecall.engine.searcher"},
            {"mdrecall.embed.offline.word_vectors"},
        ),
        (
            ["index", "--no-wait"],
            {"mdrecall.embed.offline", "mdrecall.text.notes"},
            {"mdrecall.engine.searcher", "mdrecall.search.score"},
        ),
    ],
)
def test_start_up_imports_only_what_the_command_needs(
    workspace: Workspace, command: list[str], used: set[str], unused: set[str]
) -> None:
    workspace.write("MEMORY.md", "the walrus sleeps")
    workspace.memory().sync()
    if command[0] == "index":
        workspace.write("MEMORY.md", "the walrus is awake")
    code = "import sys; from mdrecall.cli.start import main; main(); print(' '.join(sys.modules))"
    modules = set(run_program(workspace, [sys.executable, "-c", code, *command]).out.splitlines()[-1].split())
    assert {"apsw", *used} <= modules
    assert not modules & (HEAVY | unused)


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("mdrecall search walrus >/dev/full", 2),
        ("mdrecall --version >/dev/full", 2),
        ("mdrecall search walrus >&-", 0),
        ("mdrecall index >&- 2>&-", 0),
        ("PYTHONIOENCODING=ascii mdrecall search cafe", 0),
        ("set -o pipefail; mdrecall search walrus -n 50 | head -1", 0),
        ("here=$PWD; mkdir gone && cd gone && rmdir ../gone && mdrecall search walrus --workspace $here", 0),
    ],
)
def test_odd_output_and_an_odd_folder_are_never_a_traceback(workspace: Workspace, command: str, code: int) -> None:
    for number in range(50):
        workspace.write(f"memory/{number}.md", "the walrus in the café " * 50)
    script = command.replace("mdrecall", f"{sys.executable} -m mdrecall")
    ran = run_program(workspace, ["bash", "-c", script])
    assert (ran.code, "Traceback" in ran.err) == (code, False)
    assert "| head" not in command or ran.err == ""


def test_where_no_index_can_be_written_reading_and_searching_work_and_indexing_says_why(
    workspace: Workspace, run: Run
) -> None:
    workspace.write("MEMORY.md", "text\n")
    workspace.state.write_text("a file where the folder should be")
    assert run("get", "MEMORY.md").out == "text\n"
    searched = run("search", "text")
    assert searched.code == 0
    assert "a temporary index is used" in searched.err
    indexed = run("index")
    assert indexed.code == 2
    assert "Cannot create the folder of the index" in indexed.err


def test_get_of_an_endless_line_says_that_it_was_cut(workspace: Workspace, run: Run) -> None:
    workspace.write("MEMORY.md", "x" * 60_000)
    ran = run("get", "MEMORY.md")
    assert len(ran.out) == 50_001
    assert ran.err == "Cut after 50,000 characters. Read on in the same line with --from 1 --from-char 50000.\n"


def test_the_demo_reads_and_writes_nothing_of_the_users(workspace: Workspace, run: Run, tmp_path: Path) -> None:
    workspace.configure(
        json.dumps({"memorySearch": {"store": {"path": str(tmp_path / "mine.sqlite")}, "query": {"x": 1}}})
    )
    assert run("demo").code == 0
    assert not (tmp_path / "mine.sqlite").exists()
