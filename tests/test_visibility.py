"""Who sees which conversation, through every door: nothing of a hidden one, neither text nor name nor count."""

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from mdrecall.config.load import load
from mdrecall.errors import FileMissing
from mdrecall.memory import Memory
from mdrecall.sessions.host_conversations import HostChoice
from mdrecall.tools.notes import memory_tools
from mdrecall.tools.toolset import Toolset
from mdrecall.types.documents import Issue
from mdrecall.types.search import EVERYTHING, Visible
from mdrecall.wire import answer_to_json, read_to_json, to_json
from tests.conftest import Workspace, environment
from tests.doors.doors import run_in_process
from tests.sessions.host_transcripts import ANSWER, FOLDER, write_host
from tests.sessions.openclaw_store import OpenClawStore, message
from tests.test_conversations import Home

PRIVATE = ("main", "direct", "dashboard")
#: Of each kind a conversation that asks, and another one.
KEYS = {
    "main": "agent:main:main",
    "direct": "agent:main:telegram:direct:ada",
    "dashboard": "agent:main:dashboard:d1",
    "group": "agent:main:telegram:group:g1",
    "channel": "agent:main:slack:channel:c1",
    "subagent": "agent:main:subagent:s1",
    "cron": "agent:main:cron:nightly",
    "unknown": "agent:main:elsewhere:u1",
}
OTHERS = {
    "main": "agent:main:main:thread:7",
    "direct": "agent:main:telegram:direct:bob",
    "dashboard": "agent:main:explicit:e1",
    "group": "agent:main:telegram:group:g2",
    "channel": "agent:main:slack:channel:c2",
    "subagent": "agent:main:subagent:s2",
    "cron": "agent:main:hook:mail",
    "unknown": "",
}
SOURCES = {
    **{f"own-{kind}": key for kind, key in KEYS.items()},
    **{f"other-{kind}": key for kind, key in OTHERS.items()},
}
CHAT_TYPES = {"other-dashboard": "direct"}
#: As long as each other, so that no average changes with how many there are.
SECRETS = {name: f"quartz{number:02}" for number, name in enumerate(SOURCES)}
ROLES = ("user", "assistant")


def can_see(requester: str, source: str) -> bool:
    relation, kind = source.split("-")
    return (relation == "own" and kind == requester) or (requester in PRIVATE and kind in PRIVATE)


class Claw(Home):
    """A home with a conversation of every kind, or with some of them."""

    def __init__(
        self,
        base: Path,
        sources: Mapping[str, str] = SOURCES,
        *,
        note: str = "The walrus sleeps.",
        in_database: bool = False,
        **config: Any,
    ) -> None:
        super().__init__(base)
        self.configure(**config)
        self.sessions = self.state / "agents" / "main" / "sessions"
        self.store = OpenClawStore(self.state) if in_database else None
        self.sessions.mkdir(parents=True, exist_ok=True)
        if note:
            self.note("MEMORY.md", note)
        entries = {}
        for name, key in sources.items():
            session, chat_type = f"id-{SECRETS[name]}", CHAT_TYPES.get(name)
            said = (f"The walrus of {SECRETS[name]} sleeps.", f"And {SECRETS[name]} answers.")
            if self.store and key:
                self.store.begin(session, key, chat_type=chat_type)
                events = [message(f"{session}-{role}", role, text) for role, text in zip(ROLES, said, strict=True)]
                self.store.add(session, *events)
                continue
            self.say(session, *said)
            if key:
                entries[key] = {"sessionId": session, "chatType": chat_type}
        (self.sessions / "sessions.json").write_text(json.dumps(entries))

    def reset(self, before: Mapping[str, str] = SOURCES) -> None:
        """Let OpenClaw begin every conversation anew; it keeps the old transcripts, every second one as an archive."""
        for secret in list(SECRETS.values())[::2]:
            path = self.sessions / f"id-{secret}.jsonl"
            path.rename(f"{path}.reset.2026-02-11T04-00-00.000Z") if path.exists() else None
        entries = {key: {"sessionId": f"new-{number}"} for number, key in enumerate(before.values()) if key}
        (self.sessions / "sessions.json").write_text(json.dumps(entries))


@pytest.fixture(scope="module")
def claw(tmp_path_factory: pytest.TempPathFactory) -> Claw:
    return Claw(tmp_path_factory.mktemp("claw"))


@pytest.fixture(scope="module")
def memory(claw: Claw) -> Iterator[Memory]:
    with claw.open() as opened:
        yield opened


@pytest.fixture(scope="module")
def without_notes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    with Claw(tmp_path_factory.mktemp("no-notes"), note="").open() as opened:
        yield opened


def seen_in(answer: Any) -> set[str]:
    """The conversations that something in an answer tells of: their text, or their name."""
    text = json.dumps(answer)
    named = {name for name, key in SOURCES.items() if key and f'"{key}"' in text}
    return named | {name for name, secret in SECRETS.items() if secret in text}


def expected(requester: str) -> set[str]:
    return {source for source in SOURCES if can_see(requester, source)}


Ask = Callable[[str, Any, str], Any]


def ask_python(memory: Memory) -> Ask:
    def ask(what: str, given: Any, key: str) -> Any:
        try:
            if what == "search":
                return answer_to_json(memory.search(given, max_results=60, session_key=key))
            if what == "list":
                return to_json(memory.sessions(key))
            if what == "history":
                return to_json(memory.read_messages(given, session_key=key))
            return read_to_json(memory.read_session(given, session_key=key))
        except FileMissing as error:
            return {"error": str(error).replace(given, "X")}

    return ask


def _plain(body: dict[str, Any], given: str) -> Any:
    return {"error": body["error"].replace(given, "X")} if "error" in body else body


def ask_tools(call: Callable[[str, dict[str, Any], str], dict[str, Any]]) -> Ask:
    def ask(what: str, given: Any, key: str) -> Any:
        if what == "search":
            every = call("memory_search", {"query": given, "maxResults": 60}, key)
            return [every, call("sessions_search", {"query": given, "limit": 25}, key)]
        if what == "history":
            return _plain(call("sessions_history", {"sessionKey": given}, key), given)
        return _plain(call("session_get", {"path": f"sessions/{given}.jsonl"}, key), f"sessions/{given}.jsonl")

    return ask


def ask_in_process(memory: Memory) -> Ask:
    return ask_tools(lambda name, arguments, key: Toolset(memory_tools(memory, key)).call(name, arguments).details)


def ask_commands(claw: Claw) -> Ask:
    def run(*arguments: str) -> Any:
        with environment(claw.env, claw.workspace):
            _, out = run_in_process([*arguments, "--json"])
        return json.loads(out)

    def ask(what: str, given: Any, key: str) -> Any:
        as_key = ("--session-key", key)
        if what == "search":
            every = run("search", given, "-n", "60", *as_key)
            return [every, run("sessions", "search", given, "-n", "25", *as_key)]
        if what == "list":
            return run("sessions", "list", *as_key)
        found = run("sessions", "show" if what == "read" else what, given, *as_key)
        return {"error": found["error"]["message"].replace(given, "X")} if "error" in found else found

    return ask


#: The memory decides who sees what; where a door only passes the key on, these show that it does.
FEW = {name: SOURCES[name] for name in ("own-main", "other-direct", "own-group", "other-group", "other-unknown")}


def check_matrix(ask: Ask, requesters: Mapping[str, str] = KEYS, sources: Mapping[str, str] = SOURCES) -> None:
    """Every kind of requester asks for every kind of source."""
    for requester, key in requesters.items():
        visible = expected(requester)
        assert seen_in(ask("search", "walrus", key)) == visible, requester
        missing = {json.dumps(ask(what, "id-none", key)) for what in ("history", "read")}
        for source in sources:
            secret = SECRETS[source]
            allowed = {source} if source in visible else set()
            seen = seen_in(ask("search", secret, key))
            assert allowed <= seen <= visible, (requester, source)
            for what in ("history", "read"):
                answer = ask(what, f"id-{secret}", key)
                if allowed:
                    assert seen_in(answer) == allowed, (requester, source)
                else:
                    # As if it did not exist.
                    assert json.dumps(answer) in missing, (requester, source, answer)
            if SOURCES[source] and not allowed:
                assert seen_in(ask("history", SOURCES[source], key)) == set(), (requester, source)


def test_nothing_of_another_conversation_leaves_python(memory: Memory) -> None:
    ask = ask_python(memory)
    check_matrix(ask)
    for requester, key in KEYS.items():
        assert seen_in(ask("list", "", key)) == expected(requester)


def test_nothing_of_another_conversation_leaves_the_tools(memory: Memory) -> None:
    keys = {kind: key for kind, key in KEYS.items() if kind != "subagent"}
    check_matrix(ask_in_process(memory), keys, FEW)
    assert memory_tools(memory, KEYS["subagent"]) == []


def test_nothing_of_another_conversation_leaves_the_commands(claw: Claw, memory: Memory) -> None:
    memory.sync()
    ask = ask_commands(claw)
    keys = {kind: KEYS[kind] for kind in ("direct", "group", "subagent", "unknown")}
    check_matrix(ask, keys, FEW)
    for requester, key in KEYS.items():
        assert seen_in(ask("list", "", key)) == expected(requester)


@pytest.mark.slow
def test_nothing_of_another_conversation_leaves_a_server(claw: Claw, memory: Memory) -> None:
    from tests.doors.mcp import McpServer

    memory.sync()
    with McpServer(str(claw.workspace), claw.env) as server:
        keys = {kind: key for kind, key in KEYS.items() if kind != "subagent"}
        check_matrix(ask_tools(lambda name, arguments, key: server.call(name, arguments, key)[0]), keys, FEW)


def test_who_has_no_session_key_sees_every_conversation_of_the_agent(memory: Memory) -> None:
    ask = ask_python(memory)
    assert seen_in(ask("search", "walrus", "")) == set(SOURCES)
    assert seen_in(ask("list", "", "")) == set(SOURCES)
    assert "withheld" not in ask("search", "walrus", "")
    for source, secret in SECRETS.items():
        assert seen_in(ask("read", f"id-{secret}", "")) == {source}


@pytest.mark.parametrize(
    "key", ["agent:other:main", "agent:other:telegram:group:g1", ":", ":::", "agent:main", "global"]
)
def test_another_agent_and_a_key_that_means_nothing_see_no_conversation(memory: Memory, key: str) -> None:
    ask = ask_python(memory)
    answer = ask("search", "walrus", key)
    assert (seen_in(answer), [hit["source"] for hit in answer["results"]]) == (set(), ["memory"])
    assert ask("list", "", key) == []


@pytest.mark.parametrize("requester", KEYS)
def test_a_hidden_conversation_changes_nothing_in_the_answer(
    without_notes: Memory, tmp_path: Path, requester: str
) -> None:
    # All chunks are of one length: the average, which no rule leaves anything out of, is the same in both.
    alone = Claw(tmp_path, {source: SOURCES[source] for source in expected(requester)}, note="")
    with alone.open() as other:
        for query in ("walrus", "walrus sleeps", "quartz03", "quar", "the", "2026-02-10", "answers", "zebra"):
            options: dict[str, Any] = {"session_key": KEYS[requester], "max_results": 60, "explain": True}
            here, there = (answer_to_json(one.search(query, **options)) for one in (without_notes, other))
            assert here.pop("withheld")
            assert here == there, query


def test_an_answer_says_that_something_was_withheld_whatever_was_asked(memory: Memory) -> None:
    key = KEYS["group"]
    told = {memory.search(query, session_key=key).withheld for query in ("walrus", "quartz01", "zebra")}
    assert told == {"Several people take part in this conversation, so no other conversation was searched."}
    assert memory.search("walrus", session_key=key, source="memory").withheld == ""


def test_nothing_of_another_conversation_leaves_openclaws_database(tmp_path: Path) -> None:
    with Claw(tmp_path, in_database=True).open() as opened:
        check_matrix(ask_python(opened), {kind: KEYS[kind] for kind in ("direct", "group", "cron", "unknown")})
        check_matrix(ask_in_process(opened), {kind: KEYS[kind] for kind in ("main", "group")}, FEW)
        assert seen_in(ask_python(opened)("list", "", "")) == set(SOURCES)


def test_every_window_of_a_conversation_is_its_own(tmp_path: Path) -> None:
    claw = Claw(tmp_path, {"own-group": KEYS["group"], "own-direct": KEYS["direct"]}, in_database=True)
    assert claw.store
    claw.store.begin("before", KEYS["group"])
    claw.store.add("before", message("b1", "user", "The walrus of last week."))
    claw.store.execute(
        "UPDATE session_nodes SET current_session_id = 'id-quartz03' WHERE session_key = ?", KEYS["group"]
    )
    with claw.open() as memory:
        ask = ask_in_process(memory)
        assert "last week" in json.dumps(ask("search", "walrus", KEYS["group"]))
        assert "last week" not in json.dumps(ask("search", "walrus", KEYS["main"]))
        tools = Toolset(memory_tools(memory, KEYS["group"]))
        now = tools.call("sessions_history", {"sessionKey": "current"}).details
        assert now["sessionId"] == "id-quartz03"
        found = tools.call("sessions_search", {"query": "last week", "sessionKey": "current"}).details["results"][0]
        older = {"sessionKey": found["sessionKey"], "sessionId": found["sessionId"], "messageId": found["messageId"]}
        (opened,) = tools.call("sessions_history", older).details["messages"]
        assert (opened["content"], found["sessionId"]) == ("The walrus of last week.", "before")


PER_PEER = {"session": {"dmScope": "per-channel-peer"}}
BY_OPENCLAW: dict[str, Any] = {"mdrecall": {"sessions": {"visibility": "openclaw"}}}


@pytest.mark.parametrize(
    ("config", "requester", "visible"),
    [
        (PER_PEER, "direct", {"own-direct"}),
        (PER_PEER, "main", {"own-main", "own-dashboard", "other-main", "other-dashboard"}),
        ({"tools": {"sessions": {"visibility": "all"}}}, "group", {"own-group"}),
        (BY_OPENCLAW, "group", set(SOURCES)),
        (BY_OPENCLAW | {"tools": {"sessions": {"visibility": "self"}}}, "group", {"own-group"}),
        (BY_OPENCLAW | {"tools": {"sessions": {"visibility": "tree"}}}, "main", set(SOURCES)),
    ],
)
def test_the_settings_decide(tmp_path: Path, config: dict[str, Any], requester: str, visible: set[str]) -> None:
    claw = Claw(tmp_path, **config)
    with claw.open() as memory:
        assert seen_in(ask_python(memory)("search", "walrus", KEYS[requester])) == visible
        assert seen_in(ask_python(memory)("list", "", KEYS[requester])) == visible


def test_what_openclaw_stored_about_a_conversation_makes_it_stricter(tmp_path: Path) -> None:
    sources = {name: SOURCES[name] for name in ("own-main", "own-direct", "own-dashboard")}
    claw = Claw(tmp_path, sources)
    file = claw.sessions / "sessions.json"
    entries = json.loads(file.read_text())
    entries[KEYS["direct"]]["chatType"] = "group"
    file.write_text(json.dumps(entries))
    with claw.open() as memory:
        ask = ask_python(memory)
        assert seen_in(ask("search", "walrus", KEYS["main"])) == {"own-main", "own-dashboard"}
        assert seen_in(ask("search", "walrus", KEYS["direct"])) == {"own-direct"}


def test_after_a_reset_a_conversation_is_as_visible_as_before_and_nothing_else_is(tmp_path: Path) -> None:
    claw = Claw(tmp_path)
    with claw.open() as memory:
        memory.sync()
    claw.reset()
    claw.reset()
    for file in (tmp_path / ".openclaw" / "memory").glob("main.mdrecall.sqlite*"):
        file.unlink()
    with claw.open() as memory:
        check_matrix(ask_python(memory), {kind: KEYS[kind] for kind in ("main", "group", "unknown")})
        for requester, key in KEYS.items():
            assert seen_in(ask_python(memory)("list", "", key)) == expected(requester)
            if requester != "subagent":
                assert seen_in(ask_in_process(memory)("search", "walrus", key)) == expected(requester)


#: Transcripts that no entry ever named: what the user says in them, and whether it can be the main session's.
UNNAMED = {
    "plain": ("The walrus of {} sleeps.", True),
    "moment": ("[Sat 2026-05-02 08:00 UTC] The walrus of {} sleeps.", True),
    "person": ("[Telegram Ada id:42 2026-02-10 09:00 UTC] The walrus of {} sleeps.", True),
    "telegram": ("[Telegram Zoo id:-100123 topic:5 2026-02-10 09:00 UTC] Ada: The walrus of {} sleeps.", False),
    "whatsapp": ("[WhatsApp 1203@g.us 2026-02-10 09:00] Ada: The walrus of {} sleeps.", False),
    "discord": ("[Discord Zoo #feeding channel id:77 2026-02-10] Ada: The walrus of {} sleeps.", False),
    "metadata": ('Info:\n```json\n{{"group_subject": "Zoo", "is_group_chat": true}}\n```\nThe walrus of {}.', False),
    "cron": ("[cron:4f nightly] The walrus of {} sleeps.", False),
    "subagent": ("[Sat 2026-05-02 08:00 UTC] [Subagent Context] You are one. The walrus of {} sleeps.", False),
    "hook": ("SECURITY NOTICE: The following content is from an EXTERNAL source. The walrus of {}.", False),
}


def say_unnamed(claw: Claw) -> dict[str, str]:
    """Leave transcripts that no entry names; return the secret of each."""
    secrets = {name: f"garnet{number:02}" for number, name in enumerate(UNNAMED)}
    for number, (name, secret) in enumerate(secrets.items()):
        path = claw.say(f"id-{secret}", "A new session was started.", "Hello.", UNNAMED[name][0].format(secret), "Yes.")
        path.rename(f"{path}.reset.2026-02-11T04-00-00.000Z") if number % 2 else None
    return secrets


def unnamed_in(memory: Memory, secrets: dict[str, str], key: str) -> set[str]:
    ask = ask_in_process(memory)
    told = [ask("search", "walrus", key), *(ask("read", f"id-{secret}", key) for secret in secrets.values())]
    return {name for name, secret in secrets.items() if secret in json.dumps(told)}


def test_without_groups_an_unnamed_transcript_is_the_main_session_s_unless_it_says_otherwise(tmp_path: Path) -> None:
    claw = Claw(tmp_path, {"own-main": KEYS["main"], "own-direct": KEYS["direct"], "own-cron": KEYS["cron"]})
    secrets = say_unnamed(claw)
    with claw.open() as memory:
        for kind, key in KEYS.items():
            if kind != "subagent":
                seen = {name for name, (_, is_main) in UNNAMED.items() if is_main} if kind in PRIVATE else set[str]()
                assert unnamed_in(memory, secrets, key) == seen, kind


@pytest.mark.parametrize(
    ("group", "config"),
    [
        ({KEYS["group"]: {"sessionId": "gone"}}, {}),
        ({KEYS["unknown"]: {"sessionId": "gone"}}, {}),
        ({"agent:main:explicit:e1": {"sessionId": "gone", "chatType": "channel"}}, {}),
        ({KEYS["main"]: {"sessionId": "one"}, KEYS["direct"]: {"sessionId": "one"}}, {}),
        ({}, {"session": {"dmScope": "per-peer"}}),
        ("{", {}),
    ],
)
def test_where_an_unnamed_transcript_may_be_anybody_s_no_conversation_sees_it(
    tmp_path: Path, group: Any, config: dict[str, Any]
) -> None:
    claw = Claw(tmp_path, {}, **config)
    secrets = say_unnamed(claw)
    (claw.sessions / "sessions.json").write_text(group if isinstance(group, str) else json.dumps(group))
    with claw.open() as memory:
        for kind, key in KEYS.items():
            assert kind == "subagent" or unnamed_in(memory, secrets, key) == set(), kind
        assert seen_in(ask_python(memory)("search", "walrus", "")) == set()
        assert len(memory.sessions()) == len(UNNAMED)
        # What was once seen of a group is remembered.
        (claw.sessions / "sessions.json").write_text("{}")
        if KEYS["group"] in group:
            assert unnamed_in(memory, secrets, KEYS["main"]) == set()


def test_groups_in_openclaws_database_count_for_files_that_a_migration_left(tmp_path: Path) -> None:
    claw = Claw(tmp_path, {"own-main": KEYS["main"], "own-group": KEYS["group"]}, in_database=True)
    secrets = say_unnamed(claw)
    with claw.open() as memory:
        assert unnamed_in(memory, secrets, KEYS["main"]) == set()


def test_a_transcript_whose_entry_is_lost_keeps_the_key_that_it_was_seen_with(tmp_path: Path) -> None:
    claw = Claw(tmp_path, {"own-main": KEYS["main"], "own-group": KEYS["group"]})
    with claw.open() as memory:
        ask = ask_python(memory)
        for entries in ("", "{", "[]", "{}"):
            (claw.sessions / "sessions.json").write_text(entries) if entries else None
            assert seen_in(ask("search", "walrus", KEYS["main"])) == {"own-main"}
            assert seen_in(ask("search", "walrus", KEYS["group"])) == {"own-group"}
            assert seen_in(ask("search", "walrus", "")) == {"own-main", "own-group"}


@pytest.mark.parametrize("requester", ["group", ""])
def test_the_progress_of_a_search_names_a_transcript_only_to_a_person(tmp_path: Path, requester: str) -> None:
    labels: list[str] = []
    with Claw(tmp_path).open() as memory:
        key = KEYS.get(requester, "")
        memory.search("walrus", session_key=key, progress=lambda step: labels.append(step.label))
    assert labels
    assert bool(seen_in(labels)) == (not requester)


def test_problems_with_a_hidden_transcript_are_left_out() -> None:
    issues = [Issue(path, "is broken") for path in ("MEMORY.md", "sessions/a.jsonl", "sessions/main/b.jsonl")]
    assert Visible(frozenset({"sessions/a.jsonl"})).filter_issues(issues) == tuple(issues[:2])
    assert EVERYTHING.filter_issues(issues) == tuple(issues)


def test_a_conversation_with_a_coding_agent_is_private(workspace: Workspace, tmp_path: Path) -> None:
    workspace.write("MEMORY.md", "Nothing.")
    write_host(tmp_path / "ada", "claude-code")
    loaded = load(env=workspace.env, cwd=str(workspace.path))
    HostChoice("claude-code", loaded, {"HOME": str(tmp_path / "ada")}, FOLDER).follow()
    memory = workspace.memory()
    for key, is_seen in (("", True), (KEYS["main"], True), (KEYS["dashboard"], True), (KEYS["group"], False)):
        tools = Toolset(memory_tools(memory, key))
        hits = tools.call("sessions_search", {"query": "12 connections"}).details["results"]
        assert [hit["snippet"] for hit in hits[:1]] == [ANSWER] * is_seen
        for name in ("5f0c", "sessions/claude-code/5f0c.jsonl"):
            opened = tools.call("sessions_history", {"sessionKey": name})
            assert (opened.is_error, ANSWER in opened.text) == (not is_seen, is_seen)
        if hits:
            place = {name: hits[0][name] for name in ("sessionKey", "sessionId", "messageId")}
            assert ANSWER in tools.call("sessions_history", {**place, "limit": 1}).text


REMEMBER: dict[str, Any] = {
    "agents": {"list": [{"id": "main"}]},
    "memory": {"search": {"rememberAcrossConversations": True}},
}


def test_remembered_conversations_are_indexed_and_found_where_they_are_asked_for(tmp_path: Path) -> None:
    with Claw(tmp_path, in_database=True, **REMEMBER).open() as memory:
        plain = memory.search("walrus", session_key=KEYS["main"])
        assert ({result.source for result in plain}, plain.withheld) == ({"memory"}, "")
        for kind in ("main", "group", "unknown"):
            asked = memory.search("walrus", source="sessions", session_key=KEYS[kind], max_results=50)
            assert seen_in(to_json(asked.results)) == expected(kind)
        tools = Toolset(memory_tools(memory, KEYS["main"]))
        assert tools.call("sessions_search", {"query": "walrus", "limit": 25}).details["results"]
        assert tools.call("memory_search", {"query": "walrus"}).details["corpus"] == ["memory"]
        assert tools.call("memory_search", {"query": "walrus", "corpus": "sessions"}).details["results"]


def test_remembered_conversations_come_with_the_notes_if_that_is_wanted(tmp_path: Path) -> None:
    with Claw(tmp_path, **REMEMBER, mdrecall={"sessions": {"withNotes": True}}).open() as memory:
        assert {result.source for result in memory.search("walrus", max_results=50)} == {"memory", "sessions"}


@pytest.mark.parametrize("search", [{}, {"rememberAcrossConversations": False}])
def test_no_conversation_is_indexed_unless_somebody_has_said_so(tmp_path: Path, search: dict[str, Any]) -> None:
    with Claw(tmp_path, agents={"list": [{"id": "main"}]}, memory={"search": search}).open() as memory:
        assert memory.search("walrus", max_results=50).results
        assert memory.status().sources == ("memory",)
        assert not memory.search("walrus", source="sessions").results
