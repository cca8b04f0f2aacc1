"""Who may search."""

from typing import Any

import pytest

from mdrecall.config.settings import DEFAULT_SCOPE
from mdrecall.sessions.visibility import explain_denial

#: What OpenClaw allows under its default, and does so here.
DIRECT = ["main", "agent:main:main", "agent:main:telegram:direct:123", "agent:main:whatsapp:acc:direct:1",
          "agent:main:discord:dm:9"]  # fmt: skip
DENIED = ["agent:main:subagent:abc", "agent:main:discord:channel:55", "agent:main:slack:group:g1:thread:9",
          "telegram:group:5", "agent:main:foo:bar:channel:1"]  # fmt: skip
#: What OpenClaw takes for direct conversations, and mdrecall does not.
STRICTER = ["agent:main:cron:job1", "hook:uuid", "agent:main:acp:run", "agent:main:telegram", "no:known:form",
            ":", " : :"]  # fmt: skip


@pytest.mark.parametrize("key", DIRECT)
def test_direct_conversations_may_search_by_default(key: str) -> None:
    assert not explain_denial(DEFAULT_SCOPE, key)


@pytest.mark.parametrize("key", [*DENIED, *STRICTER])
def test_others_may_not_by_default(key: str) -> None:
    assert "memory.qmd.scope.default" in explain_denial(DEFAULT_SCOPE, key)


def rules(*entries: dict[str, Any], default: str = "deny") -> dict[str, Any]:
    return {"default": default, "rules": list(entries)}


def test_a_key_prefix_is_compared_without_the_agent_unless_it_names_one() -> None:
    scope = rules({"action": "allow", "match": {"keyPrefix": "Cron:"}})
    assert not explain_denial(scope, "agent:main:cron:daily")
    assert explain_denial(scope, "agent:main:hook:daily")
    scope = rules({"action": "allow", "match": {"keyPrefix": "agent:ops:"}})
    assert not explain_denial(scope, "agent:ops:cron:daily")
    assert explain_denial(scope, "agent:main:cron:daily")


def test_a_raw_key_prefix_is_compared_with_the_whole_key() -> None:
    scope = rules({"action": "allow", "match": {"rawKeyPrefix": "agent:main:cron:"}})
    assert not explain_denial(scope, "agent:main:cron:daily")
    assert explain_denial(scope, "cron:daily")


def test_a_person_at_the_machine_may_search_whatever_the_default_is() -> None:
    for key in ("", "  "):
        assert not explain_denial(DEFAULT_SCOPE, key)
        assert not explain_denial({"default": "deny"}, key)
        assert not explain_denial(rules({"action": "deny"}), key)


def test_whoever_is_denied_is_told_by_what_and_how_to_change_it() -> None:
    said = explain_denial(DEFAULT_SCOPE, "agent:main:slack:group:7")
    assert "a group conversation" in said
    assert "memory.qmd.scope.default" in said
    assert '{"action": "allow", "match": {"keyPrefix": "slack:group:7"}}' in said
    scope = rules({"action": "allow", "match": {"keyPrefix": "slack:group:7"}})
    assert not explain_denial(scope, "agent:main:slack:group:7")
