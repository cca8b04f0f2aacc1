"""Answers an event of a host: every part that has something to say is asked, within the time that the host gives.

A late answer is a short one: what has been said when the time is over is the answer.
"""

import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from itertools import accumulate, takewhile

from mdrecall.errors import RecallError, message_with_hint
from mdrecall.hosts.events import Answer, HookCall, HookEvent, describe_failure
from mdrecall.hosts.table import Event

#: Enough that no text can guess the word in the marks, which is another one each time.
_WORD_BYTES = 4

#: What is left of the time for the section and the answer after a transcript was read: half of it, on a busy machine.
_SECONDS_TO_WRITE = 2.5
#: What a model that waits for a text has if the event comes too late, on a busy machine: its host waits a second more.
_LATE_SECONDS = 0.5

Handler = Callable[[HookCall], Iterable[Answer]]

# Each part is imported when it is needed: a stop needs no search, whose modules take half of a hook's time to load.


def _introduce(call: HookCall) -> Iterator[Answer]:
    from mdrecall.hosts.start import introduce

    yield Answer(introduce(call))


def _show_memory(call: HookCall) -> Iterable[Answer]:
    from mdrecall.hosts.start import show_memory

    return show_memory(call)


def _show_fitting_notes(call: HookCall) -> Iterable[Answer]:
    """Search for a prompt, if that is switched on."""
    if not call.settings.mdrecall.hosts.prompt:
        return ()
    from mdrecall.hosts.recall import show_fitting_notes

    return show_fitting_notes(call)


def _switch(call: HookCall) -> Iterator[Answer]:
    """Switch memory off or on for a session, if the prompt says nothing else. A session that is off is forgotten."""
    from mdrecall.notes.tombstones import forget_session
    from mdrecall.sessions.own_words import find_switch

    if (switch := find_switch(call.event.prompt)) and call.event.session and not call.event.is_subagent:
        try:
            forget_session(call.settings, call.event.session, call.now, is_kept=switch == "on")
            rule = "Use no memory tools." if switch == "off" else "What was said while it was off is kept as well."
            yield Answer(f"Memory is {switch} in this session. {rule}")
        except RecallError as error:
            yield Answer(f"Memory cannot be switched {switch}, tell the user: {message_with_hint(error)}")


def _register(call: HookCall) -> Iterable[Answer]:
    """Save where the transcript is, in a moment and before anything that may take longer than there is time."""
    if call.settings.mdrecall.hosts.digest and call.event.session and not call.event.is_subagent:
        from mdrecall.hosts.digest import register_session

        register_session(call.event, call.settings)
    return ()


def _finish_earlier(call: HookCall) -> Iterable[Answer]:
    """Have the digests written that earlier sessions were cut off from. The model does not wait for that."""
    if call.settings.mdrecall.hosts.digest:
        from mdrecall.hosts.digest import finish_later

        finish_later(call.event, call.settings, call.now)
    return ()


def _start_sync(call: HookCall) -> Iterable[Answer]:
    """Have the notes synced with other machines, if that is set up. The model does not wait for it."""
    from mdrecall.sync.soon import start_soon

    start_soon(call.settings, is_news=call.event.event != "session-start")
    return ()


def _write_digest(call: HookCall) -> Iterator[Answer]:
    """Write what was added to the conversation into the note of the day. Tell the one who summarises it where it is."""
    is_summarised = call.event.event == "before-compaction" and not call.event.is_subagent
    if is_summarised:
        yield Answer("In the summary, keep names, identifiers, paths and decisions word for word.")
    if call.settings.mdrecall.hosts.digest:
        from mdrecall.hosts.digest import digest_session

        def has_time() -> bool:
            return time.monotonic() < call.deadline - _SECONDS_TO_WRITE

        note = digest_session(call.event, call.settings, call.now, has_time=has_time)
        if is_summarised and note:
            yield Answer(f"What was asked, done and decided so far is in {call.settings.workspace}/{note}.")


def _ask_about_wishes(call: HookCall) -> Iterator[Answer]:
    """Ask the host's model to confirm wishes. Only one process at a time reads and writes what was asked."""
    if not call.settings.mdrecall.hosts.flush:
        return
    from mdrecall.hosts.digest import lock_progress
    from mdrecall.hosts.wishes import ask_about_wishes

    with lock_progress(call.settings) as is_ours:
        ask = ask_about_wishes(call.event, call.settings) if is_ours else ""
    yield Answer(ask=ask)


_HANDLERS: Mapping[Event, tuple[Handler, ...]] = {
    "session-start": (_introduce, _start_sync, _register, _show_memory, _finish_earlier),
    "prompt": (_switch, _show_fitting_notes),
    "before-compaction": (_write_digest, _start_sync),
    "stop": (_write_digest, _start_sync, _ask_about_wishes),
    "session-end": (_write_digest, _start_sync),
}


# What is done even if memory is off in a session.
_KEEPING = (_switch, _register, _finish_earlier, _write_digest, _start_sync)


def answer_event(call: HookCall) -> Answer:
    """Return what all parts have to say; when the time is over, what they have said so far."""
    parts: list[Answer] = []
    worker = threading.Thread(target=_gather, args=(call, parts), name="mdrecall-hook", daemon=True)
    worker.start()
    late = _LATE_SECONDS if call.event.event in call.event.host.shapes else 0.0
    worker.join(max(late, call.deadline - time.monotonic()))
    if worker.is_alive():
        call.log("The time was over before everything was done.")
    said = list(parts)
    context = "\n\n".join(part.context.strip() for part in said if part.context.strip())
    ask = "\n\n".join(part.ask for part in said if part.ask)
    return Answer(_finish(context, call.room), _finish(ask, call.event.host.max_chars))


def _gather(call: HookCall, parts: list[Answer]) -> None:
    """Ask one part after the other; one that fails does not stop the others."""
    from mdrecall.notes.tombstones import open_masks, open_tombstones

    open_redact = cache(lambda: open_masks(call.settings).redact)
    tombstones = open_tombstones(call.settings)
    for handler in _HANDLERS.get(call.event.event, ()):
        try:
            if handler not in _KEEPING and tombstones.load().is_forgotten_session(call.event.session):
                continue
            for part in handler(call):
                # The introduction says nothing of any note, and waits for no file.
                is_fixed = handler is _introduce
                parts.append(part if is_fixed else Answer(*(text and open_redact()(text) for text in part)))
        except Exception as error:
            call.log(describe_failure(error))


def _finish(text: str, room: int) -> str:
    """Return as many whole lines of a text as there is room for, in quarters of tokens, marked as ours."""
    from mdrecall.text.markdown import quarter_tokens

    lines = text.split("\n")
    sizes = accumulate(quarter_tokens(line) + 1 for line in lines)
    return mark_memory("\n".join(lines[: sum(1 for _ in takewhile(room.__ge__, sizes))])) if text else ""


def mark_memory(text: str) -> str:
    """Return a text for the model between the marks of memory, with a new word in them."""
    from mdrecall.sessions.messages import wrap_memory

    return wrap_memory(text, os.urandom(_WORD_BYTES).hex())


def render_answer(event: HookEvent, answer: Answer) -> str:
    """Return an answer as the host reads it; empty if there is nothing to say. Codex accepts no field too many."""
    shape = event.host.shapes.get(event.event) if answer.context else None
    if shape == "text":
        return answer.context
    said: dict[str, object] = {}
    if shape == "top":
        said["additionalContext"] = answer.context
    elif shape == "specific":
        said["hookSpecificOutput"] = {"hookEventName": event.host_event, "additionalContext": answer.context}
    if answer.ask:
        said |= {"decision": event.host.refusal, "reason": answer.ask}
    return json.dumps(said) if said else ""
