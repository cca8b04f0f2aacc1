"""Settings: what people look for with the way to change it, problems with files, and all settings."""

import json
from collections.abc import Iterator
from typing import TypeAlias

from mdrecall.config.environment import find_locations, find_program_folders, shorten
from mdrecall.config.load import Loaded, hide_secret
from mdrecall.config.settings import list_settings
from mdrecall.extras.page.html import Child, Html, cut, join, plural, separate, show_code, tag
from mdrecall.extras.page.page import THEMES, Page, Redirect, Visit, show_list
from mdrecall.types.sync import Status

#: What one reads of a list of problems, and of a value, which may be a list of hundreds of paths.
_MAX_ISSUES, _MAX_VALUE_CHARS = 20, 300
#: Embedders that work on this machine.
_LOCAL = ("offline", "local")
#: A row: its label, its value, and what it means and how to change it, with settings and commands between backticks.
Row: TypeAlias = tuple[str, Child, str]


def get_settings(visit: Visit) -> Page:
    """Return what people look for among the settings; all of them are there for the owner, below."""
    loaded, heading = visit.memory.loaded, tag("h1", "Settings")
    rows: list[Row] = [*_describe(visit), ("Look", _choose_theme(visit), "Only this browser remembers it.")]
    # Files of conversations, other programs and machines are the owner's business.
    if visit.session_key.strip() or not loaded:
        return Page("Settings", join(heading, _show_rows(rows)), "settings")
    rows += [_describe_conversations(visit), _describe_hosts(visit, loaded), _describe_machines(loaded)]
    # Anybody may edit this file, which the page itself does not write.
    file = shorten(find_locations(loaded.environment, loaded.settings.workspace).own_config, loaded.home)
    about = f"Settings are changed in `{file}`. Start the page again to see the change."
    check = "To check everything, run `mdrecall doctor`."
    issues = [f"{each.path} {each.problem}".strip() for each in visit.memory.issues()]
    more = [f"{len(issues) - _MAX_ISSUES:,} more"] if len(issues) > _MAX_ISSUES else []
    problems = show_list("Problems with files", [*issues[:_MAX_ISSUES], *more])
    where = tag("p", show_code(f"{about} {check}"), class_="quiet")
    return Page("Settings", join(heading, _show_rows(rows), where, problems, _list_all(loaded)), "settings")


def _show_rows(rows: list[Row]) -> Html:
    shown = ((tag("dt", label), tag("dd", value), tag("dd", show_code(about), class_="quiet") if about else None)
             for label, value, about in rows)  # fmt: skip
    return tag("dl", (tag("div", row) for row in shown), class_="settings")


def _choose_theme(visit: Visit) -> Html:
    links = (
        tag("strong", title) if name == visit.theme else tag("a", title, href=visit.url("theme", to=name))
        for name, title in THEMES.items()
    )
    return tag("span", separate(" · ", links))


def get_theme(visit: Visit) -> Redirect:
    """Let this browser remember whether pages are light or dark, which changes nothing in the memory."""
    return Redirect(visit.url("settings"), visit.query.get("to", ""))


def _describe(visit: Visit) -> Iterator[Row]:
    status = visit.memory.status()
    is_whole = status.custom.get("wholeFolder")
    notes = "Every Markdown file in it is a note" if is_whole else "Notes are Markdown files in it"
    about = f"{notes}; all else can be made again from them. Another one: `mdrecall ui --workspace PATH`."
    yield "Folder", tag("span", visit.folder, class_="mono"), about
    yield "Index", _describe_indexed(visit, status), "It is kept up to date while you write."
    is_local = status.provider in _LOCAL or status.requested_provider == "none"
    sent = "No text leaves this machine" if is_local else f"Texts of notes and questions are sent to {status.provider}"
    yield "Embeddings", _describe_search(status), f"{sent}. Change it with `memorySearch.provider`."
    is_offline = status.provider == "offline"
    about = "; a question in English or eight others finds notes in each" if is_offline else ""
    yield "Language", "as each note is written", f"Notes can be in any language{about}."


def _describe_conversations(visit: Visit) -> Row:
    change = "Change it with `memorySearch.sources`."
    if not visit.memory.settings.searches_sessions:
        return "Conversations", "not searched", change
    count = plural(len(visit.memory.sessions()), "conversation")
    return "Conversations", f"{count}, searched", f"What was said is found; secrets are masked. {change}"


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
    about = "Programs that read this memory, and write to it. Connect one with `mdrecall install claude-code`."
    return "Agents", ", ".join(names) or "none yet", about


def _describe_machines(loaded: Loaded) -> Row:
    """Return when this machine last shared its notes with others, and why not since."""
    from mdrecall.sync.run import MemorySync
    from mdrecall.sync.soon import age_of, describe_age, read_failure

    sync = MemorySync(loaded)
    if not sync.is_set_up:
        return "Machines", "this one only", "Several machines share one memory with `mdrecall sync`."
    age, (_, failure) = age_of(sync.folder), read_failure(sync.folder)
    said = f"synced {describe_age(age)} ago" if age < float("inf") else "not synced yet"
    return "Machines", f"{said}; {failure}" if failure else said, "What waits: `mdrecall sync status`."


def _list_all(loaded: Loaded) -> Html:
    """Return every setting with its value, without secrets, and where the value is from."""
    rows: list[Row] = []
    known = list_settings()
    for name, found in loaded.values.items():
        value = hide_secret(name, found.value)
        text = value if isinstance(value, str) else "" if value is None else json.dumps(value, ensure_ascii=False)
        about = known[name].about if name in known else ""
        about += f" From {shorten(found.origin, loaded.home)}." if found.origin != "default" else ""
        rows.append((name, cut(shorten(text, loaded.home), _MAX_VALUE_CHARS) or "not set", about.strip()))
    files = ", ".join(shorten(path, loaded.home) for path in loaded.files) or "no file; each has its default"
    said = tag("p", f"Read from: {files}.", class_="quiet")
    return tag("details", tag("summary", f"All settings ({len(rows)})"), said, _show_rows(rows), class_="all")


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
    missing = max(0, status.chunks - int(vectors.get("chunks", status.chunks)))
    waiting = f"; {plural(missing, 'chunk')} not embedded yet" if missing else ""
    if (beside := vectors.get("beside")) and beside["chunks"] < status.chunks:
        waiting += f"; {beside['provider']}: {beside['chunks']:,} of {plural(status.chunks, 'chunk')} embedded"
    return f"by words and by meaning ({status.provider}, {status.model}){waiting}"
