"""Templates in definition files: Jinja's syntax, of which this module carries out a small part, within bounds.

A definition, or a workload above all, may come from a stranger. Jinja compiles a template to Python code, which can
reach every object of the process. Here its parser makes a tree, and only the nodes listed below are evaluated. There is
no access to attributes, no call but ``range``, and no operator that multiplies a text. A ``Budget`` bounds the work and
the text of all templates that belong together.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, TemplateError, nodes

from dragstrip.contender.budget import MOST_STEPS, Budget, TemplateRefused, budget

#: Levels of brackets, loops and operators within each other.
DEEPEST = 60

#: Bits of a whole number: what no server computes with, and quick to print.
MOST_BITS = 1024

_PARSER = Environment(keep_trailing_newline=True)

#: Values that can be compared, printed and computed with.
_PLAIN = (str, int, float, type(None))


@dataclass(slots=True)
class _Scope:
    """The names that a part of a template knows, and what it may still cost."""

    values: Mapping[str, Any]
    left: Budget


_Part = Callable[[_Scope], Any]


def render(text: str, values: Mapping[str, object]) -> str:
    """A template with its values.

    Raises:
        TemplateRefused: it is not valid, does what no template may, or names what is not among the values.
    """
    with budget() as left:
        parts, _ = _parsed(text)
        return "".join(parts(_Scope(values, left)))


def names_in(text: str) -> set[str]:
    """The names that a template needs.

    Raises:
        TemplateRefused: it is not valid, or does what no template may.
    """
    return set(_parsed(text)[1])


def _parsed(text: str) -> tuple[_Part, frozenset[str]]:
    if "{" not in text:
        return (lambda scope: _plain_text(text, scope)), frozenset()
    with budget() as left:
        left.spend(len(text))  # parsing takes its time, too
    return _compiled(text)


def _plain_text(text: str, scope: _Scope) -> list[str]:
    scope.left.spend(1, _weight(text))
    return [text]


@lru_cache(maxsize=1024)
def _compiled(text: str) -> tuple[_Part, frozenset[str]]:
    try:
        tree = _PARSER.parse(text)
    except TemplateError as error:
        raise TemplateRefused(
            f"is not a valid template: {error}", "{{ name }} stands for a value", getattr(error, "lineno", None)
        ) from error
    except (ValueError, OverflowError) as error:
        raise TemplateRefused(f"has a number that can't be read: {error}", "use up to 300 digits") from error
    except RecursionError as error:
        raise _too_deep() from error
    compiler = _Compiler()
    return compiler.body(tree.body, frozenset({"range"}), 0), frozenset(compiler.names)


def _too_deep(line: int | None = None) -> TemplateRefused:
    return TemplateRefused("is nested too deeply", f"use up to {DEEPEST} levels", line)


class _Compiler:
    """Turns a tree into functions; a node that is not listed is refused."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self._count = 0

    def body(self, several: Sequence[nodes.Node], known: frozenset[str], depth: int) -> _Part:
        """Statements one after the other, as the texts that they make."""
        before = self._count
        parts = [self._statement(node, known, depth) for node in several]
        count = self._count - before + len(parts) + 1

        def made(scope: _Scope) -> list[str]:
            scope.left.spend(count)
            found: list[str] = []
            for part in parts:
                found += part(scope)
            return found

        return made

    def _statement(self, node: nodes.Node, known: frozenset[str], depth: int) -> _Part:
        if depth > DEEPEST:
            raise _too_deep(node.lineno)
        if isinstance(node, nodes.Output):
            return self._output(node, known, depth)
        if isinstance(node, nodes.If):
            return self._if(node, known, depth)
        if isinstance(node, nodes.For) and not node.recursive and node.test is None:
            return self._for(node, known, depth)
        raise _refused(node)

    def _output(self, node: nodes.Output, known: frozenset[str], depth: int) -> _Part:
        parts = [self._value(one, known, depth + 1) for one in node.nodes]
        lines = [one.lineno for one in node.nodes]

        def made(scope: _Scope) -> list[str]:
            found = []
            for part, line in zip(parts, lines, strict=True):
                text = _text(part(scope), line)
                scope.left.spend(0, _weight(text))
                found.append(text)
            return found

        return made

    def _if(self, node: nodes.If, known: frozenset[str], depth: int) -> _Part:
        cases = [(one.test, one.body) for one in (node, *node.elif_)]
        parts = [(self._value(test, known, depth + 1), self.body(body, known, depth + 1)) for test, body in cases]
        otherwise = self.body(node.else_, known, depth + 1)

        def made(scope: _Scope) -> Any:
            return next((body for test, body in parts if test(scope)), otherwise)(scope)

        return made

    def _for(self, node: nodes.For, known: frozenset[str], depth: int) -> _Part:
        if not isinstance(node.target, nodes.Name):
            raise _refused(node.target)
        name, line = node.target.name, node.lineno
        over = self._value(node.iter, known, depth + 1)
        body = self.body(node.body, known | {name, "loop"}, depth + 1)
        otherwise = self.body(node.else_, known, depth + 1)

        def made(scope: _Scope) -> list[str]:
            items, found = over(scope), list[str]()
            if not isinstance(items, Sequence):
                raise TemplateRefused(f"loops over {_said(items)}", "loop over a list or a range", line)
            inner, count = dict(scope.values), len(items)
            for at, item in enumerate(items):
                inner[name], inner["loop"] = item, _loop(at, count)
                found += body(_Scope(inner, scope.left))
            return found if count else list(otherwise(scope))

        return made

    def _value(self, node: nodes.Node, known: frozenset[str], depth: int) -> _Part:
        self._count += 1
        if depth > DEEPEST:
            raise _too_deep(node.lineno)
        match node:
            case nodes.TemplateData():
                return _constant(node.data)
            case nodes.Const() if isinstance(node.value, _PLAIN):
                return _constant(node.value)
            case nodes.Name():
                return self._name(node, known)
            case nodes.List() | nodes.Tuple():
                items = [self._value(one, known, depth + 1) for one in node.items]
                return lambda scope: _spent(scope, len(items), [item(scope) for item in items])
            case nodes.CondExpr():
                return self._conditional(node, known, depth)
            case nodes.Compare():
                return self._comparison(node, known, depth)
            case nodes.And() | nodes.Or():
                left, right = self._value(node.left, known, depth + 1), self._value(node.right, known, depth + 1)
                if isinstance(node, nodes.And):
                    return lambda scope: left(scope) and right(scope)
                return lambda scope: left(scope) or right(scope)
            case nodes.Not():
                negated = self._value(node.node, known, depth + 1)
                return lambda scope: not negated(scope)
            case nodes.Call():
                return self._range(node, known, depth)
        return self._operation(node, known, depth)

    def _operation(self, node: nodes.Node, known: frozenset[str], depth: int) -> _Part:
        def inner(one: nodes.Node) -> _Part:
            return self._value(one, known, depth + 1)

        line = node.lineno
        match node:
            case nodes.Neg() | nodes.Pos():
                sign, number = -1 if isinstance(node, nodes.Neg) else 1, inner(node.node)
                return lambda scope: _computed(operator.mul, sign, number(scope), scope, line)
            case nodes.Concat():
                texts = [inner(one) for one in node.nodes]
                return lambda scope: _joined(scope, "", [_text(text(scope), line) for text in texts])
            case nodes.BinExpr() if type(node) in _COMPUTES:
                left, right, does = inner(node.left), inner(node.right), _COMPUTES[type(node)]
                return lambda scope: _computed(does, left(scope), right(scope), scope, line)
            case nodes.Getattr():
                whose, key = inner(node.node), node.attr
                return lambda scope: _item(whose(scope), key, line)
            case nodes.Getitem() if isinstance(node.arg, nodes.Slice):
                whole = inner(node.node)
                given = (node.arg.start, node.arg.stop, node.arg.step)
                bounds = [inner(one) if one is not None else _constant(None) for one in given]
                return lambda scope: _part(whole(scope), [bound(scope) for bound in bounds], scope, line)
            case nodes.Getitem():
                whose, index = inner(node.node), inner(node.arg)
                return lambda scope: _item(whose(scope), index(scope), line)
            case nodes.Filter() if node.node is not None and node.name in _FILTERS and not node.kwargs:
                if not node.dyn_args and not node.dyn_kwargs and len(node.args) <= (node.name == "join"):
                    of, does_, more = inner(node.node), _FILTERS[node.name], [inner(one) for one in node.args]
                    return lambda scope: _filtered(
                        does_, node.name, of(scope), [one(scope) for one in more], scope, line
                    )
        raise _refused(node)

    def _name(self, node: nodes.Name, known: frozenset[str]) -> _Part:
        name, line = node.name, node.lineno
        if name not in known:
            self.names.add(name)

        def made(scope: _Scope) -> Any:
            try:
                return scope.values[name]
            except KeyError:
                raise TemplateRefused(f"unknown name {name!r}", line=line, unknown=name) from None

        return made

    def _conditional(self, node: nodes.CondExpr, known: frozenset[str], depth: int) -> _Part:
        test, chosen = self._value(node.test, known, depth + 1), self._value(node.expr1, known, depth + 1)
        otherwise = self._value(node.expr2, known, depth + 1) if node.expr2 is not None else _constant("")
        return lambda scope: (chosen if test(scope) else otherwise)(scope)

    def _comparison(self, node: nodes.Compare, known: frozenset[str], depth: int) -> _Part:
        first, line = self._value(node.expr, known, depth + 1), node.lineno
        others = [(_COMPARES[one.op], self._value(one.expr, known, depth + 1)) for one in node.ops]

        def made(scope: _Scope) -> bool:
            left = first(scope)
            for compares, other in others:
                right = other(scope)
                if not _compared(compares, left, right, scope, line):
                    return False
                left = right
            return True

        return made

    def _range(self, node: nodes.Call, known: frozenset[str], depth: int) -> _Part:
        plain = not (node.kwargs or node.dyn_args or node.dyn_kwargs)
        if not (isinstance(node.node, nodes.Name) and node.node.name == "range" and plain and 1 <= len(node.args) <= 3):
            raise _refused(node)
        given, line = [self._value(one, known, depth + 1) for one in node.args], node.lineno

        def made(scope: _Scope) -> range:
            bounds = [one(scope) for one in given]
            try:
                numbers = range(*bounds)
                if len(numbers) <= MOST_STEPS:
                    return numbers
            except OverflowError:
                pass
            except (TypeError, ValueError) as error:
                raise TemplateRefused(f"range() can't be counted: {error}", "give whole numbers", line) from error
            raise TemplateRefused("range() has too many numbers", f"use up to {MOST_STEPS:,}", line)

        return made


def _refused(node: nodes.Node) -> TemplateRefused:
    name = type(node).__name__.lower()
    what = f"{{% {name} %}}" if isinstance(node, nodes.Stmt) else f"an expression of kind {name!r}"
    if isinstance(node, nodes.Filter):
        what = f"the filter {node.name!r} as it is used here"
    elif isinstance(node, nodes.For):
        what = "{% for %} with `if` or `recursive`"
    return TemplateRefused(f"has {what}, which is not allowed", line=node.lineno)


def _constant(value: Any) -> _Part:
    return lambda scope: value


def _spent(scope: _Scope, steps: int, value: Any) -> Any:
    scope.left.spend(steps)
    return value


def _loop(at: int, count: int) -> dict[str, Any]:
    return {"index": at + 1, "index0": at, "first": at == 0, "last": at == count - 1, "length": count}


def _weight(text: str) -> int:
    """Bytes of memory of a text."""
    return len(text) if text.isascii() else 4 * len(text)


def _said(value: object) -> str:
    """A value's kind, for a message."""
    names: Mapping[type, str] = {str: "a text", int: "a number", float: "a number", bool: "true or false"}
    return names.get(type(value), "nothing" if value is None else "a list or a table")


def _text(value: Any, line: int) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, _PLAIN):
        return str(value)
    raise TemplateRefused(f"puts {_said(value)} into the text", "put a text or a number there", line)


def _computed(does: Callable[[Any, Any], Any], left: Any, right: Any, scope: _Scope, line: int) -> Any:
    if does is operator.add and isinstance(left, str) and isinstance(right, str):
        return _joined(scope, "", [left, right])
    if not isinstance(left, (int, float)) or not isinstance(right, (int, float)):
        given = f"{_said(left)} and {_said(right)}"
        raise TemplateRefused(f"computes with {given}", "use numbers; ~ puts texts together", line)
    try:
        found = does(left, right)
    except ArithmeticError as error:
        raise TemplateRefused(f"can't be computed: {error}", "use other numbers", line) from error
    if isinstance(found, int) and found.bit_length() > MOST_BITS:
        raise TemplateRefused("computes too large a number", f"use numbers below 2 to the power of {MOST_BITS}", line)
    return found


def _compared(compares: Callable[[Any, Any], bool], left: Any, right: Any, scope: _Scope, line: int) -> bool:
    within = compares in (_within, _not_within)
    if within and isinstance(right, Sequence) and isinstance(left, _PLAIN):
        scope.left.spend(len(right) // (256 if isinstance(right, str) else 1))
    elif not isinstance(left, _PLAIN) or not isinstance(right, _PLAIN):
        raise TemplateRefused(f"compares {_said(left)} with {_said(right)}", "compare texts or numbers", line)
    elif isinstance(left, str):
        scope.left.spend(len(left) // 4096)
    try:
        return bool(compares(left, right))
    except TypeError as error:
        raise TemplateRefused(f"compares {_said(left)} with {_said(right)}", "compare like with like", line) from error


def _item(whose: Any, key: Any, line: int) -> Any:
    if isinstance(whose, Mapping) and isinstance(key, str) and key in whose:
        return whose[key]
    if isinstance(whose, Sequence) and isinstance(key, int) and -len(whose) <= key < len(whose):
        return whose[key]
    raise TemplateRefused(
        f"asks {_said(whose)} for {key!r:.40}, which it does not have", "use a key or an index that it has", line
    )


def _part(whole: Any, bounds: Sequence[Any], scope: _Scope, line: int) -> Any:
    if not isinstance(whole, Sequence) or any(not isinstance(one, int | None) for one in bounds) or bounds[2] == 0:
        raise TemplateRefused(f"takes a part of {_said(whole)}", "use [first:end] of a text or a list", line)
    wanted = len(range(*slice(*bounds).indices(len(whole))))
    scope.left.spend(wanted // 64 if isinstance(whole, str) else wanted, 4 * wanted)
    return whole[slice(*bounds)]


def _joined(scope: _Scope, between: str, texts: Sequence[str]) -> str:
    between_all = _weight(between) * len(texts)
    scope.left.spend(len(texts), 4 * (sum(map(_weight, texts)) + between_all))
    return between.join(texts)


def _filtered(does: Callable[..., Any], name: str, value: Any, more: Sequence[Any], scope: _Scope, line: int) -> Any:
    if name == "join":
        if not isinstance(value, Sequence) or not all(isinstance(one, str) for one in more):
            raise TemplateRefused(f"joins {_said(value)}", 'use a list, like names | join(", ")', line)
        scope.left.spend(len(value))
        return _joined(scope, more[0] if more else "", [_text(one, line) for one in value])
    if isinstance(value, str):
        scope.left.spend(len(value) // 64, 12 * len(value))
    try:
        return does(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise TemplateRefused(f"{name} can't be used on {_said(value)}", "use it on another value", line) from error


def _whole(value: Any) -> int:
    if isinstance(value, str) and len(value) > MOST_BITS:
        raise ValueError("too long a number")
    return int(value)


def _within(left: Any, right: Any) -> bool:
    return left in right


def _not_within(left: Any, right: Any) -> bool:
    return left not in right


_COMPUTES: Mapping[type, Callable[[Any, Any], Any]] = {
    nodes.Add: operator.add,
    nodes.Sub: operator.sub,
    nodes.Mul: operator.mul,
    nodes.Div: operator.truediv,
    nodes.FloorDiv: operator.floordiv,
    nodes.Mod: operator.mod,
}

_COMPARES: Mapping[str, Callable[[Any, Any], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "lteq": operator.le,
    "gt": operator.gt,
    "gteq": operator.ge,
    "in": _within,
    "notin": _not_within,
}

#: ``join`` takes what stands between; the others take nothing.
_FILTERS: Mapping[str, Callable[..., Any]] = {
    "abs": abs,
    "int": _whole,
    "join": _joined,
    "length": len,
    "lower": str.lower,
    "string": lambda value: _text(value, 1),
    "upper": str.upper,
    "urlencode": lambda value: quote(_text(value, 1), safe="/"),
}
