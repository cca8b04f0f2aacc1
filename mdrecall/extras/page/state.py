"""The state of a memory: its index, embedder and watcher, problems with files, and what agents were shown."""

import os
import re
from collections.abc import Iterator
from typing import Any

from mdrecall.errors import QueryError
from mdrecall.extras.page.page import (
    Html,
    Page,
    Redirect,
    Visit,
    hide,
    join,
    plural,
    require_owner,
    tabulate,
    tag,
)
from mdrecall.hosts.shown import Silenced, describe_log, find_line
from mdrecall.types import Issue, Status
from mdrecall.types.documents import parse_citation

#: What one reads of a list of problems.
_MAX_ISSUES = 20
#: The last sessions; `mdrecall log` prints more of them.
_MAX_SESSIONS = 5
#: No log has more lines.
_NUMBER = re.compile("[0-9]{1,9}")


def show_state(visit: Visit) -> Page:
    """Return what is indexed, how it is searched, and what is wrong."""
    rows = (
        tag("tr", tag("th", label, scope="row"), tag("td", value))
        for label, value in _describe(visit, visit.memory.status())
    )
    body = join(
        tag("h1", "State"),
        tabulate(rows),
        tag("p", "To check everything, run ", tag("code", "mdrecall doctor"), ".", class_="quiet"),
        # Files of conversations may be among them, and sessions of others.
        None if visit.session_key.strip() else join(_list_issues(visit.memory.issues()), _list_shown(visit)),
    )
    return Page("State", body, "state")


def _describe(visit: Visit, status: Status) -> Iterator[tuple[str, str]]:
    custom = status.custom
    everything = " (every Markdown file in it)" if custom.get("wholeFolder") else ""
    yield "Workspace", _shorten(visit, status.workspace_dir) + everything
    yield "Index", _shorten(visit, status.db_path)
    yield "Indexed", _describe_indexed(visit, status)
    counts = (f"{each.source}: {plural(each.files, 'file')}" for each in status.source_counts)
    yield "Sources", ", ".join(counts) or ", ".join(status.sources)
    yield "Search", _describe_search(status)
    if status.fallback:
        yield "Fallback", f"instead of {status.fallback.get('from')}: {status.fallback.get('reason')}"
    for label, key in (("Reranker", "reranker"), ("Note", "providerNote"), ("Not written", "indexNotWritten"),
                       ("A damaged index was kept at", "damagedIndexKeptAt")):  # fmt: skip
        if custom.get(key):
            yield label, str(custom[key])
    yield "Watcher", _describe_watcher(custom.get("watcher") or {})


def _shorten(visit: Visit, path: str) -> str:
    """Return a path with ``~`` for the home folder."""
    home = visit.memory.loaded.home if visit.memory.loaded else ""
    return f"~{path[len(home) :]}" if home and path.startswith(home.rstrip(os.sep) + os.sep) else path


def _describe_indexed(visit: Visit, status: Status) -> str:
    run = visit.memories.index_run(visit.name)
    state = "up to date"
    if run.is_running:
        # No name of a file: not every conversation may know those of transcripts.
        state = f"indexing {run.progress.completed:,} of {run.progress.total:,}" if run.progress else "indexing"
    elif run.problem:
        state = f"not up to date: {run.problem}"
    elif status.custom.get("filesChanged"):
        state = "files have changed; the next search indexes them"
    elif status.dirty:
        state = "some passages have no vector yet"
    return f"{plural(status.files, 'file')}, {plural(status.chunks, 'chunk')}; {state}"


def _describe_search(status: Status) -> str:
    vectors = status.vector
    if status.requested_provider == "none":
        return "by words only; embeddings are switched off"
    if not vectors.get("available"):
        return f"by words only: {vectors.get('loadError', 'there are no vectors')}"
    dims = f", {vectors['dims']} dimensions" if "dims" in vectors else ""
    missing = max(0, status.chunks - int(vectors.get("chunks", status.chunks)))
    waiting = f"; {plural(missing, 'chunk')} not embedded yet" if missing else ""
    return f"by words and by meaning ({status.provider}, {status.model}{dims}){waiting}"


def _describe_watcher(watcher: dict[str, Any]) -> str:
    if not watcher.get("running"):
        return "not running; each search checks for changes"
    said = f"process {watcher.get('pid')}, {plural(int(watcher.get('folders') or 0), 'folder')}"
    if watcher.get("healthy"):
        return said
    return f"{said}; not healthy: {watcher.get('error') or watcher.get('problem') or 'no sign of life for a while'}"


def _list_issues(issues: tuple[Issue, ...]) -> Html | None:
    if not issues:
        return None
    entries = (tag("li", f"{each.path} {each.problem}".strip()) for each in issues[:_MAX_ISSUES])
    more = len(issues) - _MAX_ISSUES
    return join(
        tag("h2", "Problems with files"),
        tag("ul", entries),
        tag("p", f"{more:,} more are not shown.", class_="quiet") if more > 0 else None,
    )


def silence(visit: Visit) -> Redirect:
    """Silence a line that an agent was shown, or let a silenced one be shown again."""
    require_owner(visit, "What agents were shown")
    silenced = Silenced(visit.memory.settings)
    if name := visit.form.get("id"):
        silenced.remove(name)
        return Redirect(visit.url("state", done="unsilenced", anchor="shown"))
    number = visit.form.get("number", "")
    citation, text = find_line(visit.memory, int(number)) if _NUMBER.fullmatch(number) else ("", "")
    if not text or citation != visit.form.get("citation"):
        raise QueryError("This line has changed since, or is no longer in the log.", hint="Load the state again.")
    silenced.add(citation, text)
    return Redirect(visit.url("state", done="silenced", anchor="shown"))


def _list_shown(visit: Visit) -> Html:
    """Return what agents were shown by themselves in the last sessions, and what is silenced."""
    silenced = Silenced(visit.memory.settings).describe(visit.memory)
    rows = [_show_place(visit, each, "Undo", id=each["id"]) for each in silenced]
    sessions = [_show_session(visit, session) for session in reversed(describe_log(visit.memory, _MAX_SESSIONS))]
    about = "At the start of a session or beside a prompt, the newest session first. Searches find silenced lines, too."
    return join(
        tag("h2", "What agents were shown", id="shown"),
        tag("p", about if sessions else "Nothing yet.", class_="quiet"),
        sessions,
        [tag("h2", "Silenced"), tag("ul", rows, class_="places")] if rows else None,
    )


def _show_session(visit: Visit, session: dict[str, Any]) -> Html:
    answers, rows = session["answers"], list[Html]()
    for answer in answers:
        facts = f" · {answer['at']} · {answer['event']} · {answer['ms']} ms · {answer['why']}".removesuffix(" · ")
        for each in answer["lines"]:
            fields = {"number": str(each["number"]), "citation": each["citation"]}
            why = each["why"] or format(each["score"], ".2f")
            rows.append(_show_place(visit, each, "Silence", f" · {why}{facts}", **fields))
    nothing = sum(answer["event"] == "prompt" and not answer["lines"] for answer in answers)
    title = f"{answers[-1]['at']} · {session['host']} · {answers[-1]['project']} · {plural(len(rows), 'line')}"
    about = f"Session {session['session']}." + (f" {plural(nothing, 'prompt')} got nothing." if nothing else "")
    lines = tag("ul", rows, class_="places") if rows else None
    return tag("details", tag("summary", title), tag("p", about, class_="quiet"), lines)


def _show_place(visit: Visit, line: dict[str, Any], action: str, facts: str = "", **fields: str) -> Html:
    """Return a line with its place, and a button if something can be done about it."""
    path, first, _ = parse_citation(line["citation"])
    view, name = ("conversation", "session") if path.startswith("sessions/") else ("note", "path")
    url = visit.url(view, **{name: path, "record" if name == "session" else "from": first})
    button = tag("span", "silenced", class_="label") if line.get("silenced") else None
    if visit.can_change and not button and (line["text"] or "id" in fields):
        button = visit.form_tag("silence", hide(**fields), tag("button", action, class_="plain"))
    text = tag("p", line["text"] or "changed since, or removed", class_="passage" if line["text"] else "quiet")
    return tag("li", tag("a", line["citation"], href=url), tag("span", facts, class_="quiet"), text, button)
