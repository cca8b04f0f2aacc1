"""A ``NamedTuple`` that is made at a tenth of the cost of the one in ``typing``.

The standard one compiles the source of a constructor for each class and checks each annotation, about 0.1 ms: with the
180 classes that a search imports, a sixth of the time of a whole command. Here there is one compiled constructor for
each number of fields, which is copied with the names of the fields. A type checker sees ``typing.NamedTuple``, and
reports what that would refuse: a name that begins with an underscore, or a field without a default after one with a
default.
"""

import sys
from types import FunctionType

TYPE_CHECKING = False
# Since Python 3.14 the names of the fields are no longer at hand in the body of a class.
if TYPE_CHECKING or sys.version_info >= (3, 14):
    from typing import NamedTuple
else:
    from _collections import _tuplegetter as make_getter

    # As in the standard one, which changed its mind.
    _UNKNOWN_FIELD = TypeError if sys.version_info >= (3, 13) else ValueError

    def _make(cls, values):
        made = tuple.__new__(cls, values)
        if len(made) != len(cls._fields):
            raise TypeError(f"Expected {len(cls._fields)} arguments, got {len(made)}")
        return made

    def _replace(self, /, **changes):
        values, fields = list(self), self._fields
        try:
            for name, value in changes.items():
                values[fields.index(name)] = value
        except ValueError:
            unknown = [name for name in changes if name not in fields]
            raise _UNKNOWN_FIELD(f"Got unexpected field names: {unknown!r}") from None
        return tuple.__new__(self.__class__, values)

    def _asdict(self):
        return dict(zip(self._fields, self, strict=True))

    def _show(self):
        values = ", ".join(f"{name}={value!r}" for name, value in zip(self._fields, self, strict=True))
        return f"{self.__class__.__name__}({values})"

    def _list_arguments(self):
        return tuple(self)

    #: What is the same for all.
    _SHARED = {
        "_make": classmethod(_make),
        "_replace": _replace,
        "__replace__": _replace,
        "_asdict": _asdict,
        "__repr__": _show,
        "__getnewargs__": _list_arguments,
        "__slots__": (),
    }

    _new = tuple.__new__
    # The constructors of up to 24 fields, compiled with this file: to compile one takes 0.1 ms.
    # fmt: off
    _CONSTRUCTORS = (
        lambda _cls: _new(_cls, ()),
        lambda _cls, a: _new(_cls, (a,)),
        lambda _cls, a, b: _new(_cls, (a, b)),
        lambda _cls, a, b, c: _new(_cls, (a, b, c)),
        lambda _cls, a, b, c, d: _new(_cls, (a, b, c, d)),
        lambda _cls, a, b, c, d, e: _new(_cls, (a, b, c, d, e)),
        lambda _cls, a, b, c, d, e, f: _new(_cls, (a, b, c, d, e, f)),
        lambda _cls, a, b, c, d, e, f, g: _new(_cls, (a, b, c, d, e, f, g)),
        lambda _cls, a, b, c, d, e, f, g, h: _new(_cls, (a, b, c, d, e, f, g, h)),
        lambda _cls, a, b, c, d, e, f, g, h, i: _new(_cls, (a, b, c, d, e, f, g, h, i)),
        lambda _cls, a, b, c, d, e, f, g, h, i, j: _new(_cls, (a, b, c, d, e, f, g, h, i, j)),
        lambda _cls, a, b, c, d, e, f, g, h, i, j, k: _new(_cls, (a, b, c, d, e, f, g, h, i, j, k)),
        lambda _cls, a, b, c, d, e, f, g, h, i, j, k, m: _new(_cls, (a, b, c, d, e, f, g, h, i, j, k, m)),
        lambda _cls, a, b, c, d, e, f, g, h, i, j, k, m, n: _new(_cls, (a, b, c, d, e, f, g, h, i, j, k, m, n)),
        lambda _cls, a, b, c, d, e, f, g, h, i, j, k, m, n, o: _new(_cls, (a, b, c, d, e, f, g, h, i, j, k, m, n, o)),
        lambda _cls, a, b, c, d, e, f, g, h, i, j, k, m, n, o, p:
            _new(_cls, (a, b, c, d, e, f, g, h, i, j, k, m, n, o, p)),
        lambda _cls, a, b, c, d, e, f, g, h, i, j, k, m, n, o, p, q:
            _new(_cls, (a, b, c, d, e, f, g, h, i, j, k, m, n, o, p, q)),
        lambda _cls, a, b, c, d, e, f, g, h, i, j, k, m, n, o, p, q, r:
            _new(_cls, (a, b, c, d, e, f, g, h, i, j, k, m, n, o, p, q, r)),
        lambda _cls, a, b, c, d, e, f, g, h, i, j, k, m, n, o, p, q, r, s:
            _new(_cls, (a, b, c, d, e, f, g, h, i, j, k, m, n, o, p, q, r, s)),
        lambda _cls, a, b, c, d, e, f, g, h, i, j, k, m, n, o, p, q, r, s, t:
            _new(_cls, (a, b, c, d, e, f, g, h, i, j, k, m, n, o, p, q, r, s, t)),
        lambda _cls, a, b, c, d, e, f, g, h, i, j, k, m, n, o, p, q, r, s, t, u:
            _new(_cls, (a, b, c, d, e, f, g, h, i, j, k, m, n, o, p, q, r, s, t, u)),
        lambda _cls, a, b, c, d, e, f, g, h, i, j, k, m, n, o, p, q, r, s, t, u, v:
            _new(_cls, (a, b, c, d, e, f, g, h, i, j, k, m, n, o, p, q, r, s, t, u, v)),
        lambda _cls, a, b, c, d, e, f, g, h, i, j, k, m, n, o, p, q, r, s, t, u, v, w:
            _new(_cls, (a, b, c, d, e, f, g, h, i, j, k, m, n, o, p, q, r, s, t, u, v, w)),
        lambda _cls, a, b, c, d, e, f, g, h, i, j, k, m, n, o, p, q, r, s, t, u, v, w, x:
            _new(_cls, (a, b, c, d, e, f, g, h, i, j, k, m, n, o, p, q, r, s, t, u, v, w, x)),
        lambda _cls, a, b, c, d, e, f, g, h, i, j, k, m, n, o, p, q, r, s, t, u, v, w, x, y:
            _new(_cls, (a, b, c, d, e, f, g, h, i, j, k, m, n, o, p, q, r, s, t, u, v, w, x, y)),
    )
    # fmt: on

    def _find_constructor(count):
        """Return the code of a constructor with as many fields."""
        if count < len(_CONSTRUCTORS):
            return _CONSTRUCTORS[count].__code__
        names = "".join(f"_{number}, " for number in range(count))
        return eval(f"lambda _cls, {names}: _new(_cls, ({names}))").__code__

    def _make_constructor(name, types, defaults):
        code = _find_constructor(len(types)).replace(co_varnames=("_cls", *types))
        made = FunctionType(code, globals(), "__new__", defaults)
        made.__qualname__ = f"{name}.__new__"
        made.__annotations__ = types
        return made

    class _FieldsToTuple(type):
        """Makes a subclass of ``tuple`` out of the body of a class."""

        def __new__(cls, name, bases, body):
            if not bases:
                return super().__new__(cls, name, bases, body)
            types = body.get("__annotations__", {})
            fields = tuple(types)
            defaults = {field: body[field] for field in fields if field in body}
            getters = {field: make_getter(number, "") for number, field in enumerate(fields)}
            made = {
                "__new__": _make_constructor(name, types, tuple(defaults.values())),
                "__match_args__": fields,
                "_fields": fields,
                "_field_defaults": defaults,
            }
            return type(name, (tuple, *bases[1:]), {**_SHARED, **made, **body, **getters})

    class NamedTuple(metaclass=_FieldsToTuple):
        """The base of a class whose annotations are the fields of a tuple."""


__all__ = ["NamedTuple"]
