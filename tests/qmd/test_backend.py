"""The qmd backend as people use it, with a fake qmd."""

import itertools
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from mdrecall.errors import FileMissing, NotMarkdown, PathOutside, QueryError, SymlinkRefused
from mdrecall.tools.notes import memory_tools
from mdrecall.tools.toolset import Toolset
from mdrecall.types.sync import SyncReport
from mdrecall.wire import answer_to_json
from tests.processes import until
from tests.qmd.qmd_workspace import NOTES, QUESTION, QmdWorkspace, hits


def test_a_question_in_words_of_people_is_answered_with_the_passage(qmd_workspace: QmdWorkspace) -> None:
    answer = qmd_workspace.memory().search(QUESTION)
    best = answer[0]
    assert best.path == "memory/2026-01-14.md"
    assert best.match_start_line <= 5 <= best.match_end_line
    assert best.heading == "2026-01-14 › Billing"
    assert best.citation == "memory/2026-01-14.md#L1-L6"
    assert (answer.backend, answer.mode, answer.provider, answer.answered_for) == ("qmd", "keyword", "qmd", None)


@pytest.mark.parametrize("query", [QUESTION, "helicopter"])
def test_a_model_gets_the_same_form_of_answer_from_either_backend(qmd_workspace: QmdWorkspace, query: str) -> None:
    if query != QUESTION:
        qmd_workspace.faulty(out="[]")
    of_qmd = Toolset(memory_tools(qmd_workspace.memory())).call("memory_search", {"query": query})
    qmd_workspace.workspace.configure("{}")
    of_ours = Toolset(memory_tools(qmd_workspace.workspace.memory())).call("memory_search", {"query": query})
    assert (of_qmd.details["backend"], of_ours.details["backend"]) == ("qmd", "builtin")
    assert {*of_qmd.details} == {*of_ours.details} - {"weaker"}
    assert all(json.loads(told.text) == told.details for told in (of_qmd, of_ours))
    forms = [{key for result in told.details["results"] for key in result} for told in (of_qmd, of_ours)]
    assert forms[0] == forms[1]


def test_a_search_can_be_limited_to_days(qmd_workspace: QmdWorkspace) -> None:
    memory = qmd_workspace.memory()
    found = memory.search(QUESTION, since="2026-01-14", until="14 January 2026")
    assert {result.path for result in found} == {"memory/2026-01-14.md"}
    assert {result.date for result in found} == {"2026-01-14"}
    assert (len(memory.search(QUESTION, until="2019-12-31")), found.backend) == (0, "qmd")
    with pytest.raises(QueryError, match="'soon' is not a date"):
        memory.search(QUESTION, since="soon")


def test_what_is_shown_is_what_the_file_says_now(qmd_workspace: QmdWorkspace) -> None:
    qmd_workspace.workspace.write(
        "memory/2026-01-14.md", "# Changed\n\nNow Ana speaks of the billing migration again.\n"
    )
    best = qmd_workspace.memory().search(QUESTION)[0]
    assert "Now Ana speaks" in best.snippet
    assert "what qmd had" not in best.snippet


def test_a_file_that_is_gone_is_left_out_and_told(qmd_workspace: QmdWorkspace) -> None:
    (qmd_workspace.workspace.path / "memory/2026-01-14.md").unlink()
    answer = qmd_workspace.memory().search(QUESTION)
    assert "memory/2026-01-14.md" not in [result.path for result in answer]
    assert any(issue.path == "memory/2026-01-14.md" and "not on disk" in issue.problem for issue in answer.issues)


def test_nothing_outside_the_collections_is_ever_shown(qmd_workspace: QmdWorkspace) -> None:
    secret = qmd_workspace.workspace.path.parent / "secret.md"
    secret.write_text("Ana's billing migration password")
    (qmd_workspace.workspace.path / "memory" / "link.md").symlink_to(secret)
    found = [
        {"file": "qmd://workspace-main/memory/../../secret.md", "docid": "#1", "score": 1},
        {"file": "qmd://workspace-main/memory/link.md", "docid": "#2", "score": 1},
        {"file": "qmd://workspace-main//etc/hostname", "docid": "#4", "score": 1},
        {"file": "qmd://other/x.md", "docid": "#3", "score": 1},
        *hits(["memory/garden.md"]),
    ]
    qmd_workspace.faulty(out=json.dumps(found))
    answer = qmd_workspace.memory().search("billing migration tomatoes")
    assert [result.path for result in answer] == ["memory/garden.md"]
    assert any("link" in issue.problem for issue in answer.issues)


def test_a_least_score_counts_only_if_it_is_given(qmd_workspace: QmdWorkspace) -> None:
    memory = qmd_workspace.memory()
    assert len(memory.search("Ana")) == 2
    answer = memory.search("Ana", min_score=1.0)
    assert answer.reason == "below_min_score"
    assert "memory" in answer.action.lower()


def test_limits_are_kept(qmd_workspace: QmdWorkspace) -> None:
    qmd_workspace.settings_of_qmd["limits"] = {"maxResults": 2, "maxSnippetChars": 30, "maxInjectedChars": 80}
    answer = qmd_workspace.memory().search("Ana billing tomatoes garden", max_results=50)
    assert len(answer) == 2
    assert max(len(result.snippet) for result in answer) <= 30
    assert sum(len(result.snippet) for result in answer) <= 80


@pytest.mark.parametrize(("with_sessions", "corpora"), [(True, ["memory", "sessions"]), (False, ["memory"])])
def test_a_model_is_told_what_qmd_searches_and_gets_no_more_than_the_budget(
    qmd_workspace: QmdWorkspace, with_sessions: bool, corpora: list[str]
) -> None:
    qmd_workspace.settings_of_qmd["sessions"] = {"enabled": with_sessions}
    qmd_workspace.settings_of_qmd["limits"] = {"maxInjectedChars": 20}
    told = Toolset(memory_tools(qmd_workspace.memory())).call("memory_search", {"query": QUESTION}).details
    assert (told["backend"], told["corpus"], told["truncated"]) == ("qmd", corpora, True)
    assert [len(result["snippet"]) for result in told["results"]] == [20]


def test_a_session_that_may_not_search_is_told_and_nobody_is_asked(qmd_workspace: QmdWorkspace) -> None:
    answer = qmd_workspace.memory().search(QUESTION, session_key="agent:main:slack:group:1")
    assert answer.reason == "scope_denied"
    assert "memory.qmd.scope" in answer.action
    assert qmd_workspace.qmd.calls == []


def test_a_debounce_that_is_configured_puts_off_the_update_before_a_search(qmd_workspace: QmdWorkspace) -> None:
    qmd_workspace.settings_of_qmd["update"] = {"debounceMs": 600_000}
    memory = qmd_workspace.memory()
    memory.search(QUESTION)
    qmd_workspace.workspace.write("memory/new.md", "new")
    assert "qmd indexes them with the next update" in memory.search(QUESTION).stale
    assert qmd_workspace.qmd.calls.count(["update"]) == 1
    memory.sync()
    assert qmd_workspace.qmd.calls.count(["update"]) == 2
    assert memory.search(QUESTION).stale == ""


def test_a_sync_is_skipped_if_the_last_is_recent_and_nothing_has_changed(qmd_workspace: QmdWorkspace) -> None:
    qmd = qmd_workspace.qmd
    memory = qmd_workspace.memory()
    memory.sync()
    asked = len(qmd.calls)
    assert memory.sync() == SyncReport(unchanged=3)
    assert len(qmd.calls) == asked
    qmd_workspace.workspace.write("memory/new.md", "new")
    memory.sync()
    memory.sync(force=True)
    assert qmd.calls.count(["update"]) == 3


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        ({"code": 1, "err": "Error: SQLITE_BUSY: database is locked"}, "database locked"),
        ({"hang": True}, "did not answer within 1 second"),
    ],
    ids=["locked", "hangs"],
)
def test_a_command_that_is_to_wait_tries_the_first_update_three_times(
    qmd_workspace: QmdWorkspace, fault: dict[str, Any], why: str
) -> None:
    qmd_workspace.database.unlink()
    qmd_workspace.settings_of_qmd["update"] = {"waitForBootSync": True, "updateTimeoutMs": 1_000}
    qmd_workspace.qmd.reply("update", **fault)
    answer = qmd_workspace.memory().search(QUESTION)
    assert answer.answered_for
    assert why in answer.answered_for.reason
    assert qmd_workspace.qmd.calls.count(["update"]) == 3


@pytest.mark.parametrize("waits", [True, False])
def test_a_memory_is_open_once_the_update_at_its_start_is_done_if_it_is_to_wait(
    qmd_workspace: QmdWorkspace, waits: bool
) -> None:
    qmd = qmd_workspace.qmd
    qmd_workspace.settings_of_qmd["update"] = {"waitForBootSync": waits}
    qmd.reply("update", after="go")
    with ThreadPoolExecutor() as pool:
        opening = pool.submit(qmd_workspace.memory, one_shot=False)
        try:
            if not waits:
                opening.result(20)
            assert until(lambda: ["update"] in qmd.calls)
            assert opening.done() != waits
        finally:
            (qmd.folder / "go").touch()
        assert opening.result(20).search(QUESTION).backend == "qmd"


def test_a_session_that_may_not_search_may_not_read_a_transcript(qmd_workspace: QmdWorkspace) -> None:
    qmd_workspace.settings_of_qmd["sessions"] = {"enabled": True}
    folder = Path(qmd_workspace.settings.sessions_dir)
    folder.mkdir(parents=True)
    record = {"type": "message", "message": {"role": "user", "content": "the walrus"}}
    (folder / "talk.jsonl").write_text(json.dumps(record) + "\n")
    (folder / "sessions.json").write_text(json.dumps({"agent:main:main": {"sessionId": "talk"}}))
    memory, asked = qmd_workspace.memory(), {"path": "sessions/talk.jsonl"}
    group = Toolset(memory_tools(memory, "agent:main:slack:group:1"))
    refused = group.call("session_get", asked)
    assert (refused.is_error, refused.details["errorType"], refused.details["text"]) == (True, "ScopeDenied", "")
    assert "memory.qmd.scope" in refused.details["action"]
    own = Toolset(memory_tools(memory, "agent:main:main"))
    assert own.call("session_get", asked).details["text"] == "1  User: the walrus"
    for tools in (group, own):
        for path in ("sessions/talk.jsonl", "qmd/sessions-main/talk.md"):
            read = tools.call("memory_get", {"path": path})
            assert (read.details["errorType"], read.details["text"]) == ("TranscriptRefused", "")


@pytest.mark.parametrize(
    ("key", "other", "seen"),
    [
        ("", "irc:group:1", {"mine", "group", "lost"}),
        ("agent:main:main", "irc:group:1", {"mine"}),
        ("agent:main:irc:group:1", "irc:group:1", {"group"}),
        ("agent:main:irc:group:2", "irc:group:1", set()),
        # An agent without groups: what no entry names is the main session's.
        ("agent:main:main", "cron:nightly", {"mine", "lost"}),
        ("agent:main:irc:group:2", "cron:nightly", set()),
    ],
)
def test_a_conversation_sees_what_it_may_of_the_exported_transcripts(
    qmd_workspace: QmdWorkspace, key: str, other: str, seen: set[str]
) -> None:
    qmd_workspace.settings_of_qmd |= {"sessions": {"enabled": True}, "scope": {"default": "allow"}}
    folder = Path(qmd_workspace.settings.sessions_dir)
    folder.mkdir(parents=True)
    for name in ("mine", "group", "lost"):
        record = {"type": "message", "message": {"role": "user", "content": f"Ana told {name} about the migration."}}
        (folder / f"{name}.jsonl").write_text(json.dumps(record) + "\n")
    entries = {"agent:main:main": {"sessionId": "mine"}, f"agent:main:{other}": {"sessionId": "group"}}
    (folder / "sessions.json").write_text(json.dumps(entries))
    found = hits(["mine.md", "group.md", "lost.md", "gone.md"])
    found = [{**hit, "file": hit["file"].replace("workspace-main", "sessions-main")} for hit in found]
    qmd_workspace.fill()
    qmd_workspace.faulty(out=json.dumps([*found, *hits(NOTES)]))
    answer = qmd_workspace.memory().search(QUESTION, session_key=key)
    assert answer.backend == "qmd"
    told = json.dumps(answer_to_json(answer))
    assert {name for name in ("mine", "group", "lost") if f"told {name}" in told} == seen
    assert {name for name in ("mine", "group", "lost", "gone") if f"{name}." in told} == (
        seen | {"gone"} if not key else seen
    )
    assert "memory/2026-01-14.md" in told
    assert bool(answer.withheld) == bool(key)
    collections = [name for call in qmd_workspace.qmd.calls for flag, name in itertools.pairwise(call) if flag == "-c"]
    assert ("sessions-main" in collections) == bool(seen)


def test_vectors_are_not_asked_for_where_there_are_none(qmd_workspace: QmdWorkspace) -> None:
    answer = qmd_workspace.memory().search(QUESTION, mode="vector")
    assert answer.mode == "keyword"
    assert "no vectors yet" in answer.degraded


def test_by_meaning_qmds_lines_stay_and_scores_are_on_the_scale_of_the_builtin_backend(
    qmd_workspace: QmdWorkspace,
) -> None:
    qmd_workspace.fill(embedded=True)
    qmd_workspace.settings_of_qmd["searchMode"] = "vsearch"
    names = ["memory/garden.md", "memory/2026-01-14.md"]
    found = [{**hit, "line": 6 - 3 * rank, "score": 0.7 - rank / 10} for rank, hit in enumerate(reversed(hits(names)))]
    qmd_workspace.qmd.forget().reply("--version", out="qmd 2.8.3").reply("vsearch", out=json.dumps(found))
    answer = qmd_workspace.memory().search(QUESTION)
    assert (answer.mode, answer.degraded) == ("vector", "")
    assert [result.path for result in answer] == ["memory/2026-01-14.md", "memory/garden.md"]
    assert answer[0].score > 0.5 > answer[1].score
    assert [result.confidence for result in answer] == [answer.confidence, "low"]
    assert all(
        result.match_start_line <= line <= result.match_end_line for result, line in zip(answer, (6, 3), strict=True)
    )
    foreign = qmd_workspace.memory().search("how do I bake a cake?")
    assert foreign.confidence == "low"
    assert foreign.caution
    assert qmd_workspace.memory().probe_vectors()


def test_files_are_read_as_the_builtin_backend_reads_them_and_by_collection(qmd_workspace: QmdWorkspace) -> None:
    memory = qmd_workspace.memory()
    assert memory.read("memory/garden.md").text == NOTES["memory/garden.md"]
    assert memory.read("qmd/workspace-main/memory/garden.md", from_line=3, lines=1).text == "The tomatoes need water."
    assert memory.read("MEMORY.md", lines=1).text == "# Memory"


def test_a_collection_outside_the_workspace_is_read_by_its_name(qmd_workspace: QmdWorkspace) -> None:
    outside = qmd_workspace.workspace.path.parent / "outside"
    outside.mkdir()
    for name, text in (("plan.md", "A plan.\n"), ("plan.txt", "No note.\n"), ("plan.50%25 (off) #1.md", "Odd.\n")):
        (outside / name).write_text(text)
    qmd_workspace.settings_of_qmd["paths"] = [{"path": str(outside), "name": "docs", "pattern": "plan.*"}]
    memory = qmd_workspace.memory()
    assert memory.read("qmd/docs-main/plan.md").text == "A plan.\n"
    assert memory.read("qmd/docs-main/plan.50%25 (off) #1.md").text == "Odd.\n"
    assert memory.read(str(outside / "plan.md")).path == "qmd/docs-main/plan.md"
    # A folder of the workspace may have the name of the prefix.
    qmd_workspace.workspace.write("qmd/x.md", "Own.\n")
    assert memory.read("qmd/x.md").text == "Own.\n"
    with pytest.raises(NotMarkdown):
        memory.read("qmd/docs-main/plan.txt")


@pytest.mark.parametrize(
    "path",
    ["qmd/nope/x.md", "qmd/workspace-main/../MEMORY.md", "qmd/", "../x.md", "", "/etc/hostname.md"],
)
def test_no_other_file_is_read(qmd_workspace: QmdWorkspace, path: str) -> None:
    (qmd_workspace.workspace.path.parent / "MEMORY.md").write_text("beside")
    with pytest.raises(PathOutside):
        qmd_workspace.memory().read(path)


def test_a_link_and_a_missing_file_are_told(qmd_workspace: QmdWorkspace) -> None:
    os.symlink("/etc/hostname", qmd_workspace.workspace.path / "memory" / "link.md")
    memory = qmd_workspace.memory()
    for path in ("memory/link.md", "qmd/workspace-main/memory/link.md"):
        with pytest.raises(SymlinkRefused):
            memory.read(path)
    with pytest.raises(FileMissing):
        memory.read("qmd/workspace-main/memory/nope.md")


def test_status_has_what_openclaw_has(qmd_workspace: QmdWorkspace) -> None:
    memory = qmd_workspace.memory()
    memory.search(QUESTION)
    status = memory.status()
    assert (status.backend, status.provider, status.model, status.requested_provider) == ("qmd",) * 4
    assert (status.files, status.chunks, status.dirty) == (3, 3, False)
    assert status.db_path == str(qmd_workspace.database)
    assert [(count.source, count.files) for count in status.source_counts] == [("memory", 3)]
    assert status.vector["enabled"]
    assert status.vector["available"]
    assert status.fallback is None
    qmd = status.custom["qmd"]
    assert qmd["collections"] == 1
    assert qmd["collectionFiles"]["workspace-main"] == 3
    assert qmd["lastUpdateAt"]
    assert not status.custom["filesChanged"]


def test_without_qmd_nothing_is_imported_or_started_that_runs_it(qmd_workspace: QmdWorkspace) -> None:
    qmd_workspace.program = "no-such-qmd"
    qmd_workspace.configure()
    script = (
        "import sys, threading\n"
        "from mdrecall.memory import Memory\n"
        "with Memory.open(sys.argv[1]) as memory:\n"
        "    print(memory.search(sys.argv[2]).backend)\n"
        "    print(*sorted(name for name in sys.modules if name.startswith('mdrecall.extras.qmd.')))\n"
        "    print(*(thread.name for thread in threading.enumerate() if 'update' in thread.name))\n"
    )
    command = [sys.executable, "-c", script, str(qmd_workspace.workspace.path), QUESTION]
    done = subprocess.run(command, env=qmd_workspace.env, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["builtin", "mdrecall.extras.qmd.backend mdrecall.extras.qmd.process", ""]


def test_status_tells_of_a_program_that_is_not_there_though_nobody_has_asked_it(qmd_workspace: QmdWorkspace) -> None:
    qmd_workspace.program = "no-such-qmd"
    assert qmd_workspace.memory().status().custom["qmd"]["problem"] == "no-such-qmd is not installed on the PATH."


def test_check_reset_and_files_are_of_qmds_index(qmd_workspace: QmdWorkspace) -> None:
    memory = qmd_workspace.memory()
    assert memory.check() == ()
    assert str(qmd_workspace.database) in [path for path, _ in memory.index_files()]
    memory.reset()
    assert not qmd_workspace.database.exists()
    assert memory.check() == ("qmd has not built an index yet.",)
    assert (qmd_workspace.workspace.path / "MEMORY.md").exists()


def test_a_search_can_be_limited_to_tags_paths_and_collections(qmd_workspace: QmdWorkspace) -> None:
    qmd_workspace.own["collections"] = {"days": {"path": "memory", "pattern": "2026-*.md"}}
    memory = qmd_workspace.memory()
    assert {result.path for result in memory.search(QUESTION, paths=["memory"])} == {"memory/2026-01-14.md"}
    assert {result.path for result in memory.search(QUESTION, collections=["days"])} == {"memory/2026-01-14.md"}
    none = memory.search(QUESTION, tags=["nowhere"])
    assert (len(none), none.backend) == (0, "qmd")
    assert none.action.endswith("Only notes with the tag #nowhere were searched.")
    with pytest.raises(QueryError, match="no collection 'nights'"):
        memory.search(QUESTION, collections=["nights"])
