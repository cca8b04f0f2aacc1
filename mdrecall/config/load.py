"""From the environment, the files and the caller's arguments to the settings of one agent.

Strongest first: overrides, arguments, environment, ``mdrecall.json``, ``openclaw.json`` (an agent's own values before
the defaults for all agents), built-in defaults. This is the only reader of the environment.
"""

import os
from collections.abc import Callable, Mapping
from typing import Any

from mdrecall.config.agent_folders import AgentFolders, find_agent_folders
from mdrecall.config.credentials import Credentials, find_agent_folder
from mdrecall.config.declare import each_setting
from mdrecall.config.environment import (
    Locations,
    expand,
    explain_unread_config,
    find_locations,
    find_proxy,
    list_env_files,
)
from mdrecall.config.include import read_files, read_variables
from mdrecall.config.layers import (
    AgentEntry,
    ConfigFile,
    agent_default_layers,
    agent_layers,
    choose_agent,
    default_agent,
    default_layers,
    layers_at,
    memory_layers,
    read_agents,
)
from mdrecall.config.openclaw_file import choose_sources, is_used, list_unused, translate_providers
from mdrecall.config.read import Layer, ResolvedValue, build, first_with, resolve
from mdrecall.config.references import substitute
from mdrecall.config.settings import DEFAULT_MODELS, SECTIONS, ExtraPath, Settings
from mdrecall.config.workspace import HOSTS_FILE, Workspace, WorkspaceRequest, find_workspace
from mdrecall.errors import ConfigError, suggest_name
from mdrecall.named_tuple import NamedTuple

#: Everything that is read from a configuration file.
_TOP_LEVEL = (
    "memorySearch", "memory", "mdrecall", "agents", "plugins", "models", "env", "auth", "secrets", "logging", "tools",
    "session", "bindings",
)  # fmt: skip

_LANCEDB = "plugins.entries.memory-lancedb.config"


#: The variable that names the shared database, which wins over the setting.
STORE_DSN = "MDRECALL_STORE_DSN"


class Loaded(NamedTuple):
    """The settings of one agent, and everything else that was read with them."""

    settings: Settings
    values: Mapping[str, ResolvedValue]
    """Every setting by its full name, with its value and origin."""
    files: tuple[str, ...]
    home: str
    credentials: Credentials
    hub: str
    """The address that models are downloaded from."""
    proxy: Callable[[str], str | None]
    """Returns the proxy for an address, if any."""
    environment: Mapping[str, str]
    """The variables that child processes inherit: those of this process, then those that the configuration adds."""
    unread: str = ""
    """A warning about a file that looks like configuration and is not read."""
    is_elsewhere: bool = False
    """True if the caller neither named the workspace nor is in it: then an answer says whose memory it is from."""
    default_agent: str = "main"
    """The agent to use when none is named."""
    openclaw_file: str = ""
    """OpenClaw's own file as ``files`` names it; empty if there is none."""
    warnings: tuple[str, ...] = ()
    """What is ignored in OpenClaw's own file, and why."""
    problem: str = ""
    """The warning that it, or a part of it, could not be read; empty if it was read in full."""
    unused: tuple[str, ...] = ()
    """The keys of OpenClaw's own file that are accepted and not used."""

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
    cwd = _current_folder() if cwd is None else cwd
    locations = find_locations(env, cwd)
    files = read_files(locations, env, cwd, config)
    env_files = list_env_files(locations) if config is None else ()
    variables, env_problem = read_variables(env, [file.values for file in files], env_files, locations.home)
    files, missing = _substitute_variables(files, variables)
    problems = _list_misspelled(files)
    agents = read_agents(files, problems)
    unread = [problem for file in files for problem in file.problems]
    chosen = choose_agent(agents, agent, unread)
    entries = [entry for entry in agents if entry.id == chosen]
    values, aliases, warnings = _resolve_all(files, entries, above, problems)
    errors, ignored = _split_problems(problems, files)
    if errors:
        raise _config_error(errors)
    warnings = unread + warnings + missing + ignored
    _normalise(values, locations, files)
    aliases = _apply_aliases(values, aliases, warnings)
    default = default_agent(agents)
    request = WorkspaceRequest(locations, env, cwd, files, entries, chosen, chosen == default,
                               agent is not None or is_automatic, workspace, config)  # fmt: skip
    found = find_workspace(request, values["memorySearch.store.path"])
    _add_hosts(values, os.path.join(found.state_dir, "agents", chosen, HOSTS_FILE))
    folders = find_agent_folders(values["session.store"].value, entries, locations, chosen, found)
    settings = _build_settings(values, chosen, found, folders)
    misplaced = "" if config else explain_unread_config(locations, settings.workspace)
    agent_value = ResolvedValue(chosen, "--agent" if agent is not None else "default")
    return Loaded(
        settings=settings,
        values={"agent": agent_value, "workspace": found.folder, "index": found.index_path, **values},
        files=tuple(dict.fromkeys(file.label for file in files)),
        home=locations.home,
        credentials=_credentials(variables, files, entries, locations, settings, aliases),
        hub=variables.get("HF_ENDPOINT", "").strip().rstrip("/") or "https://huggingface.co",
        proxy=lambda url: find_proxy(url, variables),
        environment=variables,
        unread=f"{misplaced} {env_problem}".strip(),
        is_elsewhere=found.is_elsewhere,
        default_agent=default,
        openclaw_file=next((file.label for file in files if file.is_lenient), ""),
        warnings=tuple(dict.fromkeys(warnings)),
        problem=unread[0] if unread else "",
        unused=tuple(name for file in files if file.is_lenient for name in list_unused(file.values)),
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
    cwd = _current_folder() if cwd is None else cwd
    agents = read_agents(read_files(find_locations(env, cwd), env, cwd, config), problems=[])
    default = default_agent(agents)
    return [default] if workspace is not None else list(dict.fromkeys([default, *(agent.id for agent in agents)]))


def own_index_folder(*, env: Mapping[str, str] | None = None, cwd: str | None = None) -> str:
    """Return the folder with the indexes of all workspaces that are not OpenClaw's."""
    locations = find_locations(os.environ if env is None else env, _current_folder() if cwd is None else cwd)
    return os.path.join(locations.own_state_dir, "index")


def is_secret(name: str) -> bool:
    """True if the setting with this full name must not be shown."""
    return any(
        setting.secret
        for prefix, section in SECTIONS.items()
        for leaf, setting in each_setting(section, f"{prefix}.")
        if leaf == name
    )


def hide_secret(name: str, value: Any) -> Any:
    """Return the value of a setting as it may be shown, in the form of JSON: secrets and passwords are masked."""
    from mdrecall.config.references import mask_url
    from mdrecall.wire import to_json

    if value and is_secret(name):
        return "***"
    return mask_url(value) if isinstance(value, str) and "://" in value else to_json(value)


def _build_settings(
    values: Mapping[str, ResolvedValue], agent_id: str, place: Workspace, folders: AgentFolders
) -> Settings:
    built = {path: build(section, values, path) for path, section in SECTIONS.items()}
    return Settings(
        agent_id=agent_id,
        workspace=place.folder.value,
        index_path=place.index_path.value,
        index_path_is_ours=place.index_is_ours,
        **folders._asdict(),
        state_dir=place.state_dir,
        shared_dir=place.shared_dir,
        qmd_dir=place.qmd_dir,
        standalone=not place.is_openclaws,
        memory_search=built["memorySearch"],
        memory=built["memory"],
        compaction=built["agents.defaults.compaction"],
        defaults=built["agents.defaults"],
        plugins=built["plugins"],
        lancedb=built[_LANCEDB],
        dreaming=built["plugins.entries.memory-core.config.dreaming.phases.deep"],
        logging=built["logging"],
        tools=built["tools"],
        session=built["session"],
        mdrecall=built["mdrecall"],
    )


def _add_hosts(values: dict[str, ResolvedValue], file: str) -> None:
    """Search conversations too if those of a coding agent were switched on, which a file beside the index says."""
    name = "memorySearch.sources"
    if "sessions" not in values[name].value and os.path.isfile(file):
        values[name] = ResolvedValue((*values[name].value, "sessions"), f"{values[name].origin}, {file}")


def _current_folder() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:
        return os.sep


def _credentials(
    env: Mapping[str, str],
    files: list[ConfigFile],
    entries: list[AgentEntry],
    locations: Locations,
    settings: Settings,
    aliases: Mapping[str, str],
) -> Credentials:
    default = os.path.join(locations.state_dir, "agents", settings.agent_id, "agent")
    folders = (entry.values for entry in entries)
    return Credentials(
        env,
        [file.values for file in files],
        agent_dir=find_agent_folder(folders, default, locations.home, locations.state_dir),
        home=locations.home,
        remote=settings.memory_search.remote,
        aliases=aliases,
    )


def _substitute_variables(files: list[ConfigFile], variables: Mapping[str, str]) -> tuple[list[ConfigFile], list[str]]:
    """Return OpenClaw's file with its variables replaced, as OpenClaw reads it; and warnings about unset ones."""
    done: list[ConfigFile] = []
    warnings: list[str] = []
    for file in files:
        missing: dict[str, str] = {}
        values = substitute(file.values, variables, missing) if file.is_lenient else file.values
        done.append(file._replace(values=values))
        warnings += [
            f"{file.label}: {at} refers to {variable}, which is not set."
            for at, variable in missing.items()
            if is_used(at, file.values)
        ]
    return done, warnings


def _list_misspelled(files: list[ConfigFile]) -> list[str]:
    """Return a problem for each unknown name at the top of mdrecall's own file, where a typo would have no effect.

    OpenClaw checks its own file, which has keys that are not read.
    """
    return [
        f"{file.label}: {at}{name} is not a known setting{suggest_name(name, known)}."
        for file in files
        if not file.is_lenient
        for at, known, group in (
            ("", _TOP_LEVEL, file.values),
            ("agents.", ("defaults", "list", "entries"), file.values.get("agents")),
        )
        for name in (group if isinstance(group, dict) else ())
        if name not in known and not name.startswith("$")
    ]


def _split_problems(problems: list[str], files: list[ConfigFile]) -> tuple[list[str], list[str]]:
    """Return the problems that stop mdrecall, and as warnings those in OpenClaw's own file, which do not."""
    labels = tuple(f"{file.label}: " for file in files if file.is_lenient)
    errors = [problem for problem in problems if not problem.startswith(labels)]
    ignored = [f"{problem} It is ignored." for problem in problems if problem.startswith(labels)]
    return errors, list(dict.fromkeys(ignored))


def _config_error(problems: list[str]) -> ConfigError:
    message = problems[0]
    if len(problems) > 1:
        message += f" ({len(problems) - 1} more)"
    hint = "Fix the file; docs/config.md lists every setting and what it accepts."
    return ConfigError(message, hint=hint, problems=tuple(problems))


def _override_layers(overrides: Mapping[str, Any]) -> list[Layer]:
    """Return each override as a layer, the last one strongest; all are checked before any file is read."""
    layers: list[Layer] = []
    for name, value in overrides.items():
        for part in reversed(name.split(".")):
            value = {part: value}
        layers.insert(0, Layer("override", "memorySearch", value))
    problems: list[str] = []
    resolve(SECTIONS["memorySearch"], layers[::-1], "memorySearch", problems)
    if problems:
        hint = "docs/config.md lists every setting and what it accepts."
        raise ConfigError(problems[0], hint=hint, problems=tuple(problems))
    return layers


def _resolve_all(
    files: list[ConfigFile], entries: list[AgentEntry], above: list[Layer], problems: list[str]
) -> tuple[dict[str, ResolvedValue], dict[str, str], list[str]]:
    """Return every setting by its full name, OpenClaw's names of providers by the origins of their settings, and
    warnings about providers that cannot be used."""
    aliases: dict[str, str] = {}
    warnings: list[str] = []

    def translate(layers: list[Layer]) -> list[Layer]:
        done = [translate_providers(layer, [file.values for file in files]) for layer in layers]
        for translation in done:
            aliases.update(translation.aliases)
            warnings.extend(translation.warnings)
        return [translation.layer for translation in done]

    own = [translate(agent_layers(file, entries, problems)) for file in files]
    shared = [translate(default_layers(file, problems)) for file in files]
    by_file = [layer for pair in zip(own, shared, strict=True) for layers in pair for layer in layers]
    search = SECTIONS["memorySearch"]
    values = resolve(search, above + by_file, "memorySearch", problems)
    replaced = first_with(above, search, "extraPaths")
    values["memorySearch.extraPaths"] = _extra_paths([above] if replaced else [*reversed(shared), *reversed(own)])
    values |= resolve(SECTIONS["memory"], memory_layers(files, problems), "memory", problems)
    for path in list(SECTIONS)[2:]:
        layers = layers_at(files, path, problems)
        layers = agent_default_layers(files, entries, layers) if path == "agents.defaults" else layers
        found: list[str] = []
        values |= resolve(SECTIONS[path], layers, path, found)
        # While another plugin is in the slot, OpenClaw does not check what its file has for this one.
        is_unchecked = path == _LANCEDB and values["plugins.slots.memory"].value != "memory-lancedb"
        problems += _split_problems(found, files)[0] if is_unchecked else found
    return values, aliases, warnings


def _extra_paths(groups: list[list[Layer]]) -> ResolvedValue:
    """Join the extra paths of all groups of layers; within a group the first layer that has any wins."""
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
    return ResolvedValue(tuple(paths), ", ".join(origins) or "default")


def _apply_aliases(values: dict[str, ResolvedValue], aliases: Mapping[str, str], warnings: list[str]) -> dict[str, str]:
    """Return OpenClaw's name for each provider that is used under it, and take it off the model's name."""
    names: dict[str, str] = {}
    for setting in ("memorySearch.provider", "memorySearch.fallback"):
        found = values[setting]
        alias = aliases.get(found.origin)
        if alias and names.setdefault(found.value, alias) != alias:
            values[setting] = found._replace(value="none")
            warnings.append(f"{found.origin}: {alias!r} is not used besides {names[found.value]!r}.")
    model, alias = values["memorySearch.model"], aliases.get(values["memorySearch.provider"].origin, "")
    bare = model.value.removeprefix(f"{alias}/") if alias else model.value
    values["memorySearch.model"] = model._replace(value=bare or DEFAULT_MODELS.get(alias, ""))
    return names


def _normalise(values: dict[str, ResolvedValue], locations: Locations, files: list[ConfigFile]) -> None:
    """Apply the rules that involve two settings at once."""

    def put(name: str, value: Any) -> None:
        values[name] = values[name]._replace(value=value)

    def get(name: str) -> Any:
        return values[name].value

    put(
        "memorySearch.chunking.overlap",
        min(get("memorySearch.chunking.overlap"), get("memorySearch.chunking.tokens") - 1),
    )
    hybrid = "memorySearch.query.hybrid."
    vector, words = get(hybrid + "vectorWeight"), get(hybrid + "textWeight")
    total = vector + words
    put(hybrid + "vectorWeight", vector / total if total else 0.35)
    put(hybrid + "textWeight", words / total if total else 0.65)
    for name, value in choose_sources(values, [file.values for file in files]).items():
        put(name, value)
    if extension := get("memorySearch.store.vector.extensionPath"):
        put("memorySearch.store.vector.extensionPath", expand(extension, locations.home, locations.state_dir))
    if not get("memorySearch.model").strip():
        put("memorySearch.model", DEFAULT_MODELS.get(get("memorySearch.provider"), ""))
