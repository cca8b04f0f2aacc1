"""Puts the parts of the qmd backend together. Those that run qmd are imported only if there is a qmd."""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from mdrecall.config.load import Loaded
from mdrecall.config.settings import Settings
from mdrecall.qmd.command import config_path, find_program, index_path, parse_command, prepare, resolve_launcher

if TYPE_CHECKING:
    from mdrecall.qmd.answers import QmdAnswers
    from mdrecall.qmd.collections import Collections
    from mdrecall.qmd.database import QmdDatabase
    from mdrecall.qmd.embedding import Embedding
    from mdrecall.qmd.export import SessionExport
    from mdrecall.qmd.paths import CollectionPaths
    from mdrecall.qmd.process import Program
    from mdrecall.qmd.status import QmdParts
    from mdrecall.qmd.tool_client import ToolClient
    from mdrecall.qmd.updater import Updater


class RunningQmd(NamedTuple):
    """The parts of the backend that run qmd."""

    program: "Program"
    collections: "Collections"
    updater: "Updater"
    answers: "QmdAnswers"
    server: "ToolClient | None"


def state_dir_of(settings: Settings) -> str:
    """Return the folder for mdrecall's own files beside the qmd index of one agent."""
    return os.path.join(settings.qmd_dir, "mdrecall")


def update_wait_ms(settings: Settings, *, one_shot: bool) -> int:
    """Return how long a search may wait for an index update before its own time limit starts."""
    if not one_shot:
        return 0
    if settings.memory.qmd.update.waits_at_start:
        from mdrecall.qmd.index_update import find_boot_limit

        return int(1000 * find_boot_limit(settings.memory.qmd.update.update_timeout_ms / 1000))
    has_index = os.path.exists(index_path(settings.qmd_dir))
    return settings.memory.qmd.limits.timeout_ms if has_index else settings.mdrecall.first_index_wait_ms


def open_parts(loaded: Loaded, watcher: Callable[[], dict[str, Any]]) -> "QmdParts":
    """Make the parts that work without a qmd; ``watcher`` returns the status of the process that watches the files."""
    from mdrecall.qmd.collection_plan import plan_collections
    from mdrecall.qmd.database import QmdDatabase
    from mdrecall.qmd.status import QmdParts, QmdStatus
    from mdrecall.sources.files import MemoryFiles

    settings = loaded.settings
    files = MemoryFiles(settings, loaded.home)
    database = QmdDatabase(index_path(settings.qmd_dir))
    collections = plan_collections(settings, loaded.home)
    paths = open_paths(settings, loaded.home)
    return QmdParts(files, collections, database, paths, QmdStatus(settings, files, collections, database, watcher))


def open_paths(settings: Settings, home: str) -> "CollectionPaths":
    """Return the files of the collections, which are read without what was forgotten."""
    from mdrecall.qmd.collection_plan import plan_collections
    from mdrecall.qmd.paths import CollectionPaths
    from mdrecall.sources.tombstones import open_tombstones

    forgotten = open_tombstones(settings)

    def mask(text: str, path: str) -> str:
        return forgotten.load().mask(text, path)

    max_bytes = settings.mdrecall.max_file_bytes
    collections = plan_collections(settings, home)
    return CollectionPaths(collections, workspace=settings.workspace, max_bytes=max_bytes, mask=mask)


def start_qmd(loaded: Loaded, one_shot: bool, find_parts: "Callable[[], QmdParts]") -> RunningQmd:
    """Make the parts that run qmd; raise ``ProgramMissing`` at once if there is none."""
    settings = loaded.settings
    env = prepare(settings.qmd_dir, loaded.environment, home=loaded.home)
    command, env = resolve_launcher(parse_command(settings.memory.qmd.command, home=loaded.home), env)
    find_program(command, env)

    from mdrecall.qmd.answers import QmdAnswers
    from mdrecall.qmd.process import Program
    from mdrecall.qmd.results import Results
    from mdrecall.qmd.search import QmdSearch
    from mdrecall.qmd.version import require_version

    parts = find_parts()
    export = open_export(loaded)
    program = Program(command, env=env)
    version_path = os.path.join(state_dir_of(settings), "version.json")

    def require(within_s: float) -> None:
        require_version(program, version_path, timeout_s=within_s)

    collections = _manage_collections(settings, program, parts, require)
    updater = _make_updater(loaded, program, collections, parts.database, export)
    server = _open_server(loaded, command, env, one_shot)
    snippet_chars = settings.memory.qmd.limits.max_snippet_chars
    results = Results(parts.paths, export, settings.memory_search.chunking, max_snippet_chars=snippet_chars)
    names = [entry.name for entry in collections.planned]
    search = QmdSearch(program, require=require, names=names, ensure=collections.ensure, server=server)
    answers = QmdAnswers(settings, parts, updater, search, results, one_shot=one_shot)
    return RunningQmd(program, collections, updater, answers, server)


def _manage_collections(
    settings: Settings, program: "Program", parts: "QmdParts", require: Callable[[float], object]
) -> "Collections":
    from mdrecall.qmd.collections import Collections

    return Collections(
        program,
        parts.collections,
        require=require,
        workspace=settings.workspace,
        database=parts.database,
        config_path=config_path(settings.qmd_dir),
        timeout_s=settings.memory.qmd.update.command_timeout_ms / 1000,
    )


def _make_updater(
    loaded: Loaded,
    program: "Program",
    collections: "Collections",
    database: "QmdDatabase",
    export: "SessionExport | None",
) -> "Updater":
    from mdrecall.qmd.index_update import IndexUpdate
    from mdrecall.qmd.process import Program
    from mdrecall.qmd.updater import Updater, UpdateRules

    settings = loaded.settings
    update = IndexUpdate(
        program,
        collections,
        export,
        state_dir=state_dir_of(settings),
        timeout_s=settings.memory.qmd.update.update_timeout_ms / 1000,
        with_config=lambda folder: Program(program.command, env={**program.env, "QMD_CONFIG_DIR": folder}),
    )
    embedding = _make_embedding(settings, program, database)
    return Updater(collections, update, embedding, UpdateRules.from_loaded(loaded))


def _make_embedding(settings: Settings, program: "Program", database: "QmdDatabase") -> "Embedding | None":
    if settings.memory.qmd.search_mode == "search":
        return None
    from mdrecall.qmd.embedding import Embedding

    update = settings.memory.qmd.update
    return Embedding(
        program,
        state_path=os.path.join(state_dir_of(settings), "embed.json"),
        lock_path=os.path.join(settings.shared_dir, "qmd-embed.lock"),
        interval_s=update.embed_interval / 1000,
        timeout_s=update.embed_timeout_ms / 1000,
        pending=database.count_unembedded,
    )


def open_export(loaded: Loaded) -> "SessionExport | None":
    """Return what exports the transcripts, if they are to be exported."""
    settings = loaded.settings
    if not settings.memory.qmd.sessions.enabled:
        return None
    from mdrecall.qmd.collection_plan import export_dir
    from mdrecall.qmd.export import SessionExport
    from mdrecall.sources.tombstones import open_masks
    from mdrecall.sources.transcripts.readers import open_transcripts

    return SessionExport(
        open_transcripts(settings),
        open_masks(settings),
        folder=export_dir(settings, loaded.home),
        state_dir=state_dir_of(settings),
        retention_days=settings.memory.qmd.sessions.retention_days,
    )


def _open_server(loaded: Loaded, command: tuple[str, ...], env: dict[str, str], one_shot: bool) -> "ToolClient | None":
    """Return the client of a server that keeps running."""
    settings = loaded.settings
    mcporter = settings.memory.qmd.mcporter
    if mcporter.enabled:
        from mdrecall.qmd.mcporter import Mcporter
        from mdrecall.qmd.process import Program

        return Mcporter(
            Program(("mcporter",), env=loaded.environment),
            server_name=mcporter.server_name,
            start_daemon=mcporter.start_daemon,
            qmd_command=command,
            qmd_env=env,
            folder=os.path.join(state_dir_of(settings), "mcporter"),
            index=index_path(settings.qmd_dir),
        )
    if one_shot or not settings.mdrecall.qmd.session:
        return None
    from mdrecall.qmd.session import Session

    return Session(command, env=env, index=index_path(settings.qmd_dir))
