"""Where the memories are kept and who embeds them, from the settings."""

import os

from mdrecall.backends.embedders import EmbedderChooser, choose_embedders
from mdrecall.config.load import Loaded
from mdrecall.config.locations import expand
from mdrecall.config.references import References, UnresolvedValue
from mdrecall.errors import ConfigError, PluginError
from mdrecall.interfaces import Embedder
from mdrecall.plugins.lancedb.extra import PLUGIN

PLACE = f"plugins.entries.{PLUGIN}.config"
_OPENAI = "https://api.openai.com"


def db_uri(loaded: Loaded) -> str:
    """A path, or the address of an object store as it is; by default ``<state folder>/memory/lancedb``."""
    named = loaded.settings.lancedb.db_path
    if named is None or not named.strip():
        return os.path.join(loaded.settings.state_dir, "memory", "lancedb")
    try:
        path = References(loaded.environment, (), loaded.home).text(named, f"{PLACE}.dbPath")
    except UnresolvedValue as reason:
        raise ConfigError(str(reason), hint="Mend it in the configuration file.") from None
    return path if "://" in path else expand(path, loaded.home, loaded.settings.state_dir)


def has_own_embedder(loaded: Loaded) -> bool:
    """Whether the plugin's configuration says who embeds, as OpenClaw's always does."""
    names = ("apiKey", "model", "baseUrl", "dimensions")
    return any(loaded.values[f"{PLACE}.embedding.{name}"].origin != "default" for name in names)


def ltm_embedder(loaded: Loaded) -> Embedder:
    """The embedder of the plugin's own configuration, else the one of ``memorySearch``, which is offline by default."""
    if has_own_embedder(loaded):
        return _own(loaded)
    chosen = choose_embedders(loaded)
    if not chosen.embedders:
        hint = f"Set memorySearch.provider, or {PLACE}.embedding."
        raise PluginError(f"There is no embedder for memories: {chosen.unusable_reason}", plugin=PLUGIN, hint=hint)
    return chosen.embedders[0]


def _own(loaded: Loaded) -> Embedder:
    own = loaded.settings.lancedb.embedding
    search = loaded.settings.memory_search
    key = own.api_key.reveal() if own.api_key else None
    remote = search.remote._replace(base_url=own.base_url, api_key=key, headers={})
    # A server of one's own needs no key, and must not get that of OpenAI.
    provider = "openai-compatible" if own.base_url and not own.base_url.startswith(_OPENAI) else "openai"
    search = search._replace(
        provider=provider, model=own.model, remote=remote, output_dimensionality=own.dimensions, fallback="none"
    )
    settings = loaded.settings._replace(memory_search=search)
    credentials = loaded.credentials.with_remote(remote, f"{PLACE}.embedding")
    chooser = EmbedderChooser(loaded._replace(settings=settings, credentials=credentials))
    return chooser.create(provider, uses_remote=True, uses_model=True)
