"""The state of a memory: its index, embedder, watcher and disk, a check of everything, and every setting."""

import json
import os
import shutil
from collections.abc import Iterator
from itertools import islice
from typing import Any, TypeAlias

from mdrecall.config.declare import Setting, each_setting
from mdrecall.config.environment import find_locations
from mdrecall.config.load import Loaded, hide_secret
from mdrecall.config.settings import SECTIONS
from mdrecall.mcp_server.memories import IndexRun
from mdrecall.types import Issue, Status
from mdrecall.ui.page import Child, Html, Page, Redirect, Visit, join, require_owner, show_tabs, tag

#: What one reads of a list of problems.
_MAX_ISSUES = 20
#: The last lines of the log of hooks, and how much of its end is read for them.
_LOG_LINES, _LOG_BYTES = 5, 4_000
_VERDICTS = {"good": ("✓", "Works"), "note": ("!", "Note"), "wrong": ("✗", "Wrong")}


def show_state(visit: Visit) -> Page:
    """Return what is indexed, how it is searched, and what is wrong."""
    memory = visit.memory
    status = memory.status()
    rows = (tag("tr", tag("th", label, scope="row"), tag("td", value)) for label, value in _describe(visit, status))
    body = join(
        tag("h1", "State"),
        show_tabs(visit, "state"),
        tag("div", _show_run(visit), data_poll=visit.url("progress"), aria_live="polite"),
        tag("div", tag("table", tag("tbody", rows)), class_="scroll", tabindex=0),
        _show_buttons(visit) if visit.can_change else None,
        # Files of conversations may be among them.
        None if visit.session_key.strip() else _list_issues(memory.issues()),
        _list_errors(visit),
    )
    return Page("State", body, "state")


def show_progress(visit: Visit) -> Html:
    """Return how far indexing has come; a script asks for it until it has ended."""
    return _show_run(visit)


def start_index(visit: Visit) -> Redirect:
    """Bring the index up to date in the background."""
    visit.memories.start_sync(visit.name)
    return Redirect(visit.url("state", done="indexing"))


def show_doctor(visit: Visit) -> Page:
    """Check everything, the embedding provider too, and return what was found."""
    from mdrecall.doctor import examine

    served, loaded = visit.memories.describe(visit.name), visit.memory.loaded
    findings = list(
        examine(
            workspace=served.workspace,
            agent=served.loaded.settings.agent_id,
            config=served.config,
            env=loaded.environment if loaded else None,
        )
    )
    errors = sum(each.verdict == "wrong" for each in findings)
    notes = sum(each.verdict == "note" for each in findings)
    rows = (
        tag(
            "tr",
            tag("td", tag("span", _VERDICTS[each.verdict][0], aria_hidden="true"), f" {_VERDICTS[each.verdict][1]}",
                class_={"wrong": "problem", "note": "warning"}.get(each.verdict)),
            tag("th", each.check, scope="row"),
            tag("td", each.message, tag("br") if each.fix else None, tag("strong", each.fix) if each.fix else None),
        )
        for each in findings
    )  # fmt: skip
    summary = "No problems found." if not errors + notes else f"{_count(errors, 'error')}, {_count(notes, 'note')}."
    body = join(
        tag("h1", "Check"),
        show_tabs(visit, ""),
        tag("p", summary, role="status"),
        tag("div", tag("table", tag("tbody", rows)), class_="scroll", tabindex=0),
        tag("p", tag("a", "Back to the state", href=visit.url("state"))),
    )
    return Page("Check", body, "state")


def _show_run(visit: Visit) -> Html:
    run: IndexRun = visit.memories.progress(visit.name).run
    if run.is_running:
        step = run.progress
        done, total = (step.completed, step.total) if step else (0, 0)
        bar = tag("progress", value=done if total else None, max=total or None, aria_label="Indexing")
        label = f" {done:,} of {total:,}" if total else " looking for changes"
        # No name of a file: not every conversation may know those of transcripts.
        return tag("p", "Indexing: ", bar, label, data_running=True, class_="row")
    if run.problem:
        return tag("p", f"The index is not up to date: {run.problem}", class_="problem")
    if run.report is None:
        return join()
    report = run.report
    parts = [
        f"{number:,} {word}"
        for number, word in ((report.added, "added"), (report.changed, "changed"), (report.removed, "removed"))
        if number
    ]
    failed = f" {_count(len(report.failed), 'file')} could not be indexed." if report.failed else ""
    return tag("p", f"Last indexed: {', '.join(parts) or 'nothing had changed'}.{failed}", class_="quiet")


def _show_buttons(visit: Visit) -> Html:
    check = tag("button", "Check everything", class_="plain")
    return tag(
        "div",
        visit.form_tag("index", tag("button", "Index now")),
        visit.form_tag("doctor", check),
        tag("small", "The check takes some seconds and asks the embedding provider once."),
        class_="row",
    )


def _describe(visit: Visit, status: Status) -> Iterator[tuple[str, Child]]:
    custom = status.custom
    everything = " (every Markdown file in it)" if custom.get("wholeFolder") else ""
    yield "Workspace", _shorten(visit, status.workspace_dir) + everything
    yield "Index", _shorten(visit, status.db_path)
    yield "Indexed", _describe_indexed(status)
    yield "Sources", ", ".join(_describe_source(each) for each in status.source_counts) or ", ".join(status.sources)
    yield "Search", _describe_search(status)
    if status.fallback:
        yield "Fallback", f"instead of {status.fallback.get('from')}: {status.fallback.get('reason')}"
    for label, key in (("Reranker", "reranker"), ("Note", "providerNote"), ("Not written", "indexNotWritten"),
                       ("A damaged index was kept at", "damagedIndexKeptAt")):  # fmt: skip
        if custom.get(key):
            yield label, str(custom[key])
    if isinstance(custom.get("qmd"), dict):
        yield "qmd", _describe_qmd(custom["qmd"])
    yield "Watcher", _describe_watcher(custom.get("watcher") or {})
    yield "Batch jobs", _describe_batch(status.batch)
    yield "Disk", _describe_disk(visit)


def _shorten(visit: Visit, path: str) -> str:
    """Return a path with ``~`` for the home folder."""
    home = visit.memory.loaded.home if visit.memory.loaded else ""
    return f"~{path[len(home) :]}" if home and path.startswith(home.rstrip(os.sep) + os.sep) else path


def _describe_indexed(status: Status) -> str:
    state = "up to date"
    if status.custom.get("filesChanged"):
        state = "files have changed; the next search indexes them"
    elif status.dirty:
        state = "some passages have no vector yet"
    return f"{_count(status.files, 'file')}, {_count(status.chunks, 'chunk')}; {state}"


def _describe_source(each: Any) -> str:
    return f"{each.source}: {_count(each.files, 'file')}"


def _describe_search(status: Status) -> str:
    vectors = status.vector
    if status.requested_provider == "none":
        return "by words only; embeddings are switched off"
    if not vectors.get("available"):
        return f"by words only: {vectors.get('loadError', 'there are no vectors')}"
    dims = f", {vectors['dims']} dimensions" if "dims" in vectors else ""
    missing = max(0, status.chunks - int(vectors.get("chunks", status.chunks)))
    waiting = f"; {_count(missing, 'chunk')} not embedded yet" if missing else ""
    return f"by words and by meaning ({status.provider}, {status.model}{dims}){waiting}"


def _describe_qmd(qmd: dict[str, Any]) -> str:
    said = f"{qmd.get('command')}, updated {qmd.get('lastUpdateAt') or 'never'}"
    return f"{said}; {qmd['problem']}" if qmd.get("problem") else said


def _describe_watcher(watcher: dict[str, Any]) -> str:
    if not watcher.get("running"):
        return "not running; each search checks for changes"
    said = f"process {watcher.get('pid')}, {_count(int(watcher.get('folders') or 0), 'folder')}"
    if watcher.get("healthy"):
        return said
    return f"{said}; not healthy: {watcher.get('error') or watcher.get('problem') or 'no sign of life for a while'}"


def _describe_batch(batch: dict[str, Any]) -> str:
    if not batch.get("enabled"):
        return "off"
    jobs = f"{_count(int(batch.get('jobs') or 0), 'job')} running"
    return f"{jobs}; last error: {batch['lastError']}" if batch.get("lastError") else jobs


def _describe_disk(visit: Visit) -> str:
    size = sum(size for _, size in visit.memory.index_files())
    folder = os.path.dirname(visit.memory.settings.index_path)
    try:
        free = f"; {shutil.disk_usage(folder).free / 1e9:,.1f} GB free"
    except OSError:
        free = ""
    return f"{size / 1e6:,.1f} MB{free}"


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


def _list_errors(visit: Visit) -> Html | None:
    """Return the last lines of the log of hooks, which says what went wrong in coding agents."""
    loaded = visit.memory.loaded
    if loaded is None or visit.session_key.strip():
        return None
    path = find_locations(loaded.environment, loaded.settings.workspace).hook_log
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _LOG_BYTES))
            lines = file.read(_LOG_BYTES).decode("utf-8", "replace").splitlines()
    except OSError:
        return None
    entries = (tag("li", line) for line in islice(reversed(lines), _LOG_LINES) if line.strip())
    return join(tag("h2", "Last errors of hooks"), tag("ul", entries)) if lines else None


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun if number == 1 else f'{noun}s'}"


#: More settings at once make a page that nobody reads, and a heavy one.
_SHOWN = 60
ShownSetting: TypeAlias = tuple[str, Any, str, Setting]


def show_settings(visit: Visit) -> Page:
    """Return the settings that are not at their defaults, those of a section, or those that have some words."""
    require_owner(visit, "The page of settings")
    loaded = visit.memory.loaded
    if loaded is None:
        return Page(
            "Settings", join(tag("h1", "Settings"), tag("p", "This memory was opened without a file.")), "state"
        )
    every = list(_list_settings(loaded))
    words, section = visit.query.get("q", "").strip().lower(), visit.query.get("section", "")
    chosen = [each for each in every if _is_chosen(each, words, section)]
    noun = "setting" if len(chosen) == 1 else "settings"
    which = "with these words" if words else f"of {section}" if section else "not at the default"
    body = join(
        tag("h1", "Settings"),
        show_tabs(visit, "settings"),
        _explain_files(loaded),
        _choose_section(visit, every),
        tag(
            "p",
            f"{len(chosen):,} {noun} {which}." + (f" The first {_SHOWN} are shown." if len(chosen) > _SHOWN else ""),
        ),
        [_show_setting(each, loaded) for each in chosen[:_SHOWN]],
    )
    return Page("Settings", body, "state")


def _list_settings(loaded: Loaded) -> Iterator[ShownSetting]:
    """Yield the name, the value, the origin and the declaration of each setting."""
    for prefix, section in SECTIONS.items():
        for name, declared in each_setting(section, f"{prefix}."):
            if found := loaded.values.get(name):
                yield name, hide_secret(name, found.value), found.origin, declared


def _is_chosen(each: ShownSetting, words: str, section: str) -> bool:
    name, _, origin, declared = each
    if words:
        text = f"{name} {declared.about}".lower()
        return all(word in text for word in words.split())
    return name.startswith(f"{section}.") if section else origin != "default"


def _explain_files(loaded: Loaded) -> Html:
    files = ", ".join(loaded.files) or "none; every setting has its default"
    warnings = tag("ul", (tag("li", warning, class_="warning") for warning in loaded.warnings))
    return join(
        tag("p", "Settings are read here and changed in a file. Files that were read: ", tag("strong", files), "."),
        warnings if loaded.warnings else None,
    )


def _choose_section(visit: Visit, every: list[ShownSetting]) -> Html:
    sections = dict.fromkeys(_section_of(each[0]) for each in every)
    current = visit.query.get("section", "")
    links = (
        tag("a", name, href=visit.url("settings", section=name), aria_current="true" if name == current else None)
        for name in sections
    )
    field = tag("input", type="search", name="q", value=visit.query.get("q", ""), aria_label="Words of a setting")
    form = tag("form", field, tag("button", "Find"), action=visit.url("settings"), class_="row")
    return join(form, tag("nav", links, class_="years", aria_label="Sections"))


def _section_of(name: str) -> str:
    """Return the section that a setting is listed in: the first name, or two where there are very many."""
    parts = name.split(".")
    return ".".join(parts[: 2 if parts[0] in ("agents", "plugins", "memory") and len(parts) > 2 else 1])


def _show_setting(each: ShownSetting, loaded: Loaded) -> Html:
    name, value, origin, declared = each
    default = json.dumps(declared.default, ensure_ascii=False, default=str)
    return tag(
        "article",
        tag("h2", tag("code", name), class_="setting"),
        tag("p", declared.about, class_="first"),
        tag("p", tag("strong", _show_value(value)), f" from {origin}", class_="first"),
        tag(
            "details",
            tag("summary", "Change it"),
            tag("p", f"Accepts {declared.rule.accepts}; default {default}. Put this into {find_own_file(loaded)}:"),
            tag("pre", tag("code", write_setting(name, declared.default)), tabindex="0"),
        ),
        class_="panel",
    )


def _show_value(value: Any) -> str:
    return value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False, default=str)


def find_own_file(loaded: Loaded) -> str:
    """Return the path of mdrecall's own file, whether it exists or not."""
    locations = find_locations(loaded.environment, loaded.settings.workspace)
    named = loaded.environment.get("MDRECALL_CONFIG", "").strip()
    return named or locations.own_config_path or os.path.join(locations.own_state_dir, "mdrecall.json")


def write_setting(name: str, value: Any) -> str:
    """Return the text of a file that sets one setting; a value without a default is left to fill in."""
    content: Any = "…" if value is None else value
    for part in reversed(name.split(".")):
        content = {part: content}
    return json.dumps(content, ensure_ascii=False, default=str)
