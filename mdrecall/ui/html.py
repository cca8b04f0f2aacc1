"""HTML from Python values: every text is escaped unless it is already HTML."""

from collections.abc import Iterable
from html import escape
from typing import TypeAlias, Union

Child: TypeAlias = Union["Html", str, int, float, Iterable["Child"], None]
Attribute: TypeAlias = str | int | float | bool | None
#: Elements that have no end tag.
_VOID = frozenset(("br", "col", "hr", "img", "input", "link", "meta", "wbr"))


class Html(str):
    """Text that is HTML, and is not escaped again. Only ``tag``, ``join`` and the Markdown renderer make it."""

    __slots__ = ()


def tag(element: str, /, *children: Child, **attributes: Attribute) -> Html:
    """Return an element. ``class_`` is the attribute ``class``, ``data_path`` is ``data-path``.

    An attribute that is True stands without a value; one that is None or False is left out.
    """
    opening = [element]
    for key, value in attributes.items():
        if value is True:
            opening.append(_attribute_name(key))
        elif value is not None and value is not False:
            opening.append(f'{_attribute_name(key)}="{escape(str(value))}"')
    start = f"<{' '.join(opening)}>"
    return Html(start if element in _VOID else f"{start}{join(*children)}</{element}>")


def join(*children: Child) -> Html:
    """Return several pieces as one; lists are taken apart, and None is nothing."""
    return Html("".join(map(_render, children)))


def _render(child: Child) -> str:
    if child is None:
        return ""
    if isinstance(child, Html):
        return child
    if isinstance(child, str | int | float):
        return escape(str(child))
    return "".join(map(_render, child))


def _attribute_name(key: str) -> str:
    """Return the name of an attribute; SVG's names in camelCase stay as they are."""
    return key.rstrip("_").replace("_", "-")
