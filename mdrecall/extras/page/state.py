"""The state of a memory: its index, embedder, watcher and disk, and a check of everything."""

import os
import shutil
from collections.abc import Iterator
from typing import Any

from mdrecall.extras.page.page import Child, Html, Page, Redirect, Visit, join, tag
from mdrecall.mcp_server.memories import IndexRun
from mdrecall.types import Issue, Status

#: What one reads of a list of problems.
_MAX_ISSUES = 20
_VERDICTS = {"good": ("✓", "Works"), "note": ("!", "Note"), "wrong": ("✗", "Wrong")}


def show_state(visit: Visit) -> Page:
    """Return what is indexed, how it is searched, and what is wrong."""
    memory = visit.memory
    status = memory.status()
    rows = (tag("tr", tag("th", label, scope="row"), tag("td", value)) for label, value in _describe(visit, status))
    body = join(
        tag("h1", "State"),
        tag("div", _show_run(visit), data_poll=visit.url("progress"), aria_live="polite"),
        tag("div", tag("table", tag("tbody", rows)), class_="scroll", tabindex=0),
        _show_buttons(visit) if visit.can_change else None,
        # Files of conversations may be among them.
        None if visit.session_key.strip() else _list_issues(memory.issues()),
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
        tag("p", summary, role="status"),
        tag("div", tag("table", tag("tbody", rows)), class_="scroll", tabindex=0),
        tag("p", tag("a", "Back to the state", href=visit.url("state"))),
    )
    return Page("Check", body, "state")


def _show_run(visit: Visit) -> Html:
    run: IndexRun = visit.memories.index_run(visit.name)
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


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun if number == 1 else f'{noun}s'}"
