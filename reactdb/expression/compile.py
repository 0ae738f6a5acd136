"""compile: an expression as one generated Python function.

Walking the tree costs a microsecond a document, the generated function a fifth. The generated Python source has a
bound name for every constant, field name and operation (`c0`, `o1`): no user's text is ever part of the source, and
expressions of one shape share one code object, however many constants they differ in.

Each node becomes statements, in the order of evaluation, and a name for its value. Three things make it quick, and
each detects the cases that it does not cover:

    fields        `v1 = row[c0]`: a KeyError means a missing field, a TypeError a value that is no object
    comparisons   Python's operators for ints, floats and strings; other values go to the operation
    and, or, branch, default     `if` and `try` statements

In those cases `evaluate` is called, which raises ReQL's exact error, or returns the value. Law: for every document,
the generated function and `evaluate` return the same value, or raise the same error.

Rule of this file: it changes the speed, never the meaning. Semantics are in the operations, and `evaluate` has the
last word.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from types import CodeType
from typing import Any, Final, cast

from reactdb.errors import MissingValue
from reactdb.expression.checks import truth
from reactdb.expression.evaluate import check_literals, is_spliced, run
from reactdb.expression.operations.logic import passes_filter
from reactdb.expression.registry import OPERATIONS, Operation
from reactdb.expression.tree import Call, Constant, Function, Node, Row, Variable, replace_nodes, walk

_MAX_INDENT: Final = 12
"""The deepest nesting of blocks in generated code; deeper nodes are left to `evaluate`."""

_MAX_BRANCH_INDENT: Final = 60
"""The same for a `branch`, with its many blocks. Python allows a hundred."""

COMPARISONS: Final = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
FLIPPED: Final = {"eq": "eq", "ne": "ne", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}


def with_fixed_now(node: Node, moment: Constant | None = None) -> Node:
    """The tree with `r.now()` replaced by a moment, or by this one: it is one moment for a whole query."""
    if "now" not in node.rare:
        return node
    if moment is None:
        moment = Constant(OPERATIONS["now"].function())
    return replace_nodes(
        node, lambda inner: moment if isinstance(inner, Call) and inner.operation == "now" else None
    )


def value_function(node: Node, *, literals_allowed: bool = False) -> Callable[[Any], Any]:
    """A function of a document that gives the node's value.

    Raises:
        QueryError: The tree makes no sense for any document.
    """
    check_literals(node, literals_allowed)
    node = with_fixed_now(node)
    if not _can_generate(node):
        return lambda row: run(node, row)
    writer = _Writer()
    writer.line("try:")
    writer.indent += 1
    writer.line(f"return {writer.value(node)}")
    writer.indent -= 1
    # After the handler and not in it, so that Python's error does not become the context of ReQL's.
    writer.line("except (KeyError, TypeError): pass")
    writer.line(f"return run({writer.bind(node, 'n')}, row)")
    return writer.function()


def value_once(node: Node, *, literals_allowed: bool = False) -> Callable[[Any], Any]:
    """As `value_function`, for a single document: generating a function takes longer than walking the tree once.

    Raises:
        QueryError: The tree makes no sense for any document.
    """
    check_literals(node, literals_allowed)
    fixed = with_fixed_now(node)
    return lambda row: run(fixed, row)


def truth_function(node: Node, default: bool | Node = False) -> Callable[[Any], bool]:
    """A function of a document that gives the node's truth; where something is missing, `default`.

    Args:
        node: The condition.
        default: A bool, or a node; its truth is the result then. If it is the operation `error` without a message, the
            error of the missing value is raised.
    """
    check_literals(node)
    node = with_fixed_now(node)
    if not isinstance(default, bool):
        return _test_with_default(value_function(node), value_function(default))
    if not _can_generate(node):
        return _test_with_default(lambda row: run(node, row), lambda _row: default)
    writer = _Writer()
    writer.line("try:")
    writer.indent += 1
    writer.return_truth(node)
    writer.indent -= 1
    writer.line("except (KeyError, MissingValue):")
    writer.line(f"  return {default}")
    writer.line("except TypeError: pass")
    writer.line("try:")
    writer.line(f"  return truth(run({writer.bind(node, 'n')}, row))")
    writer.line("except MissingValue:")
    writer.line(f"  return {default}")
    return cast(Callable[[Any], bool], writer.function())


def truth_once(node: Node, default: bool | Node = False) -> Callable[[Any], bool]:
    """As `truth_function`, for a single document."""
    if isinstance(default, bool):
        return _test_with_default(value_once(node), lambda _row: default)
    return _test_with_default(value_once(node), value_once(default))


def _test_with_default(value: Callable[[Any], Any], otherwise: Callable[[Any], Any]) -> Callable[[Any], bool]:
    return lambda row: passes_filter(row, value, lambda: otherwise(row))


def _can_generate(node: Node) -> bool:
    # Operations on groups are applied group by group, which only `evaluate` knows.
    return "group" not in node.rare


@lru_cache(maxsize=4_096)
def _code(source: str) -> CodeType:
    return compile(source, "<reactdb expression>", "exec")


class _Writer:
    """The source of one function while it is written, and the objects behind its names."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._names: dict[str, Any] = {"run": run, "truth": truth, "MissingValue": MissingValue}
        self._operations: dict[str, str] = {}
        self._locals = 0
        self.indent = 1
        # The variables of the enclosing functions, and the locals that hold their values.
        self._scope: dict[int, str] = {}

    def function(self) -> Callable[[Any], Any]:
        exec(_code("def expression(row):\n" + "\n".join(self._lines)), self._names)
        return cast(Callable[[Any], Any], self._names["expression"])

    def line(self, text: str) -> None:
        self._lines.append("  " * self.indent + text)

    def local(self) -> str:
        self._locals += 1
        return f"v{self._locals}"

    def bind(self, value: Any, letter: str = "c") -> str:
        """A name in the generated code for an object."""
        name = f"{letter}{len(self._names)}"
        self._names[name] = value
        return name

    def operation(self, name: str) -> str:
        """The name in the generated code of an operation's function."""
        if name not in self._operations:
            self._operations[name] = self.bind(OPERATIONS[name].function, "o")
        return self._operations[name]

    # ----- values

    def value(self, node: Node) -> str:
        """Write statements that evaluate the node, and return an expression for its value, which may be used
        repeatedly."""
        if isinstance(node, Constant):
            return self.bind(node.value)
        if isinstance(node, Row):
            return "row"
        if isinstance(node, Variable):
            return self._scope[node.id]
        if isinstance(node, Function):
            return self._nested_function(node)
        assert isinstance(node, Call)
        if self.indent > _MAX_INDENT or is_spliced(node):
            return self.write_evaluation(node)
        special = _SPECIAL.get(node.operation)
        if special is not None:
            return special(self, node)
        operation = OPERATIONS[node.operation]
        return self.write_evaluation(node) if operation.is_lazy else self.write_call(node, operation)

    def keep(self, expression: str) -> str:
        """Write an assignment to a new local."""
        name = self.local()
        self.line(f"{name} = {expression}")
        return name

    def write_evaluation(self, node: Node) -> str:
        """Leave the node to `evaluate`."""
        variables = ", ".join(f"{id}: {name}" for id, name in self._scope.items())
        return self.keep(f"run({self.bind(node, 'n')}, row, {{{variables}}})")

    def write_call(self, node: Call, operation: Operation) -> str:
        prepared = _prepare(node, operation)
        if prepared is not None:
            argument = self.value(node.arguments[0])
            return self.keep(f"{self.bind(prepared, 'p')}({argument})")
        arguments = [self.value(child) for child in node.arguments]
        if node.options:
            options = [f"{self.bind(name)}: {self.value(child)}" for name, child in node.options]
            arguments.append(f"**{{{', '.join(options)}}}")
        return self.keep(f"{self.operation(node.operation)}({', '.join(arguments)})")

    def _nested_function(self, node: Function) -> str:
        if self.indent > _MAX_INDENT:
            return self.write_evaluation(node)
        name = self.local()
        scope = self._scope
        self._scope = {**scope, **{parameter: self.local() for parameter in node.parameters}}
        parameters = [self._scope[parameter] for parameter in node.parameters]
        # A function without parameters may be called with any arguments.
        self.line(f"def {name}({', '.join(parameters) if parameters else '*_'}):")
        self.indent += 1
        self.line("try:")
        self.indent += 1
        self.line(f"return {self.value(node.body)}")
        self.indent -= 1
        self.line("except (KeyError, TypeError): pass")
        self.line(f"return {self.write_evaluation(node.body)}")
        self.indent -= 1
        self._scope = scope
        return name

    # ----- truth

    def truth(self, node: Node) -> str:
        """Write statements that evaluate the node, and return an expression for its truth, to be used once and at once."""
        if isinstance(node, Call) and self.indent <= _MAX_INDENT and not is_spliced(node):
            if node.operation in COMPARISONS and len(node.arguments) == 2:
                return self.comparison(node)
            if node.operation == "not":
                return f"not ({self.truth(node.arguments[0])})"
        value = self.value(node)
        return f"({value} is not None and {value} is not False)"

    def return_truth(self, node: Node) -> None:
        """Write the statements that return the node's truth."""
        if (
            isinstance(node, Call)
            and node.operation in ("and", "or")
            and node.arguments
            and not is_spliced(node)
        ):
            for child in node.arguments[:-1]:
                if node.operation == "or":
                    self.line(f"if {self.truth(child)}: return True")
                else:
                    self.line(f"if not ({self.truth(child)}): return False")
            self.return_truth(node.arguments[-1])
        elif isinstance(node, Call) and node.operation == "filter_match":
            self._return_match(node)
        else:
            self.line(f"return {self.truth(node)}")

    def _return_match(self, node: Call) -> None:
        value, pattern = node.arguments
        if isinstance(pattern, Constant) and isinstance(pattern.value, dict) and isinstance(value, Row):
            for name in sorted(pattern.value):
                wanted = pattern.value[name]
                if isinstance(wanted, dict):
                    self.line(f"return {self.write_call(node, OPERATIONS['filter_match'])}")
                    return
            for name in sorted(pattern.value):
                local = self.keep(f"row[{self.bind(name)}]")
                self.line(
                    f"if not ({self._write_comparison('eq', local, Constant(pattern.value[name]))}): return False"
                )
            self.line("return True")
            return
        self.line(f"return {self.write_call(node, OPERATIONS['filter_match'])}")

    # ----- comparisons

    def comparison(self, node: Call) -> str:
        left, right = node.arguments
        if isinstance(left, Function) or isinstance(right, Function):
            # Functions have no place in the order of values, as the operation says.
            return f"{self.operation(node.operation)}({self.value(left)}, {self.value(right)})"
        if isinstance(left, Constant):
            # Constants have no effects, so the other side may be looked at first.
            return self._write_comparison(FLIPPED[node.operation], self.value(right), left)
        local = self.value(left)
        if isinstance(right, Constant):
            return self._write_comparison(node.operation, local, right)
        other = self.value(right)
        sign, slow = COMPARISONS[node.operation], self.operation(node.operation)
        return (
            f"{local} {sign} {other} if type({local}) is type({other}) is int else {slow}({local}, {other})"
        )

    def _write_comparison(self, operation: str, local: str, constant: Constant) -> str:
        """The comparison of a local with a constant: with Python's operator for values that Python orders as ReQL does."""
        value, sign, slow = constant.value, COMPARISONS[operation], self.operation(operation)
        kind = type(value)
        if value is None or kind is bool:
            if operation in ("eq", "ne"):
                return f"{local} is {'not ' if operation == 'ne' else ''}{value}"
            return f"{slow}({local}, {value})"
        name = self.bind(value)
        if kind is str:
            return f"{local} {sign} {name} if type({local}) is str else {slow}({local}, {name})"
        if kind is int or (kind is float and value == value):
            # NaN is above all numbers here, and neither above nor below any for Python.
            above = f" or {local} != {local}" if operation in ("gt", "ge") else ""
            return (
                f"{local} {sign} {name} if type({local}) is int else "
                f"({local} {sign} {name}{above}) if type({local}) is float else {slow}({local}, {name})"
            )
        return f"{slow}({local}, {name})"


def _prepare(node: Call, operation: Operation) -> Callable[[Any], Any] | None:
    rest = node.arguments[1:]
    if operation.prepare is None or node.options or not all(isinstance(child, Constant) for child in rest):
        return None
    try:
        return operation.prepare(*(cast(Constant, child).value for child in rest))
    except Exception:
        # The error is raised when the operation is called, as for every other value.
        return None


# ---------------------------------------------------------------------------------------------------------------
# Operations with code of their own


def _write_field(writer: _Writer, node: Call) -> str:
    value, name = node.arguments
    if not (isinstance(name, Constant) and isinstance(name.value, str)):
        return writer.write_call(node, OPERATIONS[node.operation])
    return writer.keep(f"{writer.value(value)}[{writer.bind(name.value)}]")


def _write_comparison(writer: _Writer, node: Call) -> str:
    if len(node.arguments) != 2:
        return writer.write_call(node, OPERATIONS[node.operation])
    return writer.keep(writer.comparison(node))


def _write_not(writer: _Writer, node: Call) -> str:
    return writer.keep(f"not ({writer.truth(node.arguments[0])})")


def _write_chain(writer: _Writer, node: Call, goes_on: str, empty: str) -> str:
    result = writer.keep(writer.value(node.arguments[0]) if node.arguments else empty)
    for child in node.arguments[1:]:
        # A reason that stopped the chain keeps stopping it, so these need not be nested.
        writer.line(f"if {goes_on.format(result)}:")
        writer.indent += 1
        writer.line(f"{result} = {writer.value(child)}")
        writer.indent -= 1
    return result


def _write_branch(writer: _Writer, node: Call) -> str:
    if len(node.arguments) % 2 == 0 or writer.indent + len(node.arguments) // 2 > _MAX_BRANCH_INDENT:
        return writer.write_evaluation(node)
    result = writer.local()
    before = writer.indent
    for test, value in zip(node.arguments[0:-1:2], node.arguments[1:-1:2], strict=True):
        writer.line(f"if {writer.truth(test)}:")
        writer.indent += 1
        writer.line(f"{result} = {writer.value(value)}")
        writer.indent -= 1
        writer.line("else:")
        writer.indent += 1
    writer.line(f"{result} = {writer.value(node.arguments[-1])}")
    writer.indent = before
    return result


def _write_default(writer: _Writer, node: Call) -> str:
    value, otherwise = node.arguments
    if isinstance(otherwise, Function) or any(
        isinstance(inner, Call) and inner.operation == "error" for inner in walk(otherwise)
    ):
        # These need the error of the missing value.
        return writer.write_evaluation(node)
    result = writer.local()
    writer.line("try:")
    writer.indent += 1
    writer.line(f"{result} = {writer.value(value)}")
    writer.indent -= 1
    writer.line("except (KeyError, MissingValue):")
    writer.line(f"  {result} = None")
    writer.line(f"if {result} is None:")
    writer.indent += 1
    writer.line(f"{result} = {writer.value(otherwise)}")
    writer.indent -= 1
    return result


def _write_object(writer: _Writer, node: Call) -> str:
    fields = [f"{writer.bind(name)}: {writer.value(child)}" for name, child in node.options]
    return writer.keep(f"{{{', '.join(fields)}}}")


def _write_sum(writer: _Writer, node: Call) -> str:
    """A sum or a difference of two: with Python's operator for ints with a surely small result."""
    if len(node.arguments) != 2:
        return writer.write_call(node, OPERATIONS[node.operation])
    names, checks = [], []
    for child in node.arguments:
        names.append(writer.value(child))
        if not isinstance(child, Constant):
            checks.append(f"type({names[-1]}) is int and {-_SMALL} < {names[-1]} < {_SMALL}")
        elif type(child.value) is not int or not -_SMALL < child.value < _SMALL:
            checks.append("False")
    left, right = names
    in_place = f"{left} {'+' if node.operation == 'add' else '-'} {right}"
    slow = f"{writer.operation(node.operation)}({left}, {right})"
    if "False" in checks:
        return writer.keep(slow)
    return writer.keep(f"{in_place} if {' and '.join(checks)} else {slow}" if checks else slow)


_SMALL: Final = 1 << 62


_SPECIAL: Final[dict[str, Callable[[_Writer, Call], str]]] = {
    "bracket": _write_field,
    "get_field": _write_field,
    "not": _write_not,
    "and": partial(_write_chain, goes_on="{0} is not None and {0} is not False", empty="True"),
    "or": partial(_write_chain, goes_on="{0} is None or {0} is False", empty="False"),
    "branch": _write_branch,
    "default": _write_default,
    "make_obj": _write_object,
    "add": _write_sum,
    "sub": _write_sum,
    **dict.fromkeys(COMPARISONS, _write_comparison),
}
