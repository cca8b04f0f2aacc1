import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdrecall.sessions.visibility import Party, Rules, explain_withheld, read_party, why_hidden

KEYS = (
    "agent:main:main", "agent:main:telegram:direct:ada", "agent:main:telegram:direct:bob", "agent:main:dashboard:1",
    "agent:main:telegram:group:1", "agent:main:telegram:group:2", "agent:main:slack:channel:1",
    "agent:main:matrix:room:1", "agent:main:subagent:1", "agent:main:cron:1", "agent:main:hook:1", "agent:main:acp:1",
    "agent:main:explicit:1", "agent:main:x", "global", "agent:main:main:active-memory:0", "agent:main:main:heartbeat",
)  # fmt: skip
PRIVATE = frozenset(KEYS[:4])
RULES = Rules("main")
PERSONS = Rules("main", one_person=False)
GROUP = "agent:main:telegram:group:1"


def party(key: str, chat_type: str = "", parent: str = "") -> Party:
    return read_party(key, "main", chat_type=chat_type, parent_key=parent)


def is_visible(requester: str, source: str, rules: Rules = RULES) -> bool:
    return not why_hidden(party(requester), party(source), rules)


@pytest.mark.parametrize("requester", KEYS)
def test_private_sees_private_and_every_other_only_itself(requester: str) -> None:
    seen = {source for source in KEYS if is_visible(requester, source)}
    assert seen == {source for source in KEYS if requester == source or {requester, source} <= PRIVATE}


@pytest.mark.parametrize(
    ("key", "chat_type", "audience"),
    [
        ("agent:main:main", "group", "shared"),
        ("agent:main:main", "Channel", "shared"),
        ("agent:main:main", "webinar", "restricted"),
        ("agent:main:telegram:group:1", "direct", "shared"),
        ("agent:main:explicit:1", "", "restricted"),
        ("agent:main:explicit:1", "direct", "private"),
        ("agent:main:subagent:1", "direct", "restricted"),
        ("", "direct", "restricted"),
    ],
)
def test_of_a_key_and_a_chat_type_the_stricter_counts(key: str, chat_type: str, audience: str) -> None:
    assert party(key, chat_type).audience == audience


def test_a_conversation_with_a_coding_agent_on_this_machine_is_private() -> None:
    source = read_party("", "main", is_owners=True)
    assert not why_hidden(party("agent:main:main"), source, RULES)
    assert why_hidden(party(GROUP), source, RULES) == "shared requester"
    assert why_hidden(party("agent:main:telegram:direct:ada"), source, PERSONS) == "other person"
    assert not why_hidden(party("agent:main:main"), source, PERSONS)


@pytest.mark.parametrize(
    ("requester", "source", "reason"),
    [
        ("agent:main:main", GROUP, "shared source"),
        (GROUP, "agent:main:main", "shared requester"),
        ("agent:main:hook:1", "agent:main:main", "restricted requester"),
        ("agent:other:main", "agent:main:main", "other agent"),
        ("agent:main:main", "agent:other:main", "other agent"),
    ],
)
def test_the_reason_says_which_rule_hides_it(requester: str, source: str, reason: str) -> None:
    assert why_hidden(party(requester), party(source), RULES) == reason


def test_a_key_without_an_agent_is_of_the_agent_that_is_asked_for() -> None:
    assert is_visible("main", "agent:main:main")
    assert is_visible("MAIN", "agent:main:telegram:direct:ada")
    assert is_visible("telegram:group:1", GROUP)
    assert not is_visible("telegram:group:2", GROUP)


@pytest.mark.parametrize("key", ["", " ", "\n"])
def test_who_has_no_key_sees_everything(key: str) -> None:
    assert all(is_visible(key, source, rules) for source in (*KEYS, "") for rules in (RULES, PERSONS))


@pytest.mark.parametrize("key", [":", "::", "agent", "agent:main", " : "])
def test_a_key_that_means_nothing_sees_nothing(key: str) -> None:
    assert not any(is_visible(key, source) for source in (*KEYS, "", key))


def test_people_are_apart_where_each_has_a_conversation() -> None:
    ada, bob = "agent:main:telegram:direct:ada", "agent:main:telegram:direct:bob"
    assert not is_visible(ada, bob, PERSONS)
    assert not is_visible(ada, "agent:main:main", PERSONS)
    assert not is_visible("agent:main:main", ada, PERSONS)
    assert is_visible(ada, f"{ada}:thread:7", PERSONS)
    assert is_visible("agent:main:dashboard:1", "agent:main:main", PERSONS)


@given(st.text(max_size=30), st.text(max_size=30), st.booleans())
def test_no_other_key_is_seen_unless_both_are_private(requester: str, source: str, one_person: bool) -> None:
    asking, asked = party(requester), party(source)
    if requester.strip() and not why_hidden(asking, asked, Rules("main", one_person=one_person)):
        assert asking.key.rest == asked.key.rest != "" or asking.audience == asked.audience == "private"


@pytest.mark.parametrize(
    ("visibility", "visible"),
    [
        ("self", {GROUP}),
        ("tree", {GROUP, "agent:main:subagent:1"}),
        ("agent", {*KEYS, ""}),
        ("all", {*KEYS, "", "agent:other:main"}),
    ],
)
def test_openclaws_own_rules_count_if_they_are_asked_for(visibility: str, visible: set[str]) -> None:
    rules = Rules("main", by_openclaw=True, visibility=visibility)
    sources = [party(key, parent=GROUP if key == "agent:main:subagent:1" else "") for key in (*KEYS, "")]
    sources.append(party("agent:other:main"))
    assert {one.key.raw for one in sources if not why_hidden(party(GROUP), one, rules)} == visible


def test_in_openclaws_tree_the_main_session_sees_its_agent() -> None:
    rules = Rules("main", by_openclaw=True, visibility="tree")
    assert all(is_visible("agent:main:main", key, rules) for key in KEYS)
    assert not is_visible("agent:other:main", "agent:main:main", rules)


@pytest.mark.parametrize(
    ("enabled", "allowed", "visible"),
    [(True, (), True), (False, (), False), (True, ("ma*", "other"), True), (True, ("main",), False)],
)
def test_openclaws_agents_see_each_other_as_configured(enabled: bool, allowed: tuple[str, ...], visible: bool) -> None:
    rules = Rules("main", True, True, "all", enabled, allowed)
    assert is_visible("agent:other:main", "agent:main:main", rules) == visible


def test_what_is_withheld_is_said_by_who_asks_and_not_by_what_it_is() -> None:
    told = {explain_withheld(party(key), RULES) for key in KEYS}
    assert told == {
        "Conversations that are not private, or not known to be, were left out.",
        "Several people take part in this conversation, so no other conversation was searched.",
        "This conversation is not known to be private, so no other conversation was searched.",
    }
    assert explain_withheld(party("agent:other:main"), RULES) == "Conversations of other agents were left out."
    assert explain_withheld(party(KEYS[0]), PERSONS).startswith("Conversations with other people")
    assert "tools.sessions.visibility" in explain_withheld(party(GROUP), Rules("main", by_openclaw=True))
