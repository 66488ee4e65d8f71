"""Identifies a function that was given by the caller.

A name is not enough: two lambdas, two closures or two objects of one class share it, and an edited
function keeps it. So a callable is identified by its code, by the values that it carries and by
the functions, classes and variables that it uses, as far as these can be compared between
processes. Python itself and installed packages are identified by name and version.
"""

from __future__ import annotations

import copyreg
import dis
import functools
import hashlib
import importlib.util
import inspect
import sys
import sysconfig
import threading
import types
import uuid
import warnings
import weakref
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from importlib.machinery import PathFinder
from pathlib import Path, PurePath
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar, cast

Anything: TypeAlias = Callable[..., object]
T = TypeVar("T")

_MOST: Final = 200_000
"""Values that are looked at; who carries more should be given a name."""
_SHORT: Final = 12
_PLAIN: Final = (type(None), bool, int, float, complex, str, bytes, bytearray, range)
_LONG_INT: Final = 2000
"""Bits; Python refuses to write longer numbers in decimal digits, from 640 digits on at its most
strict."""
_LOCKS: Final = (type(threading.Lock()), type(threading.RLock()))
"""What may be carried along and never changes an answer."""
_CACHED: Final = type(functools.lru_cache(len))
_STANDARD: Final = Path(sysconfig.get_path("stdlib"))
_INSTALLED: Final = {"site-packages", "dist-packages"}
_OF_A_CLASS: Final = {"_abc_impl", "__module__", "__doc__", "__dict__", "__weakref__"}
"""Parts of a class that are not its author's."""


_MADE_AT_RUN_TIME: Final = 1 << 9
"""A flag of a class (Py_TPFLAGS_HEAPTYPE); without it, the class is compiled into Python or an
extension, and can be under another name in its module."""


class NotReusedWarning(UserWarning):
    """Results of a callable will not be found again in another process."""


@dataclass(frozen=True, slots=True)
class CallableIdentity:
    name: str
    """Module and qualified name, for people."""
    text: str
    """Equal for two callables if and only if one may stand in for the other."""
    doubt: str = ""
    """What it carries that cannot be compared between processes; then `text` is good for the life
    of the object only."""


class _Parts(NamedTuple):
    code: bytes
    state: bytes
    uses: bytes


@dataclass(slots=True)
class _ByObject(Generic[T]):
    """Values of living objects, by name: a new object at the same address has none."""

    _kept: dict[tuple[int, str], tuple[weakref.ref[object], T]] = field(
        default_factory=dict[tuple[int, str], tuple[weakref.ref[object], T]]
    )

    def get(self, owner: object, name: str) -> T | None:
        alive, value = self._kept.get((id(owner), name), (None, None))
        return value if alive is not None and alive() is owner else None

    def put(self, owner: object, name: str, value: T) -> None:
        """Nothing is kept of an object of which nobody can tell when it is gone."""
        for place in [place for place, (alive, _) in self._kept.items() if alive() is None]:
            del self._kept[place]
        with suppress(TypeError):
            self._kept[id(owner), name] = (weakref.ref(owner), value)


_lives: Final = _ByObject[str]()
_after_use: Final = _ByObject[tuple[CallableIdentity, str]]()
"""Of a callable that was in use: who it was, and what it would be called if it were new."""
_warned: Final = set[str]()


def identify(function: Anything) -> CallableIdentity:
    """Who this callable is: by the `fingerprint` it declares, else by what it is made of.

    What a callable changes itself while it is in use (a counter, a cache) does not make it another
    one, if `used` was told; what anybody else changes does.
    """
    identity = _identify(function)
    before = _after_use.get(_holder(function), identity.name)
    if before is not None and before[1] == identity.text:
        identity = before[0]
    if identity.doubt and identity.text not in _warned:
        _warned.add(identity.text)
        warnings.warn(
            f"{identity.name}: finished work is reused in this process only, because it uses "
            f"{identity.doubt}, which cannot be compared between processes. To continue a run "
            "elsewhere, give the callable a text attribute `fingerprint`, and change that text "
            "whenever its answers may change.",
            NotReusedWarning,
            stacklevel=3,
        )
    return identity


def used(function: Anything, identity: CallableIdentity) -> None:
    """The work with this callable is over: what it has become, it became by itself."""
    now = _identify(function)
    _after_use.put(_holder(function), now.name, (identity, now.text))


def name_of(function: Anything) -> str:
    """Module and qualified name; those of its class for an object that can be called."""
    return reference(function).replace(":", ".")


def reference(function: Anything) -> str:
    """The same as `module:name`, as a configuration would write it."""
    inner: object = function
    while isinstance(inner, functools.partial):
        inner = cast("functools.partial[object]", inner).func
    named = inner if hasattr(inner, "__qualname__") else type(inner)
    return f"{getattr(named, '__module__', None)}:{getattr(named, '__qualname__', '')}"


def _holder(function: Anything) -> object:
    """What lives on between two uses: a method is made anew for each."""
    return function.__self__ if isinstance(function, types.MethodType) else function


def _identify(function: Anything) -> CallableIdentity:
    name = name_of(function)
    if declared := _declared(function) or _declared(_holder(function)):
        return CallableIdentity(name, f"{name}/fingerprint={declared}")
    look = _Look()
    try:
        parts = look.parts(function)
    except (RecursionError, _TooLarge):
        parts = _Parts(b"", look.unlike(function), b"")
    digests = [f"{part}={digest.hex()[:_SHORT]}" for part, digest in parts._asdict().items()]
    text = "/".join([name, *digests, str(sys.implementation.cache_tag)])
    return CallableIdentity(name, text, look.doubts[0] if look.doubts else "")


def _declared(value: object) -> str:
    """The fingerprint that an object gives itself."""
    if isinstance(value, (type, types.ModuleType)):
        return ""
    try:
        found = getattr(value, "fingerprint", None)
    except Exception:  # noqa: BLE001 - somebody's property; then there is none
        return ""
    return found if isinstance(found, str) else ""


def _digest(tag: str, parts: Iterable[bytes]) -> bytes:
    """Lengths go first, so that no two sequences read the same once joined."""
    made = hashlib.sha256(tag.encode("utf-8", "surrogatepass"))
    for part in parts:
        made.update(b"%d:" % len(part))
        made.update(part)
    return made.digest()


class _TooLarge(Exception):
    """More is carried than is worth looking at."""


@dataclass(slots=True)
class _Look:
    """One walk through everything that a callable is made of."""

    doubts: list[str] = field(default_factory=list[str])
    _left: int = _MOST
    _done: dict[int, bytes] = field(default_factory=dict[int, bytes])
    _kept: list[object] = field(default_factory=list[object])
    """What was met, held so that no two things share an id."""
    _open: set[int] = field(default_factory=set[int])

    def parts(self, function: object) -> _Parts:
        """Code, values carried and names used, each on its own."""
        match function:
            case _ if declared := _declared(function):
                return _Parts(_digest("declared", (_bytes(declared),)), b"", b"")
            case types.FunctionType() if not _package_of(function):
                return self._function(function)
            case types.MethodType():
                inner = self.parts(function.__func__)
                return inner._replace(
                    state=_digest("on", (inner.state, self.of(function.__self__)))
                )
            case functools.partial():
                whole = cast("functools.partial[object]", function)
                inner = self.parts(whole.func)
                bound = (inner.state, self.of(whole.args), self.of(whole.keywords))
                return inner._replace(state=_digest("partial", bound))
            case _:
                called = None if isinstance(function, type) else type(function)
                call = inspect.getattr_static(called, "__call__", None)
                if not isinstance(call, types.FunctionType) or _package_of(call):
                    # A class, or what is not written in Python, counts as a whole.
                    return _Parts(self.of(function), b"", b"")
                inner = self.parts(call)
                return inner._replace(state=_digest("on", (inner.state, self.of(function))))

    def of(self, value: object) -> bytes:
        """A digest of a value; the same in every process, or noted as a doubt."""
        self._left -= 1
        if self._left < 0:
            raise _TooLarge
        if type(value) in _PLAIN:
            return _digest(type(value).__name__, (_bytes(value),))
        if id(value) in self._done:
            return self._done[id(value)]
        if id(value) in self._open:
            return _digest("again", (type(value).__qualname__.encode(),))
        self._open.add(id(value))
        self._kept.append(value)
        try:
            found = self._met(value)
        finally:
            self._open.discard(id(value))
        self._done[id(value)] = found
        return found

    def unlike(self, value: object) -> bytes:
        """A value that can be compared with nothing but itself: it gets a name of its own."""
        kind = type(value)
        self.doubts.append(f"an object of {kind.__module__}.{kind.__qualname__}")
        name = _lives.get(value, "") or uuid.uuid4().hex
        _lives.put(value, "", name)
        return _digest("only", (name.encode(),))

    def _met(self, value: object) -> bytes:
        if (declared := _declared(value)) and not isinstance(value, types.MethodType):
            return _digest("declared", (_bytes(declared), _bytes(type(value).__qualname__)))
        if isinstance(value, type):
            return self._class(value)
        if isinstance(value, Enum):
            return _digest(value.name, (self.of(type(value)),))
        look = _LOOKS.get(type(value))
        return self._object(value) if look is None else look(self, value)

    def all(self, tag: str, values: Iterable[object]) -> bytes:
        """A digest of several values, in order."""
        return _digest(tag, [self.of(value) for value in values])

    def _object(self, value: object) -> bytes:
        """Any other object: by its class, its attributes and the state it would be pickled with.

        Pickling alone may leave out attributes on purpose, such as a connection.
        """
        try:
            special = copyreg.dispatch_table.get(type(value))
            reduced = value.__reduce_ex__(4) if special is None else special(value)
            if isinstance(reduced, str):
                package = _package(getattr(value, "__module__", "") or "")
                named = _named(value, package, pickled_as=reduced)
                return _digest("global", (named, self._attributes(value)))
            make, arguments, state, *items = (*reduced, None, None, None)[:5]
            if isinstance(value, PurePath):
                arguments = value.parts  # from Python 3.13 on as it was put together
            inside = [list(cast("Iterable[object]", item or ())) for item in items]
        except Exception:  # noqa: BLE001 - a file, a connection: whatever cannot be pickled
            return self.unlike(value)
        found = [self.of(type(value)), self.of(make), self.of(arguments), self._state(state)]
        return _digest("object", [*found, self.of(inside), self._attributes(value)])

    def _attributes(self, value: object) -> bytes:
        """The attributes that an object of a class of the user's has, in its dict and its slots.

        Those of Python's and packages' classes may be caches, so there pickling decides.
        """
        own = [kind for kind in type(value).__mro__ if not _package_of(kind)]
        if not own:
            return b""
        found: list[tuple[str, object]] = []
        with suppress(AttributeError):
            attributes: dict[str, object] = object.__getattribute__(value, "__dict__")
            found += attributes.items()
        for kind in own:
            for name, slot in list(vars(kind).items()):
                if isinstance(slot, types.MemberDescriptorType):
                    with suppress(AttributeError):
                        found.append((name, slot.__get__(value)))
        found.sort(key=lambda attribute: _bytes(attribute[0]))
        return _digest("attributes", [_digest(name, (self.of(it),)) for name, it in found])

    def _state(self, state: object) -> bytes:
        """The attributes of an object, in whatever order they were set."""
        match state:
            case tuple():
                return _digest(
                    "slots", [self._state(part) for part in cast("tuple[object, ...]", state)]
                )
            case dict():
                found = cast("dict[object, object]", state).items()
                named = sorted(found, key=lambda attribute: _bytes(attribute[0]))
                return self.all("state", (part for item in named for part in item))
            case _:
                return self.of(state)

    def _class(self, kind: type[Any]) -> bytes:
        """A class; one of the user's by its bases, methods and values."""
        if package := _package_of(kind):
            return _named(kind, package)
        if issubclass(kind, Enum):
            members: dict[str, object] = {
                name: member.value for name, member in kind.__members__.items()
            }
            return _digest(kind.__qualname__, (self.of(members),))
        inside = [
            (name, value) for name, value in sorted(vars(kind).items()) if _written(name, value)
        ]
        bases = self.all("bases", (type(kind), *kind.__bases__))
        return _digest(
            kind.__qualname__, (bases, self.all("class", (x for it in inside for x in it)))
        )

    def define(self, function: types.FunctionType) -> bytes:
        """A function that is used, not the one that is asked."""
        package = _package_of(function)
        return _named(function, package) if package else _digest("def", self._function(function))

    def builtin(self, function: types.BuiltinFunctionType) -> bytes:
        """A function that is not written in Python, or a method of such an object."""
        owner: object = function.__self__
        if owner is None or isinstance(owner, types.ModuleType):
            return _named(function, _package(function.__module__))
        return _digest(function.__name__, (self.of(owner),))

    def module(self, module: types.ModuleType) -> bytes:
        """A module that is carried as a value."""
        origin = _package_of(module).encode() or _file(module)
        if not origin:  # it was made at run time: nobody knows what it will answer elsewhere
            return self.unlike(module)
        return _digest("module", (_bytes(module.__name__), origin))

    def _function(self, function: types.FunctionType) -> _Parts:
        code = function.__code__
        names = _names(code)
        cells = {
            name: self._cell(cell)
            for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True)
            if name not in names.kept
        }
        state = [_digest(name, (found,)) for name, found in sorted(cells.items())]
        state += [self.of(function.__defaults__), self.of(function.__kwdefaults__)]
        state.append(self._state(function.__dict__))
        known: Mapping[str, object] = function.__globals__
        uses = [
            _digest(name, (self._used(known[name], names.all),))
            for name in sorted(names.globals - names.kept)
            if name in known
        ]
        package = str(known.get("__package__") or "")
        uses += [_imported(name, level, package) for name, level in sorted(names.imports)]
        parts = (_part(name, level, package, part) for name, level, part in sorted(names.parts))
        uses += [part for part in parts if part]
        return _Parts(self.of(code), _digest("state", state), _digest("uses", uses))

    def _cell(self, cell: types.CellType) -> bytes:
        try:
            value: object = cell.cell_contents
        except ValueError:
            return b"empty"
        return self.of(value)

    def _used(self, value: object, names: frozenset[str]) -> bytes:
        """What a global name stands for; of a module of the user's, its text and what is used.

        The text counts because the module may be handed on, and because a module may make up
        attributes when they are asked for.
        """
        if not isinstance(value, types.ModuleType) or _package_of(value):
            return self.of(value)
        if id(value) in self._open:
            return b"again"
        self._open.add(id(value))
        try:
            inside = vars(value)
            found = [
                _digest(name, (self._used(inside[name], names),))
                for name in sorted(names)
                if name in inside
            ]
        finally:
            self._open.discard(id(value))
        return _digest(value.__name__, [self.module(value), *found])

    def code(self, code: types.CodeType) -> bytes:
        """What is computed; neither where it is written nor on which line."""
        counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
        names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
        caught: bytes = getattr(code, "co_exceptiontable", b"")
        return self.all("code", (code.co_code, caught, counts, names, code.co_consts))


def _set(look: _Look, values: set[object] | frozenset[object]) -> bytes:
    return _digest(type(values).__name__, sorted(look.of(value) for value in values))


def _dict(look: _Look, values: dict[object, object]) -> bytes:
    return look.all("dict", (part for item in list(values.items()) for part in item))


# Any, because each of these takes what its key says.
_LOOKS: Final[Mapping[type, Callable[[_Look, Any], bytes]]] = {
    types.FunctionType: _Look.define,
    types.BuiltinFunctionType: _Look.builtin,
    types.ModuleType: _Look.module,
    types.CodeType: _Look.code,
    types.MethodType: lambda look, it: _digest("call", look.parts(it)),
    functools.partial: lambda look, it: _digest("call", look.parts(it)),
    staticmethod: lambda look, it: _digest("static", (look.of(it.__func__),)),
    classmethod: lambda look, it: _digest("class", (look.of(it.__func__),)),
    property: lambda look, it: look.all("property", (it.fget, it.fset, it.fdel)),
    _CACHED: lambda look, it: _digest("cached", (look.of(it.__wrapped__),)),
    tuple: lambda look, it: look.all("tuple", it),
    list: lambda look, it: look.all("list", tuple(it)),
    dict: _dict,
    weakref.ref: lambda look, it: _digest("weak", (look.of(it()),)),
    types.MappingProxyType: lambda look, it: _dict(look, dict(it)),
    set: _set,
    frozenset: _set,
    **dict.fromkeys(_LOCKS, lambda look, it: b"lock"),
}


class _Names(NamedTuple):
    """The names in a function and in those that are defined inside of it."""

    globals: frozenset[str]
    kept: frozenset[str]
    """Variables that it sets itself: its working memory, not what it is."""
    all: frozenset[str]
    imports: frozenset[tuple[str, int]]
    """Modules that it imports when it runs, with the dots in front."""
    parts: frozenset[tuple[str, int, str]]
    """What it imports from them, each of which may be a module as well."""


def _names(code: types.CodeType) -> _Names:
    loads, kept, names = set[str](), set[str](), set[str]()
    imports, parts = set[tuple[str, int]](), set[tuple[str, int, str]]()
    waiting = [code]
    while waiting:
        inner = waiting.pop()
        names.update(inner.co_names)
        waiting += [const for const in inner.co_consts if isinstance(const, types.CodeType)]
        steps = [step for step in dis.get_instructions(inner) if step.opname != "EXTENDED_ARG"]
        for place, step in enumerate(steps):
            match step.opname:
                case "LOAD_GLOBAL" | "LOAD_NAME":
                    loads.add(str(step.argval))
                case "STORE_GLOBAL":
                    kept.add(str(step.argval))
                case "STORE_DEREF" if step.argval in code.co_freevars:
                    kept.add(str(step.argval))
                case "IMPORT_NAME":
                    level, chosen = int(steps[place - 2].argval), steps[place - 1].argval
                    imports.add((str(step.argval), level))
                    parts.update((str(step.argval), level, str(part)) for part in chosen or ())
                case _:
                    pass
    return _Names(
        frozenset(loads), frozenset(kept), frozenset(names), frozenset(imports), frozenset(parts)
    )


def _written(name: str, value: object) -> bool:
    """Whether a part of a class is its author's and not Python's or a decorator's bookkeeping."""
    if name in _OF_A_CLASS:
        return False
    called = isinstance(value, (types.FunctionType, staticmethod, classmethod, property))
    return called or not (name.startswith("__") and name.endswith("__"))


def _named(value: object, package: str, *, pickled_as: str = "") -> bytes:
    """What counts by its name: it is Python's or a package's, or not written in Python."""
    module = str(getattr(value, "__module__", "") or "")
    name = str(getattr(value, "__qualname__", pickled_as or type(value).__qualname__))
    origin = package.encode() or _file(sys.modules.get(module))
    return _digest("named", (_bytes(module), _bytes(name), origin))


def _package_of(value: types.FunctionType | types.ModuleType | type[object]) -> str:
    """The package that defines this; blank for what is not found in a package under its name.

    What a function or class says about its module is not enough: `exec` takes it from a variable,
    `functools.wraps` copies it, and what a function of a package has made carries values.
    """
    if isinstance(value, types.ModuleType):
        return _package(value.__name__) if sys.modules.get(value.__name__) is value else ""
    package = _package(value.__module__)
    if not package or (isinstance(value, type) and not value.__flags__ & _MADE_AT_RUN_TIME):
        return package
    found: object = sys.modules.get(value.__module__)
    for name in value.__qualname__.split("."):
        inside: Mapping[str, object] = getattr(found, "__dict__", {})
        found = inside.get(name)
    held = [found]  # of a class also what it keeps inside of a descriptor
    held += [getattr(found, name, None) for name in ("__func__", "fget", "fset", "fdel")]
    return package if any(each is value for each in held) else ""


@functools.lru_cache(maxsize=4096)
def _package(module: str | None) -> str:
    """The package that a module belongs to, with its version; blank for code of the user's own."""
    top = (module or "builtins").partition(".")[0]
    found = sys.modules.get(top)
    file = str(getattr(found, "__file__", None) or "")
    if top in sys.stdlib_module_names and (not file or Path(file).is_relative_to(_STANDARD)):
        return "python"
    if top == __name__.partition(".")[0] or _INSTALLED & set(Path(file).parts):
        return f"{top} {getattr(found, '__version__', '')}"
    return ""


def _imported(name: str, level: int, package: str) -> bytes:
    """A module that is imported when the function runs."""
    try:
        whole = importlib.util.resolve_name("." * level + name, package or None)
        if whole.partition(".")[0] in sys.stdlib_module_names:
            return _digest("import", (_bytes(whole),))
        spec = importlib.util.find_spec(whole)
    except (ImportError, ValueError, AttributeError):
        return _digest("absent", (_bytes(name),))
    origin = spec.origin if spec is not None else None
    return _digest("import", (_bytes(whole), _content(origin) if origin else b""))


def _part(name: str, level: int, package: str, part: str) -> bytes:
    """A module that is imported from its package by name; blank for any other part of a module."""
    try:
        whole = importlib.util.resolve_name("." * level + name, package or None)
        spec = importlib.util.find_spec(whole)
    except (ImportError, ValueError, AttributeError):
        return b""
    if whole.partition(".")[0] in sys.stdlib_module_names or spec is None:
        return b""
    # Not by its whole name, which would import the package.
    found = PathFinder.find_spec(f"{whole}.{part}", spec.submodule_search_locations or ())
    origin = found.origin if found is not None else None
    return _digest("part", (_bytes(f"{whole}.{part}"), _content(origin))) if origin else b""


def _file(module: types.ModuleType | None) -> bytes:
    file = getattr(module, "__file__", None)
    return _content(file) if isinstance(file, str) else b""


def _content(file: str) -> bytes:
    try:
        return hashlib.sha256(Path(file).read_bytes()).digest()
    except OSError:
        return b""


def _bytes(value: object) -> bytes:
    match value:
        case bytes() | bytearray():
            return bytes(value)
        case str():
            return value.encode("utf-8", "surrogatepass")
        case int() if value.bit_length() > _LONG_INT:
            return hex(value).encode()
        case range():
            ends = (value.start, value.stop, value.step)[: 2 if value.step == 1 else 3]
            return b"range(" + b", ".join(map(_bytes, ends)) + b")"
        case _:
            return repr(value).encode()
