"""Evaluates templates in definition files: a small part of Jinja's syntax, within bounds.

A definition or a workload may come from a stranger. Jinja compiles a template to Python code, which can reach every
object of the process. Here Jinja only parses, and this module evaluates the nodes that it lists: no access to
attributes, no call except ``range``, no operator that multiplies a text. A ``Budget`` bounds the work and the memory
of all templates, draws and files that belong to one definition.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, TemplateError, nodes

from dragstrip.errors import DragstripError

#: Limits of one definition: evaluated nodes, and bytes of memory of the results; about a second, and 64 MB.
MAX_STEPS, MAX_BYTES = 2_000_000, 2**26

#: The allowed syntax, for messages.
ALLOWED = (
    "a template may have names, numbers, texts, lists, + - * / // % ~, comparisons, and, or, not, in, x if y else z, "
    "[index], [first:end], range(), {% for %}, {% if %} and the filters abs, int, join, length, lower, string, upper "
    "and urlencode"
)

#: Levels of nested brackets, loops and operators.
MAX_DEPTH = 60

#: Bits of a whole number: more than any server uses, and quick to print.
MAX_BITS = 1024

#: A value of a template: any value of JSON.
Json = None | bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"]

_PARSER = Environment(keep_trailing_newline=True)

#: Values that can be compared, printed and computed with.
_PLAIN = (str, int, float, type(None))

#: Nodes that are always allowed; ``_is_allowed`` allows others on conditions.
_ALLOWED = {
    nodes.Template, nodes.Output, nodes.TemplateData, nodes.If, nodes.Name, nodes.List, nodes.Tuple, nodes.CondExpr,
    nodes.Compare, nodes.Operand, nodes.And, nodes.Or, nodes.Not, nodes.Neg, nodes.Pos, nodes.Concat, nodes.Add,
    nodes.Sub, nodes.Mul, nodes.Div, nodes.FloorDiv, nodes.Mod, nodes.Getattr, nodes.Getitem, nodes.Slice,
}  # fmt: skip


class TemplateRefused(DragstripError):
    """A template is not valid, or uses what is not allowed.

    Args:
        problem: what is refused. remedy: what is allowed.
        line: line of the template, from 1.
        unknown: the undefined name, if that is the problem.
    """

    exit_code = 2

    def __init__(self, problem: str, remedy: str = ALLOWED, line: int | None = None, unknown: str = "") -> None:
        super().__init__(f"{problem}; {remedy}")
        self.problem, self.remedy, self.line, self.unknown = problem, remedy, line, unknown


class Budget:
    """The work and the memory that remain for the templates of one definition."""

    def __init__(self) -> None:
        self.steps, self.bytes = MAX_STEPS, MAX_BYTES

    def spend(self, steps: int = 0, made: int = 0) -> None:
        """Subtracts from the budget.

        Raises:
            TemplateRefused: the budget is used up.
        """
        self.steps -= steps
        self.bytes -= made
        if self.steps < 0:
            raise TemplateRefused(
                f"one definition's templates and draws take over {MAX_STEPS:,} steps", "use fewer or shorter loops"
            )
        if self.bytes < 0:
            raise TemplateRefused(
                f"one definition's templates and draws make over {MAX_BYTES:,} bytes", "make shorter texts, or fewer"
            )


_BUDGET: ContextVar[Budget | None] = ContextVar("budget", default=None)


@contextmanager
def budget() -> Iterator[Budget]:
    """One budget for everything within; within another budget, that one counts."""
    current = _BUDGET.get() or Budget()
    token = _BUDGET.set(current)
    try:
        yield current
    finally:
        _BUDGET.reset(token)


def spend(steps: int = 0, made: int = 0) -> None:
    """Subtracts from the open budget, if there is any.

    Raises:
        TemplateRefused: as ``Budget.spend``.
    """
    if (left := _BUDGET.get()) is not None:
        left.spend(steps, made)


def render(text: str, values: Mapping[str, Json]) -> str:
    """A template with its values.

    Raises:
        TemplateRefused: it is not valid, uses what is not allowed, or names a value that is not given.
    """
    with budget() as current:
        tree, _ = _parsed(text)
        rendering = _Rendering(current)
        rendering.run(tree.body, values)
        return "".join(rendering.texts)


def names_in(text: str) -> set[str]:
    """The names that a template needs.

    Raises:
        TemplateRefused: it is not valid, or uses what is not allowed.
    """
    return set(_parsed(text)[1])


def _parsed(text: str) -> tuple[nodes.Template, frozenset[str]]:
    if "{" not in text:
        return nodes.Template([nodes.Output([nodes.TemplateData(text)])]), frozenset()
    with budget() as current:
        current.spend(len(text))  # parsing takes its time, too
    return _checked(text)


@lru_cache(maxsize=1024)
def _checked(text: str) -> tuple[nodes.Template, frozenset[str]]:
    try:
        tree = _PARSER.parse(text)
    except TemplateError as error:
        raise TemplateRefused(
            f"is not a valid template: {error}", "write {{ name }} for a value", getattr(error, "lineno", None)
        ) from error
    except (ValueError, OverflowError) as error:
        raise TemplateRefused(f"has a number that can't be read: {error}", "use up to 300 digits") from error
    except RecursionError as error:
        raise _too_deep() from error
    return tree, frozenset(_names(tree, frozenset({"range"}), 0))


def _names(node: nodes.Node, known: frozenset[str], depth: int) -> set[str]:
    """The names of a tree that are not ``known``; refuses nodes that are not allowed or too deep in the tree."""
    if depth > MAX_DEPTH:
        raise _too_deep(node.lineno)
    if not _is_allowed(node):
        raise _refused(node)
    if isinstance(node, nodes.Name):
        return {node.name} - known
    if isinstance(node, nodes.For) and isinstance(node.target, nodes.Name):
        repeated = known | {node.target.name, "loop"}
        inside = [(child, known) for child in (node.iter, *node.else_)] + [(child, repeated) for child in node.body]
    else:
        inside = [(child, known) for child in node.iter_child_nodes()]
    return {name for child, names in inside for name in _names(child, names, depth + 1)}


def _is_allowed(node: nodes.Node) -> bool:
    match node:
        case nodes.For():
            return isinstance(node.target, nodes.Name) and not node.recursive and node.test is None
        case nodes.Const():
            return isinstance(node.value, _PLAIN)
        case nodes.Call():
            named = isinstance(node.node, nodes.Name) and node.node.name == "range"
            return named and 1 <= len(node.args) <= 3 and not (node.kwargs or node.dyn_args or node.dyn_kwargs)
        case nodes.Filter():
            known = node.node is not None and node.name in _FILTERS and len(node.args) <= (node.name == "join")
            return known and not (node.kwargs or node.dyn_args or node.dyn_kwargs)
    return type(node) in _ALLOWED


def _too_deep(line: int | None = None) -> TemplateRefused:
    return TemplateRefused("is nested too deeply", f"use up to {MAX_DEPTH} levels", line)


def _refused(node: nodes.Node) -> TemplateRefused:
    name = type(node).__name__.lower()
    what = f"{{% {name} %}}" if isinstance(node, nodes.Stmt) else f"an expression of kind {name!r}"
    if isinstance(node, nodes.Filter):
        what = f"the filter {node.name!r} as it is used here"
    elif isinstance(node, nodes.For):
        what = "{% for %} with `if`, with `recursive` or over several names"
    return TemplateRefused(f"has {what}, which is not allowed", line=node.lineno)


class _Rendering:
    """One template during its evaluation: its texts so far, and the remaining budget."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.texts: list[str] = []

    def run(self, statements: Sequence[nodes.Node], values: Mapping[str, Json]) -> None:
        """Evaluates statements one after the other."""
        self.budget.spend(1 + len(statements))
        for statement in statements:
            match statement:
                case nodes.Output():
                    for node in statement.nodes:
                        text = _text(self.value(node, values), node.lineno)
                        self.budget.spend(0, _weight(text))
                        self.texts.append(text)
                case nodes.If():
                    branches = (branch for branch in (statement, *statement.elif_))
                    true = (branch.body for branch in branches if self.value(branch.test, values))
                    self.run(next(true, statement.else_), values)
                case nodes.For():
                    self._repeat(statement, values)

    def _repeat(self, loop: nodes.For, values: Mapping[str, Json]) -> None:
        items = self.value(loop.iter, values)
        if not isinstance(items, Sequence):
            raise TemplateRefused(f"loops over {_kind(items)}", "loop over a list or a range", loop.lineno)
        inner, count = dict(values), len(items)
        assert isinstance(loop.target, nodes.Name)
        for index, item in enumerate(items):
            inner[loop.target.name] = item
            inner["loop"] = {
                "index": index + 1, "index0": index, "first": index == 0, "last": index == count - 1, "length": count
            }  # fmt: skip
            self.run(loop.body, inner)
        if not items:
            self.run(loop.else_, values)

    def value(self, node: nodes.Node, values: Mapping[str, Json]) -> Json:
        """The value of an expression; a refusal names the innermost line that caused it."""
        self.budget.spend(1)
        try:
            return self._value(node, values)
        except TemplateRefused as refusal:
            refusal.line = refusal.line or node.lineno
            raise

    def _value(self, node: nodes.Node, values: Mapping[str, Json]) -> Json:
        match node:
            case nodes.TemplateData():
                return node.data
            case nodes.Const():
                return node.value  # type: ignore[no-any-return]
            case nodes.Name() if node.name not in values:
                raise TemplateRefused(f"unknown name {node.name!r}", unknown=node.name)
            case nodes.Name():
                return values[node.name]
            case nodes.List() | nodes.Tuple():
                return [self.value(item, values) for item in node.items]
            case nodes.CondExpr() if self.value(node.test, values):
                return self.value(node.expr1, values)
            case nodes.CondExpr():
                return self.value(node.expr2, values) if node.expr2 is not None else ""
            case nodes.And():
                return self.value(node.left, values) and self.value(node.right, values)
            case nodes.Or():
                return self.value(node.left, values) or self.value(node.right, values)
            case nodes.Not():
                return not self.value(node.node, values)
            case nodes.Compare():
                return self._compare(node, values)
        return self._compute(node, values)

    def _compare(self, node: nodes.Compare, values: Mapping[str, Json]) -> bool:
        left = self.value(node.expr, values)
        for operand in node.ops:
            right = self.value(operand.expr, values)
            if not _compared(operand.op, left, right, self.budget):
                return False
            left = right
        return True

    def _compute(self, node: nodes.Node, values: Mapping[str, Json]) -> Json:
        match node:
            case nodes.Neg() | nodes.Pos():
                sign = -1 if isinstance(node, nodes.Neg) else 1
                return _computed(operator.mul, sign, self.value(node.node, values))
            case nodes.Add():
                left, right = self.value(node.left, values), self.value(node.right, values)
                if isinstance(left, str) and isinstance(right, str):
                    return self._join("", [left, right])
                return _computed(operator.add, left, right)
            case nodes.BinExpr() if type(node) in _COMPUTES:
                return _computed(_COMPUTES[type(node)], self.value(node.left, values), self.value(node.right, values))
            case nodes.Concat():
                return self._join("", [_text(self.value(part, values)) for part in node.nodes])
            case nodes.Call():
                return _range([self.value(bound, values) for bound in node.args])
            case nodes.Getattr():
                return _item(self.value(node.node, values), node.attr)
            case nodes.Getitem() if isinstance(node.arg, nodes.Slice):
                given = (node.arg.start, node.arg.stop, node.arg.step)
                bounds = [self.value(bound, values) if bound is not None else None for bound in given]
                return self._slice(self.value(node.node, values), bounds)
            case nodes.Getitem():
                return _item(self.value(node.node, values), self.value(node.arg, values))
            case nodes.Filter() if node.node is not None:
                return self._filter(
                    node.name, self.value(node.node, values), [self.value(a, values) for a in node.args]
                )
        raise _refused(node)

    def _slice(self, whole: Json, bounds: Sequence[Any]) -> Json:
        if not isinstance(whole, Sequence) or any(not isinstance(b, int | None) for b in bounds) or bounds[2] == 0:
            raise TemplateRefused(f"slices {_kind(whole)}", "use [first:end] of a text or a list")
        part = slice(*bounds)
        count = len(range(*part.indices(len(whole))))
        self.budget.spend(count // 64 if isinstance(whole, str) else count, 4 * count)
        return whole[part]

    def _join(self, between: str, texts: Sequence[str]) -> str:
        self.budget.spend(len(texts), 4 * (sum(map(_weight, texts)) + _weight(between) * len(texts)))
        return between.join(texts)

    def _filter(self, name: str, value: Json, arguments: Sequence[Json]) -> Json:
        if name == "join":
            between = arguments[0] if arguments else ""
            if not isinstance(value, Sequence) or not isinstance(between, str):
                raise TemplateRefused(f"joins {_kind(value)}", 'use a list, like names | join(", ")')
            self.budget.spend(len(value))
            return self._join(between, [_text(item) for item in value])
        if isinstance(value, str):
            self.budget.spend(len(value) // 64, 12 * len(value))
        try:
            return _FILTERS[name](value)
        except (TypeError, ValueError, OverflowError) as error:
            raise TemplateRefused(f"{name} can't be used on {_kind(value)}", "use it on another value") from error


def _weight(text: str) -> int:
    """Bytes of memory of a text."""
    return len(text) if text.isascii() else 4 * len(text)


def _kind(value: Json) -> str:
    """The kind of a value, for a message."""
    names: Mapping[type, str] = {str: "a text", int: "a number", float: "a number", bool: "true or false"}
    return names.get(type(value), "nothing" if value is None else "a list or a table")


def _text(value: Json, line: int | None = None) -> str:
    if isinstance(value, _PLAIN):
        return str(value)
    raise TemplateRefused(f"puts {_kind(value)} into the text", "put a text or a number there", line)


def _whole(value: Any) -> int:
    if isinstance(value, str) and len(value) > MAX_BITS:
        raise ValueError("too long a number")
    return int(value)


def _range(bounds: Sequence[Any]) -> range:
    try:
        numbers = range(*bounds)
        if len(numbers) <= MAX_STEPS:
            return numbers
    except OverflowError:
        pass
    except (TypeError, ValueError) as error:
        raise TemplateRefused(f"range() can't be counted: {error}", "give whole numbers") from error
    raise TemplateRefused("range() has too many numbers", f"use up to {MAX_STEPS:,}")


def _computed(compute: Callable[[Any, Any], Any], left: Json, right: Json) -> Json:
    if not isinstance(left, (int, float)) or not isinstance(right, (int, float)):
        given = f"{_kind(left)} and {_kind(right)}"
        raise TemplateRefused(f"computes with {given}", "use numbers; ~ puts texts together")
    try:
        result: int | float = compute(left, right)
    except ArithmeticError as error:
        raise TemplateRefused(f"can't be computed: {error}", "use other numbers") from error
    if isinstance(result, int) and result.bit_length() > MAX_BITS:
        raise TemplateRefused("computes too large a number", f"use numbers below 2 to the power of {MAX_BITS}")
    return result


def _compared(name: str, left: Json, right: Json, budget: Budget) -> bool:
    if name in ("in", "notin") and isinstance(right, Sequence) and isinstance(left, _PLAIN):
        budget.spend(len(right) // (256 if isinstance(right, str) else 1))
    elif not isinstance(left, _PLAIN) or not isinstance(right, _PLAIN):
        raise TemplateRefused(f"compares {_kind(left)} with {_kind(right)}", "compare texts or numbers")
    elif isinstance(left, str):
        budget.spend(len(left) // 4096)
    try:
        return bool(_COMPARES[name](left, right))
    except TypeError as error:
        raise TemplateRefused(f"compares {_kind(left)} with {_kind(right)}", "compare like with like") from error


def _item(whole: Json, key: Json) -> Json:
    if isinstance(whole, Mapping) and isinstance(key, str) and key in whole:
        return whole[key]
    if isinstance(whole, Sequence) and isinstance(key, int) and -len(whole) <= key < len(whole):
        return whole[key]
    raise TemplateRefused(
        f"asks {_kind(whole)} for {key!r:.40}, which it does not have", "use a key or an index that it has"
    )


_COMPUTES: Mapping[type, Callable[[Any, Any], Any]] = {
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
    "in": lambda left, right: left in right,
    "notin": lambda left, right: left not in right,
}

#: The filters; only ``join`` has an argument, and ``_Rendering`` evaluates it.
_FILTERS: Mapping[str, Callable[[Any], Json]] = {
    "abs": abs,
    "int": _whole,
    "join": "".join,
    "length": len,
    "lower": str.lower,
    "string": _text,
    "upper": str.upper,
    "urlencode": lambda value: quote(_text(value), safe="/"),
}
