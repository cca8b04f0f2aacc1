"""Put the parts of the qmd backend together."""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from mdrecall.config.load import Loaded
from mdrecall.config.settings import Settings
from mdrecall.interfaces import Backend
from mdrecall.qmd.backend import QmdBackend, RunningQmd
from mdrecall.qmd.capabilities import Capabilities, probe_capabilities
from mdrecall.qmd.collection_plan import export_dir, plan_collections
from mdrecall.qmd.collections import Collections
from mdrecall.qmd.command import config_path, index_path, parse_command, prepare, resolve_launcher
from mdrecall.qmd.database import QmdDatabase
from mdrecall.qmd.index_update import IndexUpdate
from mdrecall.qmd.paths import CollectionPaths
from mdrecall.qmd.process import Program
from mdrecall.qmd.results import Results
from mdrecall.qmd.search import QmdSearch
from mdrecall.qmd.tool_client import ToolClient
from mdrecall.qmd.updater import Updater, UpdateRules
from mdrecall.sources.files import MemoryFiles

if TYPE_CHECKING:
    from mdrecall.qmd.embedding import Embedding
    from mdrecall.qmd.export import SessionExport


def open_qmd(loaded: Loaded, builtin: Callable[[], Backend], *, one_shot: bool) -> QmdBackend:
    """Open qmd's backend for ``memory.backend = "qmd"``; ``builtin`` gives the backend that reads what qmd does not."""
    settings = loaded.settings
    state_dir = state_dir_of(settings)
    files = MemoryFiles(settings, loaded.home)
    database = QmdDatabase(index_path(settings.qmd_dir))
    collections = plan_collections(settings, loaded.home)
    export = _export(loaded, state_dir)
    max_bytes = settings.mdrecall.max_file_bytes
    places = CollectionPaths(collections, database, workspace=settings.workspace, max_bytes=max_bytes)
    limits = settings.memory.qmd.limits
    results = Results(places, export, settings.memory_search.chunking, max_snippet_chars=limits.max_snippet_chars)

    def start() -> RunningQmd:
        return _running(loaded, database, export, state_dir, one_shot)

    return QmdBackend(settings, files, collections, database, places, results, start, builtin, one_shot=one_shot)


def state_dir_of(settings: Settings) -> str:
    """The folder where mdrecall keeps its own files beside one agent's qmd index."""
    return os.path.join(settings.qmd_dir, "mdrecall")


def update_wait_ms(settings: Settings, *, one_shot: bool) -> int:
    """How long a search may wait for an index update before its own time limit starts."""
    if not one_shot:
        return 0
    has_index = QmdDatabase(index_path(settings.qmd_dir)).exists()
    return settings.memory.qmd.limits.timeout_ms if has_index else settings.mdrecall.first_index_wait_ms


def _export(loaded: Loaded, state_dir: str) -> "SessionExport | None":
    settings = loaded.settings
    if not settings.memory.qmd.sessions.enabled:
        return None
    from mdrecall.core.redact import make_redactor
    from mdrecall.qmd.export import SessionExport
    from mdrecall.sources.transcripts.readers import open_transcripts

    return SessionExport(
        open_transcripts(settings),
        make_redactor(settings.logging.redact_patterns),
        folder=export_dir(settings, loaded.home),
        state_dir=state_dir,
        retention_days=settings.memory.qmd.sessions.retention_days,
    )


def _running(
    loaded: Loaded, database: QmdDatabase, export: "SessionExport | None", state_dir: str, one_shot: bool
) -> RunningQmd:
    settings = loaded.settings
    qmd, update = settings.memory.qmd, settings.memory.qmd.update
    env = prepare(settings.qmd_dir, loaded.environment, home=loaded.home)
    command, env = resolve_launcher(parse_command(qmd.command, home=loaded.home), env)
    program = Program(command, env=env)
    collections = Collections(
        program,
        plan_collections(settings, loaded.home),
        agent_id=settings.agent_id,
        workspace=settings.workspace,
        database=database,
        config_path=config_path(settings.qmd_dir),
        timeout_s=update.command_timeout_ms / 1000,
    )
    reading = IndexUpdate(
        program,
        collections,
        export,
        state_dir=state_dir,
        timeout_s=update.update_timeout_ms / 1000,
        with_config=lambda folder: Program(command, env={**env, "QMD_CONFIG_DIR": folder}),
    )
    updater = Updater(
        collections, reading, _embedding(settings, program, database, state_dir), UpdateRules.of(settings)
    )
    server, warm = _server(loaded, command, env, state_dir, one_shot)

    def capabilities(within_s: float) -> Capabilities:
        return probe_capabilities(program, settings.qmd_dir, timeout_s=within_s)

    names = [entry.name for entry in collections.planned]
    search = QmdSearch(program, capabilities=capabilities, names=names, ensure=collections.ensure, server=server)
    return RunningQmd(program, collections, updater, search, server, warm)


def _embedding(settings: Settings, program: Program, database: QmdDatabase, state_dir: str) -> "Embedding | None":
    update = settings.memory.qmd.update
    if settings.memory.qmd.search_mode == "search":
        return None
    from mdrecall.qmd.embedding import Embedding

    return Embedding(
        program,
        state_path=os.path.join(state_dir, "embed.json"),
        lock_path=os.path.join(settings.state_dir, "qmd-embed.lock"),
        interval_s=update.embed_interval / 1000,
        timeout_s=update.embed_timeout_ms / 1000,
        pending=database.unembedded,
    )


def _server(
    loaded: Loaded, command: tuple[str, ...], env: dict[str, str], state_dir: str, one_shot: bool
) -> tuple[ToolClient | None, Callable[[], None]]:
    """What stays and is asked, and what starts it before it is."""
    settings = loaded.settings
    mcporter = settings.memory.qmd.mcporter
    if mcporter.enabled:
        from mdrecall.qmd.mcporter import DeadlineClient, Mcporter

        asked = Mcporter(
            Program(("mcporter",), env=loaded.environment),
            server_name=mcporter.server_name,
            start_daemon=mcporter.start_daemon,
            qmd_command=command,
            qmd_env=env,
            folder=os.path.join(state_dir, "mcporter"),
            index=index_path(settings.qmd_dir),
        )
        return DeadlineClient(asked), _nothing
    if one_shot or not settings.mdrecall.qmd.session:
        return None, _nothing
    from mdrecall.qmd.session import Session

    session = Session(command, env=env, index=index_path(settings.qmd_dir))
    return session, session.warm_up


def _nothing() -> None:
    """There is nothing to start."""
