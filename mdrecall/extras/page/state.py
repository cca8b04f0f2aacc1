"""The state of a memory: its index, embedder and watcher, problems with files, and what agents were shown."""

from collections.abc import Iterator
from typing import Any

from mdrecall.config.environment import shorten
from mdrecall.extras.page.page import Html, Page, Redirect, Visit, hide, join, plural, require_owner, tabulate, tag
from mdrecall.hosts.shown import describe, list_answers, silence
from mdrecall.types.documents import Issue, parse_citation
from mdrecall.types.sync import Status

#: What one reads of a list of problems.
_MAX_ISSUES = 20
#: The last answers; `mdrecall log` prints more of them.
_MAX_ANSWERS = 20


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
    custom, loaded = status.custom, visit.memory.loaded
    folder, index = (shorten(path, loaded.home) if loaded else path for path in (status.workspace_dir, status.db_path))
    everything = " (every Markdown file in it)" if custom.get("wholeFolder") else ""
    yield "Workspace", folder + everything
    yield "Index", index
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
    if (beside := vectors.get("beside")) and beside["chunks"] < status.chunks:
        waiting += f"; {beside['provider']}: {beside['chunks']:,} of {plural(status.chunks, 'chunk')} embedded"
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


def silence_line(visit: Visit) -> Redirect:
    """Silence a line that an agent was shown, or let a silenced one be shown again."""
    require_owner(visit, "What agents were shown")
    is_silenced = silence(visit.memory.settings, visit.number("number"), visit.form.get("citation", "?"))
    return Redirect(visit.url("state", done="silenced" if is_silenced else "unsilenced", anchor="shown"))


def _list_shown(visit: Visit) -> Html:
    """Return what is silenced, and the last lines that agents were shown by themselves, the newest first."""
    shown = [answer for answer in reversed(list_answers(visit.memory.settings)) if answer["lines"]][:_MAX_ANSWERS]
    rows = [_show_line(visit, answer, line) for answer in shown for line in describe(visit.memory, answer)["lines"]]
    about = "At the start of a session or beside a prompt, the newest first. A search finds silenced lines, too."
    return join(
        tag("h2", "What agents were shown", id="shown"),
        tag("p", about if rows else "Nothing yet.", class_="quiet"),
        tag("ul", rows, class_="places") if rows else None,
    )


def _show_line(visit: Visit, answer: dict[str, Any], line: dict[str, Any]) -> Html:
    path, first, _ = parse_citation(line["citation"])
    is_said = path.startswith("sessions/")
    url = visit.url("conversation" if is_said else "note", **{"session" if is_said else "path": path, "from": first})
    facts = " · {at} · {host} · {project} · {event} · {ms} ms · {why}" if answer["host"] else " · silenced"
    button = tag("button", "Undo" if line["silenced"] else "Silence", class_="plain")
    fields = hide(number=str(line["number"]), citation=line["citation"])
    return tag(
        "li",
        tag("a", line["citation"], href=url),
        tag("span", f" · {line['why'] or line['score']}{facts.format(**answer)}".removesuffix(" · "), class_="quiet"),
        tag("p", line["text"] or "changed since, or removed", class_="passage" if line["text"] else "quiet"),
        visit.form_tag("silence", fields, button) if visit.can_change else None,
    )
