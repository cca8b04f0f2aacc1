"""Settings: the folder, how it is searched, who is connected, problems with files, and the look of the page."""

import json
import os
from collections.abc import Iterator
from typing import Any, TypeAlias

from mdrecall.config.environment import find_locations, find_program_folders, shorten
from mdrecall.config.load import Loaded, hide_secret
from mdrecall.config.settings import list_settings
from mdrecall.extras.page.markdown import cut
from mdrecall.extras.page.page import THEMES, Child, Html, Page, Redirect, Visit, join, plural, tag
from mdrecall.types.documents import Issue
from mdrecall.types.sync import Status

#: What one reads of a list of problems.
_MAX_ISSUES = 20
#: A value may be a list of hundreds of paths.
_MAX_VALUE_CHARS = 300
#: Embedders that work on this machine.
_LOCAL = ("offline", "local")
#: A row: its label, its value, and a sentence that says what it means.
Row: TypeAlias = tuple[str, Child, str]


def show_settings(visit: Visit) -> Page:
    """Return what people look for among the settings; all of them are there for the owner, below."""
    status, loaded = visit.memory.status(), visit.memory.loaded
    # Files of conversations, other programs and machines are the owner's business.
    is_owner = not visit.session_key.strip()
    rows = [*_describe(visit, status)]
    if is_owner and loaded:
        rows += [_describe_conversations(visit), _describe_hosts(visit, loaded), _describe_machines(visit, loaded)]
    rows.append(("Look", _choose_theme(visit), "This browser remembers it."))
    lines = {
        label: (tag("dd", value), tag("dd", about, class_="quiet") if about else None) for label, value, about in rows
    }
    body = join(
        tag("h1", "Settings"),
        tag("dl", (tag("div", tag("dt", label), *values) for label, values in lines.items()), class_="settings"),
        _list_issues(visit.memory.issues()) if is_owner else None,
        tag("p", "To check everything, run ", tag("code", "mdrecall doctor"), ".", class_="quiet"),
        _list_all(loaded) if is_owner and loaded else None,
    )
    return Page("Settings", body, "settings")


def _choose_theme(visit: Visit) -> Html:
    current, themes = {visit.theme: "true"}, THEMES.items()
    links = (
        tag("a", title, href=visit.url("theme", to=name), aria_current=current.get(name)) for name, title in themes
    )
    return tag("span", links, class_="choices")


def choose_theme(visit: Visit) -> Redirect:
    """Let this browser remember if pages are light or dark. That changes nothing of the memory."""
    return Redirect(visit.url("settings"), visit.query.get("to", ""))


def _describe(visit: Visit, status: Status) -> Iterator[Row]:
    custom, loaded = status.custom, visit.memory.loaded
    folder, index = (shorten(path, loaded.home) if loaded else path for path in (status.workspace_dir, status.db_path))
    which = "Your notes are Markdown files in it"
    which = "Every Markdown file in it is a note" if custom.get("wholeFolder") else which
    yield "Folder", tag("span", folder, class_="mono"), f"{which}; all else can be made again from them."
    is_local = status.provider in _LOCAL or status.requested_provider == "none"
    sent = f"Texts of notes and questions are sent to {status.provider}."
    sent = "No text leaves this machine." if is_local else sent
    yield "Search", _describe_search(status), sent
    counts = (f"{each.source}: {plural(each.files, 'file')}" for each in status.source_counts)
    sources = ", ".join(counts) or ", ".join(status.sources)
    yield "Index", _describe_indexed(visit, status), f"It is in {index} ({sources})."
    if status.fallback:
        yield "Fallback", f"instead of {status.fallback.get('from')}: {status.fallback.get('reason')}", ""
    for label, key in (("Reranker", "reranker"), ("Note", "providerNote"), ("Not written", "indexNotWritten"),
                       ("A damaged index was kept at", "damagedIndexKeptAt")):  # fmt: skip
        if custom.get(key):
            yield label, str(custom[key]), ""
    yield "Watcher", _describe_watcher(custom.get("watcher") or {}), "It notices a note that is saved at once."


def _describe_conversations(visit: Visit) -> Row:
    if not visit.memory.settings.searches_sessions:
        return "Conversations", "not searched", "To search them, set memorySearch.sources to memory and sessions."
    count = plural(len(visit.memory.sessions()), "conversation")
    return "Conversations", f"searched: {count}", "What you and agents have said is found, too; secrets are masked."


def _describe_hosts(visit: Visit, loaded: Loaded) -> Row:
    """Return the agents that mdrecall is installed in for this memory."""
    from mdrecall.hosts.install import list_installed

    env, folder = loaded.environment, loaded.settings.workspace
    sites = list_installed(find_program_folders(env, folder), find_locations(env, folder).own_state_dir)
    names = [
        f"{site.host} in {shorten(site.project, loaded.home)}" if site.scope == "project" else site.host
        for site in sites
        if site.options.get("memory", loaded.settings.agent_folder) == loaded.settings.agent_folder
    ]
    value = ", ".join(names) or join("none yet; ", tag("code", "mdrecall install claude-code"), " connects one")
    return "Agents", value, "Programs that read this memory, and write to it."


def _describe_machines(visit: Visit, loaded: Loaded) -> Row:
    """Return the machines that share the notes, when they did last, and what waits."""
    from mdrecall.sync.git import hide_password
    from mdrecall.sync.run import MemorySync
    from mdrecall.sync.soon import PAUSED, age_of, describe_age, read_failure

    sync = MemorySync(loaded)
    if not sync.is_set_up:
        return "Machines", "this one only", "With mdrecall sync, several machines share one memory."
    age, (_, failure) = age_of(sync.folder), read_failure(sync.folder)
    waiting = sum(visit.now.timestamp() - note.changed_s < age for note in visit.memory.notes())
    lines = [
        f"synced {describe_age(age)} ago" if age < float("inf") else "not synced yet",
        f"{plural(waiting, 'note')} changed here since" if waiting else "",
        "paused" if os.path.exists(os.path.join(sync.folder, PAUSED)) else "",
        f"the last sync failed: {failure}" if failure else "",
        *(f"{each['name']}{', this one' * each['isThis']}: {each['day']}" for each in sync.list_machines()),
    ]
    where = shorten(hide_password(sync.state["url"]), loaded.home)
    return "Machines", tag("ul", (tag("li", line) for line in lines if line)), f"They share their notes over {where}."


def _list_all(loaded: Loaded) -> Html:
    """Return every setting with its value, without secrets, and where the value is from."""
    rows = []
    about = list_settings()
    for name, found in loaded.values.items():
        value = hide_secret(name, found.value)
        text = value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)
        text = cut(shorten(text, loaded.home), _MAX_VALUE_CHARS)
        meaning = tag("div", about[name].about, class_="quiet") if name in about else None
        origin = tag("td", found.origin, class_="quiet" if found.origin == "default" else None)
        rows.append(tag("tr", tag("td", tag("code", name), meaning), tag("td", text), origin))
    head = tag("thead", tag("tr", (tag("th", title, scope="col") for title in ("Setting", "Value", "From"))))
    files = ", ".join(shorten(path, loaded.home) for path in loaded.files) or "no file; each has its default"
    said = tag("p", f"Change them in a configuration file. Read: {files}.", class_="quiet")
    table = tag("div", tag("table", head, tag("tbody", rows)), class_="scroll", tabindex=0)
    return tag("details", tag("summary", f"All settings ({len(rows)})"), said, table, class_="all")


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
    entries = [tag("li", f"{each.path} {each.problem}".strip()) for each in issues[:_MAX_ISSUES]]
    if more := len(issues) - len(entries):
        entries.append(tag("li", f"{more:,} more", class_="quiet"))
    return join(tag("h2", "Problems with files"), tag("ul", entries)) if issues else None
