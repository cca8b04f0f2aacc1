"""Put one server into the text of a configuration file, or take it out; every other character stays as it is.

JSON may have comments and trailing commas, as in the files of editors. What was edited is read again and compared with
what it should say. YAML is not read, so only plain blocks of lines are touched.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

_TOKEN = re.compile(
    r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'|//[^\n]*|/\*.*?\*/|[{}\[\],:]|[^\s{}\[\],:"/]+|\S', re.DOTALL
)
_CLOSING = {"{": "}", "[": "]"}


class NotEditable(ValueError):
    """A text in which an entry cannot be changed without a loss; it says why."""


class DifferentEntry(NotEditable):
    """The entry is there already with other values, which cannot be merged."""


class Place(NamedTuple):
    """Where a server is, or belongs, in a file."""

    kind: str
    """``json``, ``toml`` or ``yaml``."""
    table: str
    """The table that holds all servers; in JSON it may be inside another, as ``mcp.servers``."""
    name: str

    @property
    def path(self) -> tuple[str, ...]:
        """The names that lead to the server in JSON."""
        return (*self.table.split("."), self.name)


class _Member(NamedTuple):
    """A name and its value in the text of a JSON object, by their positions."""

    start: int
    value: int
    end: int


def render(place: Place, values: Mapping[str, Any]) -> str:
    """Return the text of a file that has this server only."""
    if place.kind == "toml":
        lines = (f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in values.items())
        return "\n".join((f"[{place.table}.{place.name}]", *lines)) + "\n"
    if place.kind == "yaml":
        # JSON is YAML, too.
        return f"{place.table}:\n  {place.name}: {json.dumps(values, ensure_ascii=False)}\n"
    return json.dumps(_nest(place.path, values), indent=2, ensure_ascii=False) + "\n"


def put(text: str, place: Place, values: Mapping[str, Any]) -> str:
    """Return the text with a server, whose other values are kept if it is there already."""
    if not text.strip("\ufeff \t\r\n"):
        return render(place, values)
    return _PUT[place.kind](text, place, values)


def remove(text: str, place: Place) -> str:
    """Return the text without a server; the same text if it is not there."""
    return _REMOVE[place.kind](text, place) if text.strip("\ufeff \t\r\n") else text


def remove_empty(text: str, place: Place) -> str:
    """Return the text without the table of all servers, if that is empty. A TOML file has no title of it then."""
    if place.kind != "json" or not text.strip("\ufeff \t\r\n"):
        return text
    for depth in range(len(place.path) - 1, 0, -1):
        if get_value(text, place.path[:depth]) != {}:
            break
        text = remove_value(text, place.path[:depth])
    return text


def get_value(text: str, path: Sequence[str]) -> Any:
    """Return the value at a path in JSON; None if there is none."""
    found: Any = _parse_json(text) if text.strip("\ufeff \t\r\n") else {}
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    return found


def set_value(text: str, path: Sequence[str], value: object) -> str:
    """Return JSON with a value at a path, whose objects are made where they are missing."""
    if not text.strip("\ufeff \t\r\n"):
        return json.dumps(_nest(path, value), indent=2, ensure_ascii=False) + "\n"
    wanted = node = _parse_json(text)
    brace = _find_root(text)
    for depth, name in enumerate(path, 1):
        entry = _members(text, brace).get(name)
        if entry is None or depth == len(path):
            break
        if not isinstance(node[name], dict):
            raise NotEditable(f"{'.'.join(path[:depth])} is not an object")
        brace, node = entry.value, node[name]
    node[name] = _nest(path[depth:], value)
    if entry is None:
        after = _insert(text, brace, name, node[name], depth=depth)
    elif _has_comment(text[entry.value : entry.end]):
        raise NotEditable(f"the entry {name} has comments, which would be lost")
    else:
        after = text[: entry.value] + _dump(value, text, depth) + text[entry.end :]
    return _check_json(after, wanted)


def remove_value(text: str, path: Sequence[str]) -> str:
    """Return JSON without what is at a path; the same text if nothing is there."""
    if get_value(text, path) is None:
        return text
    wanted = node = _parse_json(text)
    brace = _find_root(text)
    for name in path[:-1]:
        brace, node = _members(text, brace)[name].value, node[name]
    del node[path[-1]]
    return _check_json(_cut(text, _members(text, brace)[path[-1]]), wanted)


def _nest(path: Sequence[str], value: object) -> Any:
    for name in reversed(path):
        value = {name: value}
    return value


def append_items(text: str, table: str, items: Mapping[str, Any]) -> str:
    """Return JSON with one more item at the end of each list of a table. What is missing of them is made."""
    if not text.strip("\ufeff \t\r\n"):
        return json.dumps({table: {name: [item] for name, item in items.items()}}, indent=2, ensure_ascii=False) + "\n"
    for name, item in items.items():
        text = _append_item(text, table, name, item)
    return text


def list_items(text: str, table: str, is_ours: Callable[[Any], bool]) -> dict[str, list[Any]]:
    """Return some items of the lists of a table in JSON, by the names of the lists."""
    lists = _lists_of(_parse_json(text), table) if text.strip("\ufeff \t\r\n") else {}
    found = {name: [item for item in items if is_ours(item)] for name, items in lists.items()}
    return {name: items for name, items in found.items() if items}


def remove_items(text: str, table: str, is_ours: Callable[[Any], bool]) -> str:
    """Return JSON without some items of the lists of a table, and without lists and a table that are empty then."""
    while text.strip("\ufeff \t\r\n"):
        before = _parse_json(text)
        lists = _lists_of(before, table)
        found = next(((name, at) for name in lists for at, item in enumerate(lists[name]) if is_ours(item)), None)
        if found is None:
            break
        name, at = found
        root = _members(text, _find_root(text))
        inner = _members(text, root[table].value)
        if len(lists[name]) > 1:
            del lists[name][at]
            text = _check_json(_cut(text, _items(text, inner[name].value)[at]), before)
        elif len(before[table]) > 1:
            del before[table][name]
            text = _check_json(_cut(text, inner[name]), before)
        else:
            del before[table]
            text = _check_json(_cut(text, root[table]), before)
    return text


def _lists_of(values: dict[str, Any], table: str) -> dict[str, list[Any]]:
    lists = values.get(table, {})
    if not isinstance(lists, dict) or not all(isinstance(items, list) for items in lists.values()):
        raise NotEditable(f"{table} is not a table of lists")
    return lists


def _append_item(text: str, table: str, name: str, item: object) -> str:
    before = _parse_json(text)
    lists = _lists_of(before, table)
    brace = _find_root(text)
    root = _members(text, brace)
    if table not in root:
        after = _insert(text, brace, table, {name: [item]}, depth=1)
    elif name not in lists:
        after = _insert(text, root[table].value, name, [item], depth=2)
    else:
        whole = _members(text, root[table].value)[name]
        items = _items(text, whole.value)
        start = items[-1].end if items else whole.value + 1
        line = _newline(text) + _indent(text) * 3
        rest = text[start:].lstrip(" \t\r\n") if not items else text[start:]
        rest = rest if items else _newline(text) + _indent(text) * 2 + rest
        has_comma = bool(items) and next(_tokens(text, start))[0] == ","
        start, rest = (start + 1, text[start + 1 :]) if has_comma else (start, rest)
        comma = "," if items and not has_comma else ""
        after = text[:start] + comma + line + _dump(item, text, 3) + ("," if has_comma else "") + rest
    before.setdefault(table, {}).setdefault(name, []).append(item)
    return _check_json(after, before)


def _cut(text: str, part: _Member) -> str:
    """Return JSON without a member or an item, its comma and the white space before it."""
    following = next(_tokens(text, part.end))
    end = following.end() if following[0] == "," else part.end
    head = text[: part.start].rstrip(" \t\r\n")
    if following[0] != "," and head.endswith(","):
        head = head[:-1]
    return head + text[end:]


def _put_json(text: str, place: Place, values: Mapping[str, Any]) -> str:
    servers = get_value(text, place.path[:-1])
    if not isinstance(servers or {}, dict) or not isinstance((servers or {}).get(place.name, {}), dict):
        raise NotEditable(f"{place.table} is not a table of servers")
    before = (servers or {}).get(place.name)
    wanted = {**(before or {}), **values}
    return text if before == wanted else set_value(text, place.path, wanted)


def _remove_json(text: str, place: Place) -> str:
    return remove_value(text, place.path)


def _insert(text: str, brace: int, name: str, value: object, *, depth: int) -> str:
    """Return the text with a first member in the object that opens at ``brace``."""
    newline, indent = _newline(text), _indent(text)
    member = f"{newline}{indent * depth}{json.dumps(name)}: {_dump(value, text, depth)}"
    rest = text[brace + 1 :]
    if next(_tokens(text, brace + 1))[0] == "}":
        bare = rest.lstrip(" \t\r\n")
        rest = newline + indent * (depth - 1) + bare if bare.startswith("}") else rest
    else:
        member += ","
        rest = rest if rest.startswith(("\n", "\r\n")) else f"{newline}{indent * depth}{rest.lstrip(' ')}"
    return text[: brace + 1] + member + rest


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


def _tokens(text: str, start: int = 0) -> Iterator[re.Match[str]]:
    return (token for token in _TOKEN.finditer(text, start) if not token[0].startswith(("//", "/*")))


def _has_comment(text: str) -> bool:
    return any(token[0].startswith(("//", "/*")) for token in _TOKEN.finditer(text))


def _members(text: str, brace: int) -> dict[str, _Member]:
    """Return the members of the object that opens at ``brace``, in a text that has been parsed."""
    members: dict[str, _Member] = {}
    tokens = _tokens(text, brace + 1)
    for token in tokens:
        if token[0] == "}":
            break
        if token[0] == ",":
            continue
        next(tokens)
        first = next(tokens)
        members[json.loads(_as_json(token[0], ":"))] = _Member(token.start(), first.start(), _skip_value(first, tokens))
    return members


def _items(text: str, bracket: int) -> list[_Member]:
    """Return the items of the list that opens at ``bracket``, in a text that has been parsed."""
    items: list[_Member] = []
    tokens = _tokens(text, bracket + 1)
    for token in tokens:
        if token[0] == "]":
            break
        if token[0] != ",":
            items.append(_Member(token.start(), token.start(), _skip_value(token, tokens)))
    return items


def _skip_value(first: re.Match[str], tokens: Iterator[re.Match[str]]) -> int:
    """Return where the value ends that begins with a token."""
    last = first
    open_count = int(first[0] in _CLOSING)
    while open_count:
        last = next(tokens)
        open_count += (last[0] in _CLOSING) - (last[0] in _CLOSING.values())
    return last.end()


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
        raise NotEditable(f"it is not JSON ({_explain_json(text)})") from error
    if not isinstance(values, dict):
        raise NotEditable("it is not an object")
    return values


def _as_json(token: str, following: str) -> str:
    """Return a token of JSON5 as JSON has it: a name without quotes, or a text in single ones."""
    if token.startswith("'"):
        return json.dumps(json.loads('"' + token[1:-1].replace("\\'", "'").replace('"', '\\"') + '"'))
    return json.dumps(token) if following == ":" and re.fullmatch(r"[A-Za-z_$][\w$]*", token) else token


def _explain_json(text: str) -> str:
    try:
        json.loads(text.removeprefix("\ufeff"))
    except json.JSONDecodeError as error:
        return f"line {error.lineno}, column {error.colno}"
    except RecursionError:
        pass
    return "too deep"


def _check_json(after: str, wanted: dict[str, Any]) -> str:
    if _parse_json(after) != wanted:
        raise NotEditable("it is written in a form that cannot be edited")
    return after


def _put_toml(text: str, place: Place, values: Mapping[str, Any]) -> str:
    before = _parse_toml(text)
    servers = before.get(place.table, {})
    if not isinstance(servers, dict):
        raise NotEditable(f"{place.table} is not a table of servers")
    existing = servers.get(place.name)
    if isinstance(existing, dict) and {**existing, **values} == existing:
        return text
    if existing is not None:
        raise DifferentEntry(f"[{place.table}.{place.name}] is there already with other values")
    end = _newline(text)
    after = text + ("" if text.endswith("\n") else end) + end + render(place, values).replace("\n", end)
    return _check_toml(after, {**before, place.table: {**servers, place.name: dict(values)}}, place)


def _remove_toml(text: str, place: Place) -> str:
    before = _parse_toml(text)
    servers = before.get(place.table)
    if not isinstance(servers, dict) or place.name not in servers:
        return text
    header = re.compile(rf"\s*\[\s*{re.escape(place.table)}\s*\.\s*[\"']?{re.escape(place.name)}[\"']?\s*[.\]]")
    kept, is_ours = [], False
    for line in text.splitlines(keepends=True):
        is_ours = bool(header.match(line)) if line.lstrip().startswith("[") else is_ours
        if not is_ours:
            kept.append(line)
    others = {name: server for name, server in servers.items() if name != place.name}
    wanted = {**before, place.table: others} if others else {k: v for k, v in before.items() if k != place.table}
    return _check_toml("".join(kept).rstrip("\r\n") + _newline(text) if "".join(kept).strip() else "", wanted, place)


def _parse_toml(text: str) -> dict[str, Any]:
    # Only where it is needed: the command that starts a server would pay for loading it.
    import tomllib

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise NotEditable(f"it is not TOML: {error}") from error


def _check_toml(after: str, wanted: object, place: Place) -> str:
    try:
        is_right = _parse_toml(after) == wanted
    except NotEditable:
        is_right = False
    if not is_right:
        raise NotEditable(f"{place.table} is written in a form that cannot be edited")
    return after


def _put_yaml(text: str, place: Place, values: Mapping[str, Any]) -> str:
    end, lines = _newline(text), text.splitlines(keepends=True)
    table = _find_yaml_table(lines, place)
    entry = f"{place.name}: {json.dumps(values, ensure_ascii=False)}{end}"
    if table is None:
        return text + ("" if text.endswith("\n") else end) + f"{place.table}:{end}  {entry}"
    block = _find_yaml_entry(lines, table, place)
    if block:
        if "".join(lines[slice(*block)]).strip() == entry.strip():
            return text
        raise DifferentEntry(f"{place.table}.{place.name} is there already with other values")
    following = next((line for line in lines[table + 1 :] if line.strip() and not line.lstrip().startswith("#")), "")
    indent = following[: len(following) - len(following.lstrip(" "))] or "  "
    lines[table] = lines[table] if lines[table].endswith("\n") else lines[table] + end
    return "".join([*lines[: table + 1], indent + entry, *lines[table + 1 :]])


def _remove_yaml(text: str, place: Place) -> str:
    lines = text.splitlines(keepends=True)
    table = _find_yaml_table(lines, place)
    block = None if table is None else _find_yaml_entry(lines, table, place)
    return text if block is None else "".join([*lines[: block[0]], *lines[block[1] :]])


def _find_yaml_table(lines: list[str], place: Place) -> int | None:
    for number, line in enumerate(lines):
        if re.match(rf"[\"']?{re.escape(place.table)}[\"']?\s*:", line):
            if not re.fullmatch(rf"{re.escape(place.table)}:\s*(#.*)?", line.strip()):
                raise NotEditable(f"{place.table} is written in a form that cannot be edited")
            return number
    return None


def _find_yaml_entry(lines: list[str], table: int, place: Place) -> tuple[int, int] | None:
    """Return the first line of an entry, and the one after its last."""
    start, indent = None, 0
    for number in range(table + 1, len(lines)):
        line = lines[number]
        depth = len(line) - len(line.lstrip(" "))
        if line.strip() and start is not None and depth <= indent:
            return start, number
        if line.strip() and not line.startswith((" ", "#")):
            return None
        if start is None and re.match(rf"\s+[\"']?{re.escape(place.name)}[\"']?\s*:", line):
            start, indent = number, depth
    return None if start is None else (start, len(lines))


_PUT = {"json": _put_json, "toml": _put_toml, "yaml": _put_yaml}
_REMOVE = {"json": _remove_json, "toml": _remove_toml, "yaml": _remove_yaml}
