"""From the environment, the files and the flags to the settings of one agent.

Strongest first: overrides, flags, environment, ``mdrecall.json``, ``openclaw.json`` (an agent's own values before the
defaults for all agents), built-in defaults. This is the only reader of the environment.
"""

import os
import zlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from mdrecall.config.credentials import Credentials, agent_folder
from mdrecall.config.declare import each_setting
from mdrecall.config.locations import Places, default_workspace, expand, find_places, shorten, unread_config
from mdrecall.config.proxies import proxy_for
from mdrecall.config.read import Found, Layer, build, first_with, read_file, resolve
from mdrecall.config.settings import DEFAULT_MODELS, SECTIONS, ExtraPath, Settings
from mdrecall.errors import ConfigError, WorkspaceError, suggest_name
from mdrecall.types.agents import normal_agent_id

#: The origin of a workspace that nobody named.
HERE = "the current folder"


class Loaded(NamedTuple):
    """The settings, and for each the value in words and its origin."""

    settings: Settings
    found: Mapping[str, Found]
    files: tuple[str, ...]
    home: str
    credentials: Credentials
    hub: str
    """Where models are downloaded from."""
    proxy: Callable[[str], str | None]
    """Through which proxy an address is reached."""
    environment: Mapping[str, str]
    """What programs that are started inherit."""
    unread: str = ""
    """What to say of a file that looks like configuration and is not read."""
    default_agent: str = "main"
    """The agent that is meant when none is named."""
    plugin_configs: Mapping[str, Mapping[str, Any]] = MappingProxyType({})
    """What ``plugins.entries.<id>.config`` holds for each plugin, as it stands there."""


class _Agent(NamedTuple):
    id: str
    is_default: bool
    at: str
    file: str
    entry: dict[str, Any]


class _File(NamedTuple):
    label: str
    values: dict[str, Any]


def load(
    *,
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
    workspace: str | None = None,
    agent: str | None = None,
    config: str | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> Loaded:
    """Everything that one agent's memory needs to know; raises ``ConfigError`` with every problem at once.

    ``overrides`` are ``memorySearch`` settings by their dotted name, such as ``query.minScore``; they win over all.
    """
    above = _override_layers(overrides or {})
    env = os.environ if env is None else env
    cwd = _current_folder() if cwd is None else cwd
    places = find_places(env, cwd)
    files = _files(places, cwd, config)
    problems: list[str] = []
    agents = _agents(files, problems)
    chosen = _choose(agents, agent)
    entries = [entry for entry in agents if entry.id == chosen]
    found = _resolve_all(files, entries, above, problems)
    if problems:
        raise _config_error(problems)
    _normalise(found, places)
    standalone = not _openclaw_is_here(places, env, own_file=config is not None)
    default_agent = _default_agent(agents)
    is_default = chosen == default_agent
    space = Found(expand(workspace, places.home, cwd), "--workspace") if workspace is not None else None
    space = space or _configured_workspace(places, files, entries, is_default)
    space = space or _default_place(places, env, cwd, standalone, None if is_default else chosen)
    _must_exist(space)
    own_place = workspace is not None or standalone
    index, index_is_ours = _index_path(found, places, chosen, space.value, own_place)
    everything = {
        "agent": Found(chosen, "--agent" if agent is not None else "default"),
        "workspace": space,
        "index": index,
        **found,
    }
    state_dir = places.own_state_dir if standalone else places.state_dir
    built = {path: build(section, found, path) for path, section in SECTIONS.items()}
    settings = Settings(
        agent_id=chosen,
        workspace=space.value,
        index_path=index.value,
        index_path_is_ours=index_is_ours,
        sessions_dir=os.path.join(state_dir, "agents", chosen, "sessions"),
        state_dir=state_dir,
        qmd_dir=_qmd_dir(state_dir, chosen, index.value, index_is_ours and own_place),
        standalone=standalone,
        memory_search=built["memorySearch"],
        memory=built["memory"],
        compaction=built["agents.defaults.compaction"],
        defaults=built["agents.defaults"],
        plugins=built["plugins"],
        lancedb=built["plugins.entries.memory-lancedb.config"],
        logging=built["logging"],
        mdrecall=built["mdrecall"],
    )
    credentials = Credentials(
        env,
        [file.values for file in files],
        agent_dir=_agent_dir(places, chosen, entries),
        home=places.home,
        remote=settings.memory_search.remote,
    )
    hub = env.get("HF_ENDPOINT", "").strip().rstrip("/") or "https://huggingface.co"
    labels, unread = tuple(file.label for file in files), "" if config else unread_config(places, space.value)
    return Loaded(settings, everything, labels, places.home, credentials, hub, lambda url: proxy_for(url, env),
                  env, unread, default_agent, _plugin_configs(files))  # fmt: skip


def _plugin_configs(files: list[_File]) -> dict[str, Mapping[str, Any]]:
    """The configuration of every plugin, from the strongest file that has one for it."""
    found: dict[str, Mapping[str, Any]] = {}
    for layer in _layers(files, "plugins.entries", []):
        for name, entry in layer.values.items() if isinstance(layer.values, dict) else ():
            config = entry.get("config") if isinstance(entry, dict) else None
            if isinstance(config, dict):
                found.setdefault(name.strip(), config)
    return found


def agent_ids(
    *,
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
    config: str | None = None,
    workspace: str | None = None,
) -> list[str]:
    """Every configured agent, the default one first; only that one if a workspace is named."""
    env = os.environ if env is None else env
    cwd = _current_folder() if cwd is None else cwd
    problems: list[str] = []
    agents = _agents(_files(find_places(env, cwd), cwd, config), problems)
    default = _default_agent(agents)
    return [default] if workspace is not None else list(dict.fromkeys([default, *(agent.id for agent in agents)]))


def _current_folder() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:
        return os.sep


def is_secret(name: str) -> bool:
    """Whether a setting, by its full name, must not be shown."""
    return any(
        setting.secret
        for prefix, section in SECTIONS.items()
        for leaf, setting in each_setting(section, f"{prefix}.")
        if leaf == name
    )


def _agent_dir(places: Places, agent_id: str, entries: list[_Agent]) -> str:
    default = os.path.join(places.state_dir, "agents", agent_id, "agent")
    return agent_folder((entry.entry for entry in entries), default, places.home, places.state_dir)


def _files(places: Places, cwd: str, config: str | None) -> list[_File]:
    paths = [places.own_config_path, places.config_path] if config is None else [expand(config, places.home, cwd)]
    return [_File(shorten(path, places.home), read_file(path)) for path in paths if path]


def _config_error(problems: list[str]) -> ConfigError:
    message = problems[0]
    if len(problems) > 1:
        message += f" ({len(problems) - 1} more)"
    hint = "Mend the file; `mdrecall config check` lists every problem, `mdrecall config schema` every setting."
    return ConfigError(message, hint=hint, problems=tuple(problems))


def _agents(files: list[_File], problems: list[str]) -> list[_Agent]:
    """Every agent entry, those of the strongest file first."""
    agents: list[_Agent] = []
    for file in files:
        group = _object(file, "agents", file.values.get("agents"), problems)
        listed = group.get("list", [])
        if not isinstance(listed, list):
            problems.append(f"{file.label}: agents.list must be a list.")
            listed = []
        entries: list[tuple[str, Any, str | None]] = [
            (f"agents.list[{index}]", entry, None) for index, entry in enumerate(listed)
        ]
        mapped = _object(file, "agents.entries", group.get("entries"), problems)
        entries += [(f"agents.entries.{name}", entry, name) for name, entry in mapped.items()]
        for at, entry, name in entries:
            entry = _object(file, at, entry, problems)
            agent_id = normal_agent_id(str(name if name is not None else entry.get("id") or ""))
            agents.append(_Agent(agent_id, entry.get("default") is True, at, file.label, entry))
    return agents


def _default_agent(agents: list[_Agent]) -> str:
    """The agent that says so, else the first one; what lies over OpenClaw's file does not come before it."""
    chosen = next((agent.id for agent in agents if agent.is_default), None)
    if chosen is None and agents:
        weakest = agents[-1].file
        chosen = next(agent.id for agent in agents if agent.file == weakest)
    return chosen or "main"


def _choose(agents: list[_Agent], wanted: str | None) -> str:
    default = _default_agent(agents)
    if wanted is None:
        return default
    known = dict.fromkeys([default, *(agent.id for agent in agents)])
    if normal_agent_id(wanted) not in known:
        raise ConfigError(f"There is no agent {wanted!r}{suggest_name(wanted, known)}.", hint="Name one with --agent.")
    return normal_agent_id(wanted)


def _override_layers(overrides: Mapping[str, Any]) -> list[Layer]:
    """Each override as a layer of its own, the last one strongest; all of them are checked before any file is read."""
    layers: list[Layer] = []
    for name, value in overrides.items():
        for part in reversed(name.split(".")):
            value = {part: value}
        layers.insert(0, Layer("override", "memorySearch", value))
    problems: list[str] = []
    resolve(SECTIONS["memorySearch"], layers[::-1], "memorySearch", problems)
    if problems:
        hint = "docs/config.md and `mdrecall config schema` list every setting and what it takes."
        raise ConfigError(problems[0], hint=hint, problems=tuple(problems))
    return layers


def _resolve_all(
    files: list[_File], entries: list[_Agent], above: list[Layer], problems: list[str]
) -> dict[str, Found]:
    own = [_agent_layers(file, entries, problems) for file in files]
    shared = [_default_layers(file, problems) for file in files]
    by_file = [layer for pair in zip(own, shared, strict=True) for layers in pair for layer in layers]
    found = resolve(SECTIONS["memorySearch"], above + by_file, "memorySearch", problems)
    replaced = first_with(above, SECTIONS["memorySearch"], "extraPaths")
    found["memorySearch.extraPaths"] = _extra_paths([above] if replaced else [*reversed(shared), *reversed(own)])
    found |= resolve(SECTIONS["memory"], _memory_layers(files, problems), "memory", problems)
    for path in list(SECTIONS)[2:]:
        found |= resolve(SECTIONS[path], _layers(files, path, problems), path, problems)
    return found


def _agent_layers(file: _File, entries: list[_Agent], problems: list[str]) -> list[Layer]:
    """What a file sets for one agent, the newer place first."""
    layers: list[Layer] = []
    for entry in entries:
        if entry.file == file.label:
            inside = _File(entry.file, entry.entry)
            for path in ("memory.search", "memorySearch"):
                layers += _layers([inside], path, problems, entry.at)
    return layers


def _default_layers(file: _File, problems: list[str]) -> list[Layer]:
    """What a file sets for all agents, the newest place first, the legacy one last."""
    places = ("memory.search", "agents.defaults.memorySearch", "memorySearch")
    return [layer for path in places for layer in _layers([file], path, problems)]


def _memory_layers(files: list[_File], problems: list[str]) -> list[Layer]:
    """The ``memory`` objects without ``search``, which is read as part of the search settings."""
    return [
        layer._replace(values={name: value for name, value in layer.values.items() if name != "search"})
        for layer in _layers(files, "memory", problems)
        if isinstance(layer.values, dict)
    ]


def _layers(files: list[_File], path: str, problems: list[str], under: str = "") -> list[Layer]:
    """The object at a dotted path in every file that has it."""
    layers: list[Layer] = []
    *groups, last = path.split(".")
    for file in files:
        values: Any = file.values
        for depth, name in enumerate(groups):
            at = ".".join(groups[: depth + 1])
            values = _object(file, f"{under}.{at}".lstrip("."), values.get(name), problems)
        at = f"{under}.{path}".lstrip(".")
        if last in values and f"{file.label}: {at} must be an object." not in problems:
            layers.append(Layer(file.label, at, values[last]))
    return layers


def _object(file: _File, at: str, value: Any, problems: list[str]) -> dict[str, Any]:
    if value is None:
        return {}
    if isinstance(value, dict):
        return value
    problem = f"{file.label}: {at} must be an object."
    if problem not in problems:
        problems.append(problem)
    return {}


def _extra_paths(groups: list[list[Layer]]) -> Found:
    """The extra paths of every group of layers, one after the other; in a group the first layer that has any wins."""
    paths: dict[ExtraPath, None] = {}
    origins: list[str] = []
    for layers in groups:
        layer = first_with(layers, SECTIONS["memorySearch"], "extraPaths")
        for item in layer.value if layer else ():
            path = item if isinstance(item, str) else item["path"]
            entry = ExtraPath(path.strip(), None if isinstance(item, str) else item.get("pattern"))
            if entry.path:
                paths.setdefault(entry)
        origins += [layer.origin] if layer else []
    return Found(tuple(paths), ", ".join(origins) or "default")


def _normalise(found: dict[str, Found], places: Places) -> None:
    """The rules that look at two settings at once."""

    def put(name: str, value: Any) -> None:
        found[name] = found[name]._replace(value=value)

    def get(name: str) -> Any:
        return found[name].value

    put(
        "memorySearch.chunking.overlap",
        min(get("memorySearch.chunking.overlap"), get("memorySearch.chunking.tokens") - 1),
    )
    hybrid = "memorySearch.query.hybrid."
    vector, words = get(hybrid + "vectorWeight"), get(hybrid + "textWeight")
    total = vector + words
    put(hybrid + "vectorWeight", vector / total if total else 0.35)
    put(hybrid + "textWeight", words / total if total else 0.65)
    allowed = ("memory", "sessions") if get("memorySearch.experimental.sessionMemory") else ("memory",)
    sources = tuple(dict.fromkeys(name for name in get("memorySearch.sources") if name in allowed))
    put("memorySearch.sources", sources or ("memory",))
    if extension := get("memorySearch.store.vector.extensionPath"):
        put("memorySearch.store.vector.extensionPath", expand(extension, places.home, places.state_dir))
    if not get("memorySearch.model").strip():
        put("memorySearch.model", DEFAULT_MODELS.get(get("memorySearch.provider"), ""))


def _openclaw_is_here(places: Places, env: Mapping[str, str], own_file: bool) -> bool:
    """Whether there is an OpenClaw to go by; its configuration does not count when another file is named."""
    return (places.config_path is not None and not own_file) or os.path.isdir(default_workspace(places, env))


def _configured_workspace(places: Places, files: list[_File], entries: list[_Agent], is_default: bool) -> Found | None:
    named = [(entry.entry, f"{entry.file}: {entry.at}.workspace") for entry in entries]
    if is_default:
        layers = _layers(files, "agents.defaults", [])
        named += [(layer.values, f"{layer.file}: {layer.at}.workspace") for layer in layers]
    for values, origin in named:
        path = values.get("workspace") if isinstance(values, dict) else None
        if path is not None and not isinstance(path, str):
            raise ConfigError(f"{origin} must be a text.", hint="Name a folder.")
        if path and (bare := path.replace("\0", "").strip()):
            return Found(expand(bare, places.home, places.state_dir), origin)
    return None


def _default_place(
    places: Places, env: Mapping[str, str], cwd: str, standalone: bool, other_agent: str | None
) -> Found:
    if standalone:
        return Found(cwd, HERE)
    if other_agent:
        return Found(os.path.join(places.state_dir, f"workspace-{other_agent}"), "default")
    return Found(default_workspace(places, env), "default")


def _must_exist(found: Found) -> None:
    path = found.value
    if "\0" in path or not os.path.exists(path):
        hint = "Create it, or name another folder with --workspace."
        raise WorkspaceError(f"There is no workspace folder {path!r} (from {found.origin}).", hint=hint)
    if not os.path.isdir(path):
        hint = "Name the folder that holds MEMORY.md or memory/, not a file."
        raise WorkspaceError(f"The workspace {path!r} is not a folder (from {found.origin}).", hint=hint)


def _index_path(
    found: Mapping[str, Found], places: Places, agent_id: str, workspace: str, own_place: bool
) -> tuple[Found, bool]:
    configured = found["memorySearch.store.path"]
    if configured.value is not None and configured.value.strip():
        path = configured.value.replace("{agentId}", agent_id).replace("\0", "")
        return Found(expand(path, places.home, places.state_dir), configured.origin), False
    if not own_place and os.path.isdir(places.state_dir):
        return Found(os.path.join(places.state_dir, "memory", f"{agent_id}.mdrecall.sqlite"), "default"), True
    real = os.path.realpath(workspace)
    digest = f"{zlib.crc32(os.fsencode(real)):08x}"
    name = "".join(char if char.isalnum() or char in "._-" else "-" for char in os.path.basename(real))[:40]
    whose = "" if agent_id == "main" else f"-{agent_id}"
    file = f"{name or 'root'}-{digest}{whose}.sqlite"
    return Found(os.path.join(places.own_state_dir, "index", file), "default"), True


def _qmd_dir(state_dir: str, agent_id: str, index_path: str, own_place: bool) -> str:
    """OpenClaw's place for the agent; a workspace that was named by hand has one of its own beside its index."""
    if own_place:
        return index_path.removesuffix(".sqlite") + ".qmd"
    return os.path.join(state_dir, "agents", agent_id, "qmd")
