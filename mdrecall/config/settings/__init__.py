"""Every setting, declared once, and the frozen value that carries them all."""

import os

from mdrecall.config.declare import section_of
from mdrecall.config.settings.mdrecall import IGNORED_FOLDERS, MdrecallSettings
from mdrecall.config.settings.memory_search import (
    DEFAULT_MODELS,
    PROVIDERS,
    Chunking,
    ExtraPath,
    MemorySearch,
    Remote,
    VectorStore,
)
from mdrecall.config.settings.openclaw import (
    DEFAULT_SCOPE,
    AgentDefaults,
    Compaction,
    DeepDreaming,
    LanceDb,
    LanceDbEmbedding,
    Logging,
    MemoryBackend,
    Plugins,
    SessionRules,
    Slots,
    StartupContext,
    ToolRules,
)
from mdrecall.named_tuple import NamedTuple

__all__ = [
    "DEFAULT_MODELS",
    "DEFAULT_SCOPE",
    "IGNORED_FOLDERS",
    "PROVIDERS",
    "SECTIONS",
    "Chunking",
    "ExtraPath",
    "LanceDb",
    "LanceDbEmbedding",
    "MemorySearch",
    "Plugins",
    "Remote",
    "SessionRules",
    "Settings",
    "Slots",
    "StartupContext",
    "ToolRules",
    "VectorStore",
]

#: Every section by the path of its settings in a configuration file.
SECTIONS = {
    "memorySearch": section_of(MemorySearch),
    "memory": section_of(MemoryBackend),
    "agents.defaults.compaction": section_of(Compaction, strict=False),
    "agents.defaults": section_of(AgentDefaults, strict=False),
    "plugins": section_of(Plugins, strict=False),
    "plugins.entries.memory-lancedb.config": section_of(LanceDb),
    "plugins.entries.memory-core.config.dreaming.phases.deep": section_of(DeepDreaming, strict=False),
    "logging": section_of(Logging, strict=False),
    "tools": section_of(ToolRules, strict=False),
    "session": section_of(SessionRules, strict=False),
    "mdrecall": section_of(MdrecallSettings),
}


class Settings(NamedTuple):
    """All settings of one agent's memory."""

    agent_id: str
    workspace: str
    index_path: str
    index_path_is_ours: bool
    """True if only mdrecall writes to the path; False if it comes from ``store.path``."""
    sessions_dir: str
    """The folder with this agent's transcripts and ``sessions.json``."""
    agent_dir: str
    """The folder with this agent's keys: ``agentDir`` of OpenClaw's configuration, else beside the transcripts."""
    session_database: str
    """The database with this agent's conversations: the one in ``agent_dir``, or where ``session.store`` says."""
    state_dir: str
    """OpenClaw's state folder; for a workspace that is not OpenClaw's, a folder of its own in mdrecall's."""
    shared_dir: str
    """OpenClaw's state folder, or mdrecall's without OpenClaw, for what belongs to an agent and not to a workspace."""
    qmd_dir: str
    """The folder with qmd's configuration, its index and the exported transcripts of this agent."""
    standalone: bool
    """True if the workspace is not one of OpenClaw's, so that a plain folder of Markdown may be the memory."""
    memory_search: MemorySearch
    memory: MemoryBackend
    compaction: Compaction
    defaults: AgentDefaults
    plugins: Plugins
    lancedb: LanceDb
    dreaming: DeepDreaming
    logging: Logging
    tools: ToolRules
    session: SessionRules
    mdrecall: MdrecallSettings

    @property
    def searches_sessions(self) -> bool:
        """True if conversations are indexed by the backend or by the one that answers for it."""
        # While qmd cannot answer, the builtin backend does.
        by_qmd = self.memory.backend == "qmd" and self.memory.qmd.sessions.enabled
        return by_qmd or "sessions" in self.memory_search.sources

    @property
    def agent_folder(self) -> str:
        """The folder for what mdrecall keeps about this agent beside what OpenClaw has."""
        return os.path.join(self.state_dir, "agents", self.agent_id)
