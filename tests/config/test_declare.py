from typing import NamedTuple

from mdrecall.config.declare import Section, Setting, each_setting, flag, section, section_of, setting, whole
from mdrecall.config.settings import Plugins
from mdrecall.config.settings.memory_search import Chunking, Hybrid


class Inner(NamedTuple):
    max_items: int = setting(whole(1), 3, "How many.")


class Outer(NamedTuple):
    enabled: bool = setting(flag(), True, "Whether at all.")
    inner: Inner = section(Inner, strict=False)


def test_a_section_lists_its_settings_by_their_names_in_json() -> None:
    outer = section_of(Outer)
    assert [name for name, _ in each_setting(outer)] == ["enabled", "inner.maxItems"]
    inner = outer.entries["inner"]
    assert isinstance(inner, Section)
    assert (outer.strict, inner.strict) == (True, False)
    entry = inner.entries["maxItems"]
    assert isinstance(entry, Setting)
    assert (entry.default, entry.about, entry.secret) == (3, "How many.", False)


def test_a_value_without_arguments_holds_the_defaults() -> None:
    section_of(Outer)
    assert Outer() == Outer(enabled=True, inner=Inner(max_items=3))
    assert Chunking() == (400, 80)
    assert Hybrid().mmr.enabled is False
    assert Plugins().slots.memory == "memory-core"
