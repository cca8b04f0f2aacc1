"""The wishes in a session: what the person said becomes candidates, which the host's model is asked once to confirm."""

import os
from collections.abc import Iterable, Sequence
from typing import Any

from mdrecall import state_files
from mdrecall.config.settings import Settings
from mdrecall.errors import FileUnwritable, ReadError, message_with_hint
from mdrecall.hosts.events import HookEvent, find_log, log_problem
from mdrecall.notes.clock import user_time
from mdrecall.notes.repository import list_projects
from mdrecall.patterns import compile_later
from mdrecall.sessions.messages import NO_REPLY
from mdrecall.sessions.wishes import FoundWish, Wish, find_wishes, read_wishes, takes_back
from mdrecall.types.transcripts import TranscriptRecord

#: Candidates of a file, more than anybody confirms: the oldest go.
_MAX_CANDIDATES = 50
#: Candidates in one request, and requests of the person after which a session holds something worth keeping anyway.
_MAX_ASKED, _MANY_REQUESTS = 5, 8
#: Sessions, requests to models, and hashes of wishes that are remembered.
_MAX_SESSIONS, _MAX_REQUESTS, _MAX_KEYS = 40, 40, 5_000
_NEW_STATE: dict[str, Any] = {"known": [], "asked": [], "sessions": {}}
# An order is about the person if it says how to answer, and about the project if it names a piece of work.
_PERSONAL = compile_later(
    r"(?<!\w)(?:me|my|i|answer\w*|repl(?:y|ies)|respon[ds]\w*|expla\w*|antwort\w*|mir|mich|ich|erklar\w*|repond\w*"
    r"|expli\w*|moi|rispond\w+|spiega\w*|antwoord\w*|mij|ik)(?!\w)|回答|回复|解释|我|答え|返事|説明|私|대답|답변|설명"
)
_OF_PROJECT = compile_later(
    r"(?<!\w)(?:this|repo(?:sitory)?|project|projekt|projet|proyecto|progetto|projeto|code|commits?|tests?|branch|main)"
    r"(?!\w)|项目|仓库|提交|プロジェクト|リポジトリ|コミット|프로젝트|저장소|커밋|`|\w[/._]\w|--\w"
)
_CONFIRM = """call memory_append once with kind "wish" and, one a line and word for word, those sentences of the user
that are standing wishes beyond this task, or "none":
{}
Then """
_KEEP = f"""keep with memory_append up to five lines that a later session needs: decisions with their reasons, facts,
open tasks. Without that tool do nothing. End with {NO_REPLY} and nothing else."""


def keep_wishes(settings: Settings, session: str, folder: str, said: Sequence[TranscriptRecord]) -> None:
    """Write the wishes in what a person said in a session to their files. A file that cannot be written is logged.

    Raise ``FileChanged`` or ``FileBusy`` while somebody else writes: the caller tries again later.
    """
    now = user_time(None, None, settings.defaults.user_timezone)
    found = [(wish, record.day or f"{now:%Y-%m-%d}") for record in said for wish in find_wishes(record.text)]
    projects = list_projects(folder, settings.workspace)[:1] if folder else ()
    state = _load_state(settings)
    for project in (*projects, "") if found else ():
        own = [one for one in found if one[0].is_withdrawal or _is_personal(one[0]) != bool(project) or not projects]
        try:
            _add_candidates(settings, project, state, own)
        except (ReadError, FileUnwritable) as error:
            log_problem(find_log(os.environ, settings.workspace), now, "wishes", message_with_hint(error))
    count = state["sessions"].pop(session, 0) + len(said)
    state["sessions"] = dict([*state["sessions"].items(), (session, count)][-_MAX_SESSIONS:])
    # After the files: a process that is killed in between leaves lines that count as the person's.
    state_files.save(settings.wishes_state, state | {"known": state["known"][-_MAX_KEYS:]})


def _load_state(settings: Settings) -> dict[str, Any]:
    """Return what was written and asked, and how many requests each session had; what is damaged counts as none."""
    found = state_files.load(settings.wishes_state)
    return {name: found[name] if type(found.get(name)) is type(new) else new for name, new in _NEW_STATE.items()}


def _is_personal(wish: FoundWish) -> bool:
    """True if a wish is about the person, and so holds in every project."""
    text = wish.text.lower()
    return not _OF_PROJECT.search(text) and bool(not wish.is_order or _PERSONAL.search(text))


def _add_candidates(
    settings: Settings, project: str, state: dict[str, Any], found: Iterable[tuple[FoundWish, str]]
) -> None:
    """Add wishes of a person to the candidates of a project, and remove what they replace or take back."""
    from mdrecall.life.supersede import change_wishes
    from mdrecall.text.words import is_similar

    there, new, gone = read_wishes(settings, project), list[Wish](), set[int]()
    own = {number: wish for number, wish in there.items() if wish.key in state["known"]}
    for each, day in found:
        wish, is_old = Wish(each.text, day, False, project), takes_back if each.is_withdrawal else is_similar
        known = {*state["known"], *(other.key for other in (*there.values(), *new))}
        if each.is_withdrawal or wish.key not in known:
            # A confirmed wish stays until it is taken back, or until what replaces it is confirmed.
            changeable = (n for n, old in own.items() if each.is_withdrawal or not old.is_confirmed)
            gone.update(number for number in changeable if is_old(wish.text, own[number].text))
            new = [other for other in new if not is_old(wish.text, other.text)] + [wish] * (not each.is_withdrawal)
    oldest = [number for number, wish in own.items() if not wish.is_confirmed and number not in gone]
    removed = {number: own[number] for number in (*gone, *oldest[max(0, _MAX_CANDIDATES - len(new)) :])}
    if new or removed:
        change_wishes(settings, project, removed, new[-_MAX_CANDIDATES:][::-1])
        # What was replaced or taken back may be said again.
        again = {own[number].key for number in gone}
        state["known"] = [key for key in state["known"] if key not in again] + [wish.key for wish in new]


def ask_about_wishes(event: HookEvent, settings: Settings) -> str:
    """Return what to ask the host's model at a stop, once in a session; empty if nothing is to be asked.

    A request costs a turn, so it is recorded before it is made: one that gets lost is not repeated.
    """
    is_stop = event.event == "stop" and not event.is_stop_active and not event.is_subagent and not event.is_headless
    if not (is_stop and settings.mdrecall.hosts.flush and event.session and event.transcript):
        return ""
    state, session = _load_state(settings), f"{event.host.name} {event.session}"
    asked = {key for request in state["asked"] for _, key in request[1:]}
    projects = ("", *list_projects(event.cwd, settings.workspace)[:1])
    wishes = [wish for project in projects for wish in read_wishes(settings, project).values()]
    wishes = [wish for wish in wishes if not wish.is_confirmed and wish.key not in asked][:_MAX_ASKED]
    is_long = state["sessions"].get(session, 0) >= _MANY_REQUESTS
    if not (wishes or is_long) or any(request[0] == session for request in state["asked"]):
        return ""
    state["asked"] = [*state["asked"], [session, *((wish.project, wish.key) for wish in wishes)]][-_MAX_REQUESTS:]
    state_files.save(settings.wishes_state, state)
    confirm = _CONFIRM.format("\n".join(f"- {wish.text}" for wish in wishes)) if wishes else ""
    return f"Before you stop, {confirm}{_KEEP}"
