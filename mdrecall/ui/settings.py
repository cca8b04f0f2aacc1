"""Settings as a page: every setting with its value, where it comes from, what it does, and the line to write."""

import json
import os
from collections.abc import Iterator
from typing import Any, NamedTuple

from mdrecall.config.declare import Setting, each_setting
from mdrecall.config.environment import find_locations
from mdrecall.config.load import Loaded, hide_secret
from mdrecall.config.settings import SECTIONS
from mdrecall.ui.html import Html, join, tag
from mdrecall.ui.layout import show_tabs
from mdrecall.ui.visit import Page, Visit, require_owner

#: More settings at once make a page that nobody reads, and a heavy one.
_SHOWN = 60
#: The origin of a setting that nobody has set.
_DEFAULT = "default"


class ShownSetting(NamedTuple):
    """A setting as it is shown."""

    name: str
    value: Any
    origin: str
    declared: Setting


def show_settings(visit: Visit) -> Page:
    """Return the settings that are not at their defaults, those of a section, or those that have some words."""
    require_owner(visit, "The page of settings")
    loaded = visit.memory.loaded
    if loaded is None:
        return Page(
            "Settings", join(tag("h1", "Settings"), tag("p", "This memory was opened without a file.")), "state"
        )
    every = list(_list_settings(loaded))
    words, section = visit.query.get("q", "").strip().lower(), visit.query.get("section", "")
    chosen = [each for each in every if _is_chosen(each, words, section)]
    noun = "setting" if len(chosen) == 1 else "settings"
    which = "with these words" if words else f"of {section}" if section else "not at the default"
    body = join(
        tag("h1", "Settings"),
        show_tabs(visit, "settings"),
        _explain_files(loaded),
        _choose(visit, every),
        tag(
            "p",
            f"{len(chosen):,} {noun} {which}." + (f" The first {_SHOWN} are shown." if len(chosen) > _SHOWN else ""),
        ),
        [_show_setting(each, loaded) for each in chosen[:_SHOWN]],
    )
    return Page("Settings", body, "state")


def _list_settings(loaded: Loaded) -> Iterator[ShownSetting]:
    for prefix, section in SECTIONS.items():
        for name, declared in each_setting(section, f"{prefix}."):
            if found := loaded.values.get(name):
                yield ShownSetting(name, hide_secret(name, found.value), found.origin, declared)


def _is_chosen(each: ShownSetting, words: str, section: str) -> bool:
    if words:
        text = f"{each.name} {each.declared.about}".lower()
        return all(word in text for word in words.split())
    return each.name.startswith(f"{section}.") if section else each.origin != _DEFAULT


def _explain_files(loaded: Loaded) -> Html:
    files = ", ".join(loaded.files) or "none; every setting has its default"
    warnings = tag("ul", (tag("li", warning, class_="warning") for warning in loaded.warnings))
    return join(
        tag("p", "Settings are read here and changed in a file. Files that were read: ", tag("strong", files), "."),
        warnings if loaded.warnings else None,
    )


def _choose(visit: Visit, every: list[ShownSetting]) -> Html:
    sections = dict.fromkeys(_section_of(each.name) for each in every)
    current = visit.query.get("section", "")
    links = (
        tag("a", name, href=visit.url("settings", section=name), aria_current="true" if name == current else None)
        for name in sections
    )
    field = tag("input", type="search", name="q", value=visit.query.get("q", ""), aria_label="Words of a setting")
    form = tag("form", field, tag("button", "Find"), action=visit.url("settings"), class_="row")
    return join(form, tag("nav", links, class_="years", aria_label="Sections"))


def _section_of(name: str) -> str:
    """Return the section that a setting is listed in: the first name, or two where there are very many."""
    parts = name.split(".")
    return ".".join(parts[: 2 if parts[0] in ("agents", "plugins", "memory") and len(parts) > 2 else 1])


def _show_setting(each: ShownSetting, loaded: Loaded) -> Html:
    default = json.dumps(each.declared.default, ensure_ascii=False, default=str)
    return tag(
        "article",
        tag("h2", tag("code", each.name), class_="setting"),
        tag("p", each.declared.about, class_="first"),
        tag("p", tag("strong", _show_value(each.value)), f" from {each.origin}", class_="first"),
        tag(
            "details",
            tag("summary", "Change it"),
            tag(
                "p", f"Accepts {each.declared.rule.accepts}; default {default}. Put this into {find_own_file(loaded)}:"
            ),
            tag("pre", tag("code", write_setting(each.name, each.declared.default)), tabindex="0"),
        ),
        class_="panel",
    )


def _show_value(value: Any) -> str:
    return value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False, default=str)


def find_own_file(loaded: Loaded) -> str:
    """Return the path of mdrecall's own file, whether it exists or not."""
    locations = find_locations(loaded.environment, loaded.settings.workspace)
    named = loaded.environment.get("MDRECALL_CONFIG", "").strip()
    return named or locations.own_config_path or os.path.join(locations.own_state_dir, "mdrecall.json")


def write_setting(name: str, value: Any) -> str:
    """Return the text of a file that sets one setting; a value without a default is left to fill in."""
    content: Any = "…" if value is None else value
    for part in reversed(name.split(".")):
        content = {part: content}
    return json.dumps(content, ensure_ascii=False, default=str)
