"""The store of LangGraph, in which every item is a note."""

import asyncio
import operator
from collections.abc import Callable, Container, Iterable, Mapping
from contextlib import suppress
from copy import deepcopy
from typing import TYPE_CHECKING, Any

from mdrecall.adapters._shared import require_extra
from mdrecall.errors import RecallError
from mdrecall.memory import Memory
from mdrecall.sync.soon import start_soon

if TYPE_CHECKING:
    from langgraph.store.base import BaseStore

    from mdrecall.adapters.item_files import StoredItem

#: After more puts than this, a search would not wait until all are indexed.
_FEW = 8
#: How many results a query takes for each item that is wanted: an item may be several results, and a filter leaves some
#: out. If that is too few, it takes up to the second number in all.
_SHARE, _MOST = 3, 1000
_COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "$eq": operator.eq,
    "$ne": operator.ne,
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
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
                    files.put(op)
            self._puts += len(puts)
            if puts:
                start_soon(memory.settings)
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
            return _make(Item, found) if found else None

        def _search(self, op: SearchOp) -> list[SearchItem]:
            prefix, matches = tuple(op.namespace_prefix), _match_fields(op.filter or {})
            items = [item for item in files.find(prefix) if matches(item.value)]
            scores: Mapping[str, float] = {}
            if op.query:
                known = {item.inside: item for item in items if item.index is not False}
                scores = self._rank(op.query, files.folder(prefix), known, min(op.offset + op.limit, len(known)))
                items = [known[inside] for inside in scores]
            shown = items[op.offset : op.offset + op.limit]
            for item in shown if op.refresh_ttl else ():
                files.refresh(item)
            return [_make(SearchItem, item, score=scores.get(item.inside)) for item in shown]

        def _rank(self, query: str, folder: str, known: Container[str], want: int) -> dict[str, float]:
            """Return the scores of the files that a query finds among the known ones, the best first."""
            if self._puts > _FEW:
                with suppress(RecallError):
                    memory.sync()
            self._puts = 0
            scores: dict[str, float] = {}
            for most in (want * _SHARE, _MOST) if want else ():
                found = memory.search(query, paths=[folder], source="memory", min_score=0.0, max_results=most)
                for result in found:
                    if result.path in known:
                        scores.setdefault(result.path, result.score)
                if len(found) < most or len(scores) >= want:
                    break
            return scores

    return MarkdownStore()


def _make(kind: Callable[..., Any], item: "StoredItem", **more: Any) -> Any:
    """Return an item as an object of a class of the framework; its value is a copy, which may be changed."""
    times = {"created_at": item.created, "updated_at": item.updated}
    return kind(namespace=item.namespace, key=item.key, value=deepcopy(item.value), **times, **more)


def _match_fields(wanted: Mapping[str, Any]) -> Callable[[Mapping[str, Any]], bool]:
    """Return a function that says if the fields of a value are as a filter wants them."""
    tests = [(name, _match(each)) for name, each in wanted.items()]
    return lambda value: all(test(value.get(name)) for name, test in tests)


def _match(wanted: Any) -> Callable[[Any], bool]:
    """Return a function that says if a field is as a filter wants it: equal, compared, or with such fields itself."""
    if not isinstance(wanted, dict):
        exact = list(wanted) if isinstance(wanted, tuple) else wanted
        return lambda value: bool(value == exact)
    if not any(name.startswith("$") for name in wanted):
        fields = _match_fields(wanted)
        return lambda value: isinstance(value, dict) and fields(value)
    tests = [_compare(name, each) for name, each in wanted.items()]
    return lambda value: all(test(value) for test in tests)


def _compare(name: str, wanted: Any) -> Callable[[Any], bool]:
    """Return a function that compares a field; what is missing or of another kind has no order, and is not unequal."""
    if name not in _COMPARISONS:
        raise ValueError(f"Unsupported operator: {name}")

    def test(value: Any) -> bool:
        with suppress(TypeError):
            return (value is not None or name == "$eq") and bool(_COMPARISONS[name](value, wanted))
        return False

    return test


def _list_namespaces(namespaces: set[tuple[str, ...]], op: Any) -> list[tuple[str, ...]]:
    """Return the namespaces that pass the conditions, cut to a depth."""
    conditions = op.match_conditions or ()
    kept = (each for each in namespaces if all(_has_labels(each, condition) for condition in conditions))
    return sorted({each[: op.max_depth] for each in kept})[op.offset : op.offset + op.limit]


def _has_labels(namespace: tuple[str, ...], condition: Any) -> bool:
    step = 1 if condition.match_type == "prefix" else -1
    labels, wanted = namespace[::step], tuple(condition.path)[::step]
    return len(labels) >= len(wanted) and all(each in ("*", label) for each, label in zip(wanted, labels, strict=False))
