"""The hooks of the plugin: memories are put before a prompt, and captured from what the user says."""

import hashlib
import logging
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from mdrecall.config.settings import LanceDb
from mdrecall.core.conversation.session_key import parse
from mdrecall.core.ranking.snippet import utf16_units
from mdrecall.errors import RecallError
from mdrecall.plugins.lancedb.capture import list_user_texts, pick_newest
from mdrecall.plugins.lancedb.memories import LongTermMemory
from mdrecall.plugins.lancedb.rendering import Entry, relevant_block

_log = logging.getLogger(__name__)
# The first three are OpenClaw's limits.
_MIN_PROMPT_UNITS = 5
_MAX_RECALLED = 3
_MAX_CAPTURED = 3
#: Bounds the memory of a long-running process; messages older than this many may be captured a second time.
_MAX_SEEN = 20_000


class LongTermHooks:
    """Recalls before a turn and captures after it, in private conversations of one agent."""

    def __init__(self, memories: LongTermMemory, settings: LanceDb, agent: str) -> None:
        self._memories = memories
        self._settings = settings
        self._agent = agent
        self._seen: OrderedDict[bytes, None] = OrderedDict()

    def before_agent_start(self, prompt: str, session_key: str = "") -> str:
        """Return up to three memories that would help with a prompt, as a block of data to put before it."""
        if (
            not self._settings.auto_recall
            or utf16_units(prompt) < _MIN_PROMPT_UNITS
            or not self._is_private(session_key)
        ):
            return ""
        try:
            found = self._memories.recall(prompt, _MAX_RECALLED, for_prompt=True).found
        except RecallError as error:
            _log.warning("No memories could be recalled: %s", error)
            return ""
        return relevant_block(Entry(one.row.category, one.row.text) for one in found)

    def agent_end(self, messages: Sequence[Any], success: bool, session_key: str = "") -> None:
        """Store up to three of the user's newest messages that are worth keeping, none of them twice."""
        if not self._settings.auto_capture or not success or not self._is_private(session_key):
            return
        texts = [text for text in list_user_texts(messages) if self._is_new(text, session_key)]
        waiting = pick_newest(texts, _MAX_CAPTURED, self._settings.capture_max_chars)
        try:
            while waiting:
                self._memories.store(waiting[0], source="capture")
                del waiting[0]
        except RecallError as error:
            _log.warning("A message could not be kept as a memory: %s", error)
        for text in waiting:
            # The next turn brings it again, and storing it may work then.
            self._seen.pop(_digest(text, session_key), None)

    def _is_private(self, session_key: str) -> bool:
        """True if one person talks with this agent; without a session key it is the person who runs it."""
        if not session_key.strip():
            return True
        key = parse(session_key)
        return key.is_private and (not key.agent or key.belongs_to(self._agent))

    def _is_new(self, text: str, session_key: str) -> bool:
        digest = _digest(text, session_key)
        if digest in self._seen:
            return False
        self._seen[digest] = None
        while len(self._seen) > _MAX_SEEN:
            self._seen.popitem(last=False)
        return True


def _digest(text: str, session_key: str) -> bytes:
    return hashlib.sha256(f"{session_key}\0{text}".encode("utf-8", "surrogatepass")).digest()[:16]
