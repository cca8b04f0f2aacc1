"""From the environment, the files and the caller's arguments to the settings of one agent.

Strongest first: overrides, arguments, environment, ``mdrecall.json``, ``openclaw.json`` (an agent's own values before
the defaults for all agents), built-in defaults. This is the only reader of the environment.
"""

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from mdrecall.config.credentials import Credentials
from mdrecall.config.environment import Locations, expand, explain_unread_config, find_locations, list_env_files
from mdrecall.config.files import mask_url, read_files, read_variables, substitute
from mdrecall.config.layers import (
    AgentEntry,
    Layer,
    agent_default_layers,
    agent_layers,
    build,
    choose_agent,
    default_agent,
    default_layers,
    layers_at,
    look_up,
    read_agents,
    resolve,
)
from mdrecall.config.openclaw_file import list_unused, translate_providers
from mdrecall.config.settings import DEFAULT_MODELS, SECTIONS, ResolvedValue, Settings, Values, list_settings
from mdrecall.config.workspace import (
    HOSTS_FILE,
    Workspace,
    WorkspaceRequest,
    find_agent_folder,
    find_agent_folders,
    find_workspace,
)
from mdrecall.errors import ConfigError, suggest_name

#: Everything that is read from a configuration file.
_TOP_LEVEL = (
    "memorySearch", "memory", "mdrecall", "agents", "plugins", "models", "env", "auth", "secrets", "logging", "tools",
    "session", "bindings",
)  # fmt: skip

_HINT = "docs/settings.md lists every setting and what it accepts."

#: The variable that names the shared database, which wins over the setting.
STORE_DSN = "MDRECALL_STORE_DSN"


class Loaded(NamedTuple):
    """The settings of one agent, and everything else that was read with them."""

    settings: Settings
    values: Values
    layers: tuple[Layer, ...]
    """The configuration files, strongest first."""
    home: str
    credentials: Credentials
    environment: Mapping[str, str]
    """The variables that child processes inherit: those of this process, then those that the configuration adds."""
    is_elsewhere: bool = False
    """True if the caller neither named the workspace nor is in it: then an answer says whose memory it is from."""
    default_agent: str = "main"
    """The agent to use when none is named."""
    warnings: tuple[str, ...] = ()
    """Everything that is ignored, and why: settings in OpenClaw's own file, and files that are not read."""
    outdated: tuple[str, ...] = ()
    """The warnings about settings of an older version, which are ignored; a check reports them as errors."""
    problem: str = ""
    """The warning that OpenClaw's own file could not be read; empty if it was."""
    keeps_conversations: bool = False
    """True if no setting asks for conversations: then no server gets any, nor what is typed to a coding agent."""

    @property
    def files(self) -> tuple[str, ...]:
        """The paths of the configuration files."""
        return tuple(dict.fromkeys(layer.file for layer in self.layers))

    @property
    def unused(self) -> tuple[str, ...]:
        """The keys of the files that are accepted and not used."""
        return tuple(dict.fromkeys(name for layer in self.layers for name in list_unused(layer.values)))

    @property
    def hub(self) -> str:
        """The address that models are downloaded from."""
        return self.environment.get("HF_ENDPOINT", "").strip().rstrip("/") or "https://huggingface.co"

    @property
    def shared_store(self) -> tuple[str, str] | None:
        """The database that holds the index, as it is configured, and its name there; None if it is in a file."""
        store, dsn = self.settings.mdrecall.store, self.environment.get(STORE_DSN, "").strip()
        if store.kind != "postgres" and not dsn:
            return None
        # Folders of other names are other memories, also if one agent has them.
        folder = os.path.basename(os.path.realpath(self.settings.workspace))
        return dsn or repr(store.dsn), store.workspace.strip() or f"{self.settings.agent_id}/{folder}"


def load(
    *,
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
    workspace: str | None = None,
    agent: str | None = None,
    config: str | None = None,
    overrides: Mapping[str, Any] | None = None,
    is_automatic: bool = False,
) -> Loaded:
    """Load everything that one agent's memory needs; raise ``ConfigError`` with every problem at once.

    ``is_automatic`` says that a program asks and not a person: it gets the agent's own workspace, even in a folder with
    notes.
    ``overrides`` are ``memorySearch`` settings by their dotted name, such as ``query.minScore``; they win over all.
    """
    above = _override_layers(overrides or {})
    env = os.environ if env is None else env
    cwd = find_current_folder() if cwd is None else cwd
    locations = find_locations(env, cwd)
    files = read_files(locations, env, cwd, config)
    env_files = list_env_files(locations) if config is None else ()
    variables, env_warnings = read_variables(env, [file.values for file in files], env_files)
    # OpenClaw's file is read as OpenClaw reads it.
    files = [file._replace(values=substitute(file.values, variables)) if file.is_lenient else file for file in files]
    problems = _list_misspelled(files)
    agents = read_agents(files, problems)
    unread = [file.problem for file in files if file.problem]
    chosen = choose_agent(agents, agent, unread)
    entries = [entry for entry in agents if entry.id == chosen]
    outdated: list[str] = []
    values, aliases, warnings = _resolve_all(files, entries, above, problems, outdated)
    errors, ignored = _split_problems(problems, files)
    _raise_if_any(errors, "Fix the file; ")
    warnings = unread + env_warnings + outdated + warnings + ignored
    is_named = "sessions" in Values(values)["memorySearch.sources"].value
    _normalise(values, locations, files)
    is_named = is_named or "sessions" in values["memorySearch.sources"].value
    aliases = _apply_aliases(values, aliases, warnings)
    default = default_agent(agents)
    request = WorkspaceRequest(locations, env, cwd, files, entries, chosen, chosen == default,
                               agent is not None or is_automatic, workspace, config)  # fmt: skip
    found = find_workspace(request, Values(values)["memorySearch.store.path"])
    _add_hosts(values, os.path.join(found.state_dir, "agents", chosen, HOSTS_FILE))
    settings = _build_settings(values, entries, locations, chosen, found)
    agent_dir = os.path.join(locations.state_dir, "agents", chosen, "agent")
    agent_dir = find_agent_folder((entry.values for entry in entries), agent_dir, locations.home, locations.state_dir)
    parsed, remote = [file.values for file in files], settings.memory_search.remote
    credentials = Credentials(
        variables, parsed, agent_dir=agent_dir, home=locations.home, remote=remote, aliases=aliases
    )
    if not config and (misplaced := explain_unread_config(locations, settings.workspace)):
        warnings.insert(0, misplaced)
    agent_value = ResolvedValue(chosen, "--agent" if agent is not None else "default")
    return Loaded(
        settings=settings,
        values=Values({"agent": agent_value, "workspace": found.folder, "index": found.index_path, **values}),
        layers=tuple(files),
        home=locations.home,
        credentials=credentials,
        environment=variables,
        is_elsewhere=found.is_elsewhere,
        default_agent=default,
        warnings=tuple(dict.fromkeys(warnings)),
        outdated=tuple(outdated),
        problem=unread[0] if unread else "",
        keeps_conversations=not is_named,
    )


def list_agent_ids(
    *,
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
    config: str | None = None,
    workspace: str | None = None,
) -> list[str]:
    """Return every configured agent, the default one first; only that one if a workspace is given."""
    env = os.environ if env is None else env
    cwd = find_current_folder() if cwd is None else cwd
    agents = read_agents(read_files(find_locations(env, cwd), env, cwd, config), problems=[])
    default = default_agent(agents)
    return [default] if workspace is not None else list(dict.fromkeys([default, *(agent.id for agent in agents)]))


def hide_secret(name: str, value: Any) -> Any:
    """Return the value of a setting as it may be shown, in the form of JSON: secrets and passwords are masked."""
    from mdrecall.wire import to_json

    setting = list_settings().get(name)
    if value and setting and setting.hide:
        return "***"
    return mask_url(value) if isinstance(value, str) and "://" in value else to_json(value)


def _build_settings(
    values: Mapping[str, ResolvedValue], entries: list[AgentEntry], locations: Locations, agent: str, place: Workspace
) -> Settings:
    # The sections have the same order in both.
    sections = [build(section, values, path) for path, section in SECTIONS.items()]
    store = values["session.store"].value if "session.store" in values else None
    agent_dir, sessions_dir, database = find_agent_folders(store, entries, locations, agent, place)
    return Settings(
        agent, place.folder.value, place.index_path.value, place.index_is_ours, sessions_dir, agent_dir, database,
        place.state_dir, place.shared_dir, place.qmd_dir, not place.is_openclaws, *sections,
    )  # fmt: skip


def _add_hosts(values: dict[str, ResolvedValue], file: str) -> None:
    """Search conversations too if those of a coding agent were switched on, which a file beside the index says."""
    name = "memorySearch.sources"
    if "sessions" not in values[name].value and os.path.isfile(file):
        values[name] = ResolvedValue((*values[name].value, "sessions"), f"{values[name].origin}, {file}")
        if values[name := "mdrecall.sessions.withNotes"].origin == "default":
            values[name] = ResolvedValue(True, file)


def find_current_folder() -> str:
    """Return the folder of this process; the root if it is gone."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        return os.sep


def _raise_if_any(problems: list[str], advice: str = "") -> None:
    if problems:
        more = f" ({len(problems) - 1} more)" if len(problems) > 1 else ""
        raise ConfigError(f"{problems[0]}{more}", hint=f"{advice}{_HINT}", problems=tuple(problems))


def _list_misspelled(files: list[Layer]) -> list[str]:
    """Return a problem for each unknown name at the top of mdrecall's own file, where a typo would have no effect.

    OpenClaw checks its own file, which has keys that are not read.
    """
    return [
        f"{file.file}: {at}{name} is not a known setting{suggest_name(name, known)}."
        for file in files
        if not file.is_lenient
        for at, known, group in (
            ("", _TOP_LEVEL, file.values),
            ("agents.", ("defaults", "list", "entries"), file.values.get("agents")),
        )
        for name in (group if isinstance(group, dict) else ())
        if name not in known and not name.startswith("$")
    ]


def _split_problems(problems: list[str], files: list[Layer]) -> tuple[list[str], list[str]]:
    """Return the problems that stop mdrecall, and as warnings those in OpenClaw's own file, which do not."""
    labels = tuple(f"{file.file}: " for file in files if file.is_lenient)
    errors = [problem for problem in problems if not problem.startswith(labels)]
    ignored = [f"{problem} It is ignored." for problem in problems if problem.startswith(labels)]
    return errors, list(dict.fromkeys(ignored))


def _override_layers(overrides: Mapping[str, Any]) -> list[Layer]:
    """Return each override as a layer, the last one strongest; all are checked before any file is read."""
    layers: list[Layer] = []
    for name, value in overrides.items():
        for part in reversed(name.split(".")):
            value = {part: value}
        layers.insert(0, Layer("override", "memorySearch", value))
    problems: list[str] = []
    resolve(SECTIONS["memorySearch"], layers[::-1], "memorySearch", problems)
    _raise_if_any(problems)
    return layers


def _resolve_all(
    files: list[Layer], entries: list[AgentEntry], above: list[Layer], problems: list[str], outdated: list[str]
) -> tuple[dict[str, ResolvedValue], dict[str, str], list[str]]:
    """Return every configured setting by its full name, OpenClaw's names of providers by the origins of their settings,
    and warnings about providers that cannot be used."""
    aliases: dict[str, str] = {}
    warnings: list[str] = []

    def translate(layers: list[Layer]) -> list[Layer]:
        every = [file.values for file in files]
        return [translate_providers(layer, every, aliases, warnings, outdated) for layer in layers]

    own = [translate(agent_layers(file, entries, problems)) for file in files]
    shared = [translate(default_layers(file, problems)) for file in files]
    by_file = [layer for pair in zip(own, shared, strict=True) for layers in pair for layer in layers]
    values = resolve(SECTIONS["memorySearch"], above + by_file, "memorySearch", problems)
    if "memorySearch.extraPaths" in values:
        is_replaced = values["memorySearch.extraPaths"].origin.startswith("override: ")
        groups = [above] if is_replaced else [*reversed(shared), *reversed(own)]
        values["memorySearch.extraPaths"] = _join_extra_paths(groups)
    for path in list(SECTIONS)[1:]:
        layers = layers_at(files, path, problems)
        layers = agent_default_layers(files, entries, layers) if path == "agents.defaults" else layers
        found: list[str] = []
        values |= resolve(SECTIONS[path], layers, path, found)
        # While another plugin is in the slot, OpenClaw does not check what its file has for this one.
        slot = values.get("plugins.slots.memory")
        is_unchecked = "memory-lancedb" in path and not (slot and slot.value == "memory-lancedb")
        problems += _split_problems(found, files)[0] if is_unchecked else found
    return values, aliases, warnings


def _join_extra_paths(groups: list[list[Layer]]) -> ResolvedValue:
    """Join the extra paths of all groups of layers; within a group the first layer that has any wins."""
    name = "memorySearch.extraPaths"
    resolved = (resolve(SECTIONS["memorySearch"], layers, "memorySearch", []) for layers in groups)
    found = [values[name] for values in resolved if name in values]
    paths = dict.fromkeys(path for each in found for path in each.value)
    return ResolvedValue(tuple(paths), ", ".join(each.origin for each in found) or "default")


def _apply_aliases(values: dict[str, ResolvedValue], aliases: Mapping[str, str], warnings: list[str]) -> dict[str, str]:
    """Return OpenClaw's name for each provider that is used under it, and take it off the model's name."""
    names: dict[str, str] = {}
    for setting in ("memorySearch.provider", "memorySearch.fallback"):
        found = values.get(setting)
        alias = aliases.get(found.origin) if found else None
        if found and alias and names.setdefault(found.value, alias) != alias:
            values[setting] = found._replace(value="none")
            warnings.append(f"{found.origin}: {alias!r} is not used besides {names[found.value]!r}.")
        if alias and setting == "memorySearch.provider":
            model = values["memorySearch.model"]
            bare = model.value.removeprefix(f"{alias}/")
            values["memorySearch.model"] = model._replace(value=bare or DEFAULT_MODELS.get(alias, ""))
    return names


def _normalise(values: dict[str, ResolvedValue], locations: Locations, files: list[Layer]) -> None:
    """Apply the rules that involve two settings at once."""
    every = Values(values)

    def put(name: str, value: Any) -> None:
        values[name] = every[name]._replace(value=value)

    def get(name: str) -> Any:
        return every[name].value

    chunking = "memorySearch.chunking."
    put(chunking + "overlap", min(get(chunking + "overlap"), get(chunking + "tokens") - 1))
    hybrid = "memorySearch.query.hybrid."
    vector, words = get(hybrid + "vectorWeight"), get(hybrid + "textWeight")
    total = vector + words
    put(hybrid + "vectorWeight", vector / total if total else 0.35)
    put(hybrid + "textWeight", words / total if total else 0.65)
    for name, value in _choose_sources(every, [file.values for file in files]).items():
        put(name, value)
    if extension := get("memorySearch.store.vector.extensionPath"):
        put("memorySearch.store.vector.extensionPath", expand(extension, locations.home, locations.state_dir))
    model = get("memorySearch.model")
    put("memorySearch.model", model if model.strip() else DEFAULT_MODELS.get(get("memorySearch.provider"), ""))


def _choose_sources(values: Values, files: list[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the settings of what is indexed and searched, after the rules that involve several of them.

    Conversations that are to be remembered are indexed, and found by a search that asks for them. OpenClaw's default is
    not enough for that: an embedding provider would be sent every conversation, and nobody has asked for it.
    """
    explicit = remembers = values["memorySearch.rememberAcrossConversations"].value
    if explicit is None:
        # Where senders are kept apart, one must not hear what another has said.
        bindings = look_up(files, "bindings")
        each = [item for item in bindings if isinstance(item, dict)] if isinstance(bindings, list) else []
        keeps_apart = any(look_up([binding], "session", "dmScope") for binding in each)
        remembers = values["session.dmScope"].value == "main" and not keeps_apart
    sources = values["memorySearch.sources"]
    # In the older places of 2.x it takes more than a default to have conversations searched.
    is_newer = sources.origin.endswith("memory.search.sources")
    has_sessions = values["memorySearch.experimental.sessionMemory"].value or (remembers and (is_newer or explicit))
    allowed = ("memory", "sessions") if has_sessions else ("memory",)
    named = [name for name in sources.value if name in allowed] or ["memory"]
    with_notes = values["mdrecall.sessions.withNotes"].value
    return {
        "memorySearch.rememberAcrossConversations": remembers,
        "memorySearch.sources": tuple(dict.fromkeys([*named, "sessions"] if explicit else named)),
        "mdrecall.sessions.withNotes": "sessions" in named if with_notes is None else with_notes,
    }
