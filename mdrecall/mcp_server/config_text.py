"""Set or remove a value in the text of a configuration file; every other character stays as it is.

JSON may have comments and trailing commas, as in the files of editors. What was edited is read again and compared with
what it should say. YAML is never edited: its lines are for a person to add and to remove.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

_TOKEN = re.compile(
    r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'|//[^\n]*|/\*.*?\*/|[{}\[\],:]|[^\s{}\[\],:"/]+|\S', re.DOTALL
)
_BLANK = "\ufeff \t\r\n"


class NotEditable(ValueError):
    """A text in which an entry cannot be changed without a loss; it says why."""


class Place(NamedTuple):
    """Where a server is, or belongs, in a file."""

    kind: str
    """``json``, ``toml`` or ``yaml``."""
    table: str
    """The table that holds all servers; in JSON it may be inside another, as ``mcp.servers``."""
    name: str

    @property
    def path(self) -> tuple[str, ...]:
        """The names that lead to the server."""
        return (*self.table.split("."), self.name)


def render(place: Place, values: Mapping[str, Any]) -> str:
    """Return the text of a file that has this server only."""
    if place.kind == "yaml":
        # JSON is YAML, too.
        return f"{place.table}:\n  {place.name}: {json.dumps(values, ensure_ascii=False)}\n"
    return put("", place, values)


def put(text: str, place: Place, values: Mapping[str, Any]) -> str:
    """Return the text with a server, whose other values are kept if it is there already; YAML as it is."""
    if place.kind == "yaml":
        return text
    servers = get_value(text, place.path[:-1], place.kind)
    servers = {} if servers is None else servers
    if not isinstance(servers, dict) or not isinstance(servers.get(place.name, {}), dict):
        raise NotEditable(f"{place.table} is not a table of servers")
    wanted = {**servers.get(place.name, {}), **values}
    if servers.get(place.name) == wanted:
        return text
    if place.kind == "json":
        return set_value(text, place.path, wanted)
    whole = {**_parse_toml(text), place.table: {**servers, place.name: wanted}}
    if place.name in servers:
        return _edit_toml(text, lambda document: document[place.table][place.name].update(values), whole)
    return _edit_toml(text, lambda document: document.append(place.table, {place.name: wanted}), whole)


def remove(text: str, place: Place) -> str:
    """Return the text without a server; the same text if it is not there, or if it is YAML."""
    return text if place.kind == "yaml" else remove_value(text, place.path, place.kind)


def remove_empty(text: str, place: Place) -> str:
    """Return the text without the table of all servers, if that is empty; YAML as it is."""
    for depth in range(len(place.path) - 1, 0, -1):
        if place.kind == "yaml" or get_value(text, place.path[:depth], place.kind) != {}:
            break
        text = remove_value(text, place.path[:depth], place.kind)
    return text


def get_value(text: str, path: Sequence[str], kind: str = "json") -> Any:
    """Return the value at a path in JSON or TOML; None if there is none."""
    parse = _parse_json if kind == "json" else _parse_toml
    found: Any = parse(text) if text.strip(_BLANK) else {}
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    return found


def set_value(text: str, path: Sequence[str], value: object) -> str:
    """Return JSON with a value at a path, whose objects are made where they are missing."""
    if not text.strip(_BLANK):
        return json.dumps(_nest(path, value), indent=2, ensure_ascii=False) + "\n"
    wanted = node = _parse_json(text)
    opening = _find_root(text)
    for depth, name in enumerate(path, 1):
        place = _members(text, opening).get(name)
        if place is None or depth == len(path):
            break
        if not isinstance(node[name], dict):
            raise NotEditable(f"{'.'.join(path[:depth])} is not an object")
        opening, node = place[1], node[name]
    node[name] = _nest(path[depth:], value)
    if place is None:
        return _check_json(_insert(text, opening, name, node[name], depth), wanted)
    _, start, end = place
    if any(_is_comment(token) for token in _TOKEN.finditer(text[start:end])):
        raise NotEditable(f"the entry {name} has comments, which would be lost")
    return _check_json(text[:start] + _dump(value, text, depth) + text[end:], wanted)


def remove_value(text: str, path: Sequence[str], kind: str = "json") -> str:
    """Return JSON or TOML without what is at a path; the same text if nothing is there."""
    if get_value(text, path, kind) is None:
        return text

    def cut(values: Any) -> None:
        for name in path[:-1]:
            values = values[name]
        del values[path[-1]]

    wanted = _parse_json(text) if kind == "json" else _parse_toml(text)
    cut(wanted)
    return _check_json(_cut_json(text, path), wanted) if kind == "json" else _edit_toml(text, cut, wanted)


def append_items(text: str, table: str, items: Mapping[str, Any]) -> str:
    """Return JSON with one more item at the end of each list of a table. What is missing of them is made."""
    if not text.strip(_BLANK):
        return set_value(text, (table,), {name: [item] for name, item in items.items()})
    for name, item in items.items():
        there = _lists_of(text, table).get(name, [])
        text = set_value(text, (table, name), [*there, item])
    return text


def list_items(text: str, table: str, is_ours: Callable[[Any], bool]) -> dict[str, list[Any]]:
    """Return some items of the lists of a table in JSON, by the names of the lists."""
    found = {name: [item for item in items if is_ours(item)] for name, items in _lists_of(text, table).items()}
    return {name: items for name, items in found.items() if items}


def remove_items(text: str, table: str, is_ours: Callable[[Any], bool]) -> str:
    """Return JSON without some items of the lists of a table, and without lists and a table that are empty then."""
    ours, after = list_items(text, table, is_ours), text
    for name in ours:
        kept = [item for item in _lists_of(text, table)[name] if item not in ours[name]]
        after = set_value(after, (table, name), kept) if kept else remove_value(after, (table, name))
    return remove_value(after, (table,)) if ours and not _lists_of(after, table) else after


def _lists_of(text: str, table: str) -> dict[str, list[Any]]:
    found = get_value(text, (table,))
    lists = {} if found is None else found
    if not isinstance(lists, dict) or not all(isinstance(items, list) for items in lists.values()):
        raise NotEditable(f"{table} is not a table of lists")
    return lists


def _nest(path: Sequence[str], value: object) -> Any:
    for name in reversed(path):
        value = {name: value}
    return value


def _cut_json(text: str, path: Sequence[str]) -> str:
    """Return JSON without a member, its comma and the white space before it."""
    opening = _find_root(text)
    for name in path[:-1]:
        opening = _members(text, opening)[name][1]
    start, _, end = _members(text, opening)[path[-1]]
    following = next(_tokens(text, end))
    head = text[:start].rstrip(" \t\r\n")
    return head + text[following.end() :] if following[0] == "," else head.removesuffix(",") + text[end:]


def _insert(text: str, opening: int, name: str, value: object, depth: int) -> str:
    """Return the text with a first member in the object that opens at a position."""
    newline, indent = _newline(text), _indent(text)
    member = f"{newline}{indent * depth}{json.dumps(name)}: {_dump(value, text, depth)}"
    rest = text[opening + 1 :]
    if next(_tokens(text, opening + 1))[0] == "}":
        bare = rest.lstrip(" \t\r\n")
        rest = newline + indent * (depth - 1) + bare if bare.startswith("}") else rest
    else:
        member += ","
        rest = rest if rest.startswith(("\n", "\r\n")) else f"{newline}{indent * depth}{rest.lstrip(' ')}"
    return text[: opening + 1] + member + rest


def _dump(value: object, text: str, depth: int) -> str:
    """Return a value as JSON with the indentation and the line ends of a text."""
    lines = json.dumps(value, indent=_indent(text), ensure_ascii=False).split("\n")
    return (_newline(text) + _indent(text) * depth).join(lines)


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _indent(text: str) -> str:
    """Return what the file indents with."""
    found = re.search(r"^([ \t]+)\S", text, re.MULTILINE)
    return found[1] if found else "  "


def _find_root(text: str) -> int:
    """Return where the outermost object begins: after a byte order mark and comments."""
    return next(_tokens(text, len(text) - len(text.removeprefix("\ufeff")))).start()


def _is_comment(token: re.Match[str]) -> bool:
    return token[0].startswith(("//", "/*"))


def _tokens(text: str, start: int = 0) -> Iterator[re.Match[str]]:
    return (token for token in _TOKEN.finditer(text, start) if not _is_comment(token))


def _members(text: str, opening: int) -> dict[str, tuple[int, int, int]]:
    """Return where each member of an object begins, where its value begins, and where it ends.

    The object opens at a position of a text that has been parsed.
    """
    found: dict[str, tuple[int, int, int]] = {}
    tokens = _tokens(text, opening + 1)
    while (token := next(tokens))[0] != "}":
        if token[0] != ",":
            _colon, value = next(tokens), next(tokens)
            last, open_count = value, int(value[0] in ("{", "["))
            while open_count:
                last = next(tokens)
                open_count += (last[0] in ("{", "[")) - (last[0] in ("}", "]"))
            found[json.loads(_as_json(token[0], ":"))] = token.start(), value.start(), last.end()
    return found


def _parse_json(text: str) -> dict[str, Any]:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) < len(pairs):
            raise NotEditable("a name occurs in it twice")
        return dict(pairs)

    tokens = [token[0] for token in _tokens(text.removeprefix("\ufeff"))]
    pairs = zip(tokens, [*tokens[1:], ""], strict=True)
    kept = [_as_json(token, after) for token, after in pairs if token != "," or after not in "]}"]
    try:
        values = json.loads(" ".join(kept), object_pairs_hook=unique)
    except NotEditable:
        raise
    except (ValueError, RecursionError) as error:
        raise NotEditable("it is not JSON") from error
    if not isinstance(values, dict):
        raise NotEditable("it is not an object")
    return values


def _as_json(token: str, following: str) -> str:
    """Return a token of JSON5 as JSON has it: a name without quotes, or a text in single ones."""
    if token.startswith("'"):
        return json.dumps(json.loads('"' + token[1:-1].replace("\\'", "'").replace('"', '\\"') + '"'))
    return json.dumps(token) if following == ":" and re.fullmatch(r"[A-Za-z_$][\w$]*", token) else token


def _check_json(after: str, wanted: dict[str, Any]) -> str:
    if _parse_json(after) != wanted:
        raise NotEditable("it is written in a form that cannot be edited")
    return after


def _edit_toml(text: str, edit: Callable[[Any], object], wanted: dict[str, Any]) -> str:
    # Only where it is needed: the command that starts a server would pay for loading it.
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    document = tomlkit.parse(text + "\n" if text and not text.endswith("\n") else text)
    try:
        edit(document)
        after = tomlkit.dumps(document).rstrip("\r\n") + "\n"
        if "\r\n" in text and text.count("\n") == text.count("\r\n"):
            after = re.sub(r"(?<!\r)\n", "\r\n", after)
        is_right = _drop_empty(_parse_toml(after)) == _drop_empty(wanted)
    except (NotEditable, TOMLKitError):
        is_right = False
    if not is_right:
        raise NotEditable("it is written in a form that cannot be edited")
    return after if after.strip() else ""


def _drop_empty(values: Any) -> Any:
    """Return values without empty tables: in TOML, one that held nothing but another table is gone with that."""
    if not isinstance(values, dict):
        return values
    return {name: kept for name, value in values.items() if (kept := _drop_empty(value)) != {}}


def _parse_toml(text: str) -> dict[str, Any]:
    # Only where it is needed, too.
    import tomllib

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise NotEditable(f"it is not TOML: {error}") from error
