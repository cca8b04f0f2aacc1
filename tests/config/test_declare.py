from mdrecall.config.declare import Section, each_setting, flag, setting, whole


class Inner(Section, is_strict=False):
    max_items: int = setting(whole(1), 3, "How many.")


class Outer(Section):
    enabled: bool = setting(flag(), True, "Whether at all.")
    inner: Inner = Inner()


def test_a_section_lists_its_settings_by_their_names_in_json() -> None:
    assert [name for name, _ in each_setting(Outer)] == ["enabled", "inner.maxItems"]
    assert Outer.entries["inner"] is Inner
    assert (Outer.is_strict, Inner.is_strict) == (True, False)


def test_a_value_without_arguments_holds_the_defaults() -> None:
    assert Outer() == Outer(enabled=True, inner=Inner(max_items=3))
    assert Outer() != Outer(inner=Inner(max_items=4))
    assert Outer(enabled=False)._replace(inner=Inner()) == Outer(enabled=False)
