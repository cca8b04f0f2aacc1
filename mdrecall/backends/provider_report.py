"""A report on every embedding provider: if it can be used here, with which model and key, and if not, why."""

from importlib.util import find_spec
from typing import NamedTuple

from mdrecall.backends.embedders import EmbedderChooser, choose_embedders
from mdrecall.backends.embedding_status import probe_embedder
from mdrecall.config.files import mask_url
from mdrecall.config.load import Loaded
from mdrecall.config.settings import PROVIDERS
from mdrecall.embed.remote.providers import PROVIDERS as REMOTE
from mdrecall.errors import ConfigError, EmbedderError, install_command, message_with_hint
from mdrecall.types import Probe

_PACKAGES = {"minilm": ("onnxruntime", "minilm"), "local": ("xllamacpp", "gguf")}
_ABOUT = {
    "offline": "included; downloads nothing and sends nothing",
    "minilm": "runs on this machine; downloads 91 MB once",
    "local": "runs a GGUF model on this machine",
}


class ProviderRow(NamedTuple):
    """What is known of one provider without a request to it."""

    name: str
    role: str
    """``used``, ``beside`` or ``fallback``; empty for the others."""
    usable: bool
    why: str
    """Why it cannot be used and what to do; or a remark."""
    model: str = ""
    where: str = ""
    key: str = ""
    """Where the key comes from, never the key."""
    probe: Probe | None = None


def report_providers(loaded: Loaded, *, probe: bool = False) -> list[ProviderRow]:
    """Return a row for every provider; with ``probe``, each usable one embeds a word."""
    search = loaded.settings.memory_search
    roles = {search.fallback: "fallback"}
    chosen = choose_embedders(loaded)
    if chosen.embedders:
        roles[chosen.embedders[0].provider] = "used"
        if chosen.beside:
            roles[chosen.beside.provider] = "beside"
    chooser = EmbedderChooser(loaded)
    owner = chooser.owner()
    names = [name for name in PROVIDERS if name != "auto"]
    return [_row(loaded, chooser, name, roles.get(name, ""), name == owner, probe) for name in names]


def _row(loaded: Loaded, chooser: EmbedderChooser, name: str, role: str, uses_remote: bool, probe: bool) -> ProviderRow:
    package, extra = _PACKAGES.get(name, ("", ""))
    if package and find_spec(package) is None:
        return ProviderRow(name, role, False, f"Install it with `{install_command(extra)}`.")
    try:
        embedder = chooser.create(name, uses_remote=uses_remote, uses_model=uses_remote)
        access = loaded.credentials.access(name, uses_remote=uses_remote) if name in REMOTE else None
    except (EmbedderError, ConfigError) as error:
        return ProviderRow(name, role, False, message_with_hint(error))
    about = _ABOUT.get(name, "")
    if access and not access.keys:
        about = "needs no key, but a running server"
    found = ProviderRow(name, role, True, about, embedder.model, key=access.key_origin if access else "")
    if access:
        found = found._replace(where=mask_url(access.base_url or REMOTE[name].url))
    try:
        return found._replace(probe=probe_embedder(embedder)) if probe else found
    finally:
        embedder.close()
