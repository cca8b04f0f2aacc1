"""The store of LangGraph, in which every item is a note."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from copy import deepcopy
from typing import TYPE_CHECKING, Any

from mdrecall.adapters._shared import require_extra
from mdrecall.errors import RecallError
from mdrecall.memory import Memory

if TYPE_CHECKING:
    from langgraph.store.base import BaseStore

    from mdrecall.adapters.item_files import StoredItem

#: After more puts than this, a search would not wait until all are indexed.
_FEW = 8
#: How many results a query checks per requested item, without a filter and with one. If too few match, it checks up
#: to the third number in all.
_SHARE, _SHARE_FILTERED, _MOST = 2, 8, 1000
_COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "$eq": lambda value, wanted: bool(value == wanted),
    # A field that is missing is not different from anything.
    "$ne": lambda value, wanted: value is not None and bool(value != wanted),
    "$gt": lambda value, wanted: _are_ordered(value, wanted) and bool(value > wanted),
    "$gte": lambda value, wanted: _are_ordered(value, wanted) and bool(value >= wanted),
    "$lt": lambda value, wanted: _are_ordered(value, wanted) and bool(value < wanted),
    "$lte": lambda value, wanted: _are_ordered(value, wanted) and bool(value <= wanted),
}


def markdown_store(memory: Memory, *, ttl: Mapping[str, Any] | None = None) -> "BaseStore":
    """Return a store whose items are notes of this memory; ``ttl`` is LangGraph's ``TTLConfig``.

    Pass it as ``store`` to ``compile`` or to an agent. ``sweep_ttl()`` deletes what has expired.
    """
    with require_extra("langgraph"):
        from langgraph.store.base import BaseStore, GetOp, Item, ListNamespacesOp, PutOp, SearchItem, SearchOp
        from langgraph.store.base import validate_op_namespace as validate
    from mdrecall.adapters.item_files import ItemFiles

    files = ItemFiles(memory)

    class MarkdownStore(BaseStore):  # type: ignore[misc]
        supports_ttl = True

        def __init__(self) -> None:
            self.ttl_config = ttl
            self._puts = 0

        def batch(self, ops: Iterable[Any]) -> list[Any]:
            results: list[Any] = []
            puts: dict[tuple[tuple[str, ...], str], Any] = {}
            ops = list(ops)
            for op in ops:
                validate(op)
            for op in ops:
                if isinstance(op, PutOp):
                    puts[op.namespace, op.key] = op
                    results.append(None)
                elif isinstance(op, GetOp):
                    results.append(self._get(op))
                elif isinstance(op, SearchOp):
                    results.append(self._search(op))
                elif isinstance(op, ListNamespacesOp):
                    results.append(_list_namespaces({item.namespace for item in files.find(())}, op))
                else:
                    raise ValueError(f"Unknown operation type: {type(op)}")
            for op in puts.values():
                if op.value is None:
                    files.delete(op.namespace, op.key)
                else:
                    files.put(op.namespace, op.key, op.value, index=op.index, ttl=op.ttl)
            self._puts += len(puts)
            if puts:
                files.start_sync()
            return results

        async def abatch(self, ops: Iterable[Any]) -> list[Any]:
            return await asyncio.to_thread(self.batch, list(ops))

        def sweep_ttl(self) -> int:
            """Delete what has expired, and return how many items that were."""
            return files.sweep()

        def _get(self, op: GetOp) -> Item | None:
            found = files.get(op.namespace, op.key)
            if found and op.refresh_ttl:
                files.refresh(found)
            return Item(**_fields(found)) if found else None

        def _search(self, op: SearchOp) -> list[SearchItem]:
            prefix, matches = tuple(op.namespace_prefix), _match_fields(op.filter or {})
            items = [item for item in files.find(prefix) if matches(item.value)]
            scores: Mapping[str, float] = {}
            if op.query:
                known = {item.inside: item for item in items if item.index is not False}
                want, items = min(op.offset + op.limit, len(known)), []
                for most in (want * (_SHARE_FILTERED if op.filter else _SHARE), _MOST) if want else ():
                    scores, is_all = self._rank(op.query, files.folder(prefix), most)
                    items = [known[inside] for inside in scores if inside in known]
                    if is_all or len(items) >= want:
                        break
            shown = items[op.offset : op.offset + op.limit]
            for item in shown if op.refresh_ttl else ():
                files.refresh(item)
            return [SearchItem(**_fields(item), score=scores.get(item.inside)) for item in shown]

        def _rank(self, query: str, folder: str, most: int) -> tuple[dict[str, float], bool]:
            """Return the paths that a query finds, best first, with their scores; True if there are no more."""
            if self._puts > _FEW:
                with suppress(RecallError):
                    memory.sync()
            self._puts = 0
            found = memory.search(query, paths=[folder], source="memory", min_score=0.0, max_results=most)
            scores: dict[str, float] = {}
            for result in found:
                scores.setdefault(result.path, result.score)
            return scores, len(found) < most

    return MarkdownStore()


def _fields(item: "StoredItem") -> dict[str, Any]:
    """Return what the framework's own class takes; the value is a copy, which may be changed."""
    value = deepcopy(item.value)
    return {
        "namespace": item.namespace,
        "key": item.key,
        "value": value,
        "created_at": item.created,
        "updated_at": item.updated,
    }


def _match_fields(wanted: Mapping[str, Any]) -> Callable[[Mapping[str, Any]], bool]:
    """Return what says if the fields of a value are as a filter wants them."""
    tests = [(name, _match(each)) for name, each in wanted.items()]
    return lambda value: all(test(value.get(name)) for name, test in tests)


def _match(wanted: Any) -> Callable[[Any], bool]:
    if not isinstance(wanted, dict):
        exact = list(wanted) if isinstance(wanted, tuple) else wanted
        return lambda value: bool(value == exact)
    if not any(name.startswith("$") for name in wanted):
        fields = _match_fields(wanted)
        return lambda value: isinstance(value, dict) and fields(value)
    if unknown := wanted.keys() - _COMPARISONS.keys():
        raise ValueError(f"Unsupported operator: {min(unknown)}")
    tests = [(_COMPARISONS[name], each) for name, each in wanted.items()]
    return lambda value: all(compare(value, each) for compare, each in tests)


def _are_ordered(value: Any, wanted: Any) -> bool:
    """True if two values can be compared: two numbers or two texts."""
    are_numbers = all(isinstance(each, int | float) and not isinstance(each, bool) for each in (value, wanted))
    return are_numbers or (isinstance(value, str) and isinstance(wanted, str))


def _list_namespaces(namespaces: set[tuple[str, ...]], op: Any) -> list[tuple[str, ...]]:
    """Return the namespaces that pass the conditions, cut to a depth."""
    conditions = op.match_conditions or ()
    kept = (each for each in namespaces if all(_has_labels(each, condition) for condition in conditions))
    return sorted({each[: op.max_depth] for each in kept})[op.offset : op.offset + op.limit]


def _has_labels(namespace: tuple[str, ...], condition: Any) -> bool:
    path = tuple(condition.path)
    part = (
        namespace[: len(path)] if condition.match_type == "prefix" else namespace[max(0, len(namespace) - len(path)) :]
    )
    return len(part) == len(path) and all(wanted in ("*", label) for label, wanted in zip(part, path, strict=True))
