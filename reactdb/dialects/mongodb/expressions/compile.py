"""The compiler of aggregation expressions, `compile_expression`, and the register of operators.

An expression is compiled once, into closures `(document, variables) -> value`. `document` is the root of field paths
(`$$CURRENT`); `variables` has the values of variables by name, and `ROOT` if that is another document. A missing value is
`MISSING`.

An operator is a function in the file of its group, registered with its name by one of three decorators:

    function   it takes the values of its evaluated arguments
    named      its argument is an object of named arguments, each an expression
    syntax     it compiles its argument itself

Each evaluation of an operator spends the budget: so an expression ends in time, however deeply its operators' loops are nested.

Rule of this file: it knows no operator. An expression never changes a given value, and its result may share parts of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from reactdb.budget import current, spend, steps_of
from reactdb.dialects.mongodb.bson_order import MISSING, TextKey, compare, is_text, sort_key
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.paths import value_at
from reactdb.dialects.mongodb.times import now

__all__ = [
    "OPERATORS",
    "Evaluate",
    "Scope",
    "argument",
    "arguments",
    "check_named_parts",
    "compile_value",
    "constant",
    "constant_of",
    "function",
    "is_nullish",
    "named",
    "syntax",
    "variable_name",
]

Variables = dict[str, Any]
Evaluate = Callable[[Any, Variables], Any]
Compiler = Callable[[Any, "Scope"], Evaluate]

OPERATORS: Final[dict[str, Compiler]] = {}
"""The compiler of an operator's argument, by the operator's name."""

_SYSTEM: Final = frozenset(
    {
        "ROOT",
        "CURRENT",
        "REMOVE",
        "NOW",
        "CLUSTER_TIME",
        "DESCEND",
        "PRUNE",
        "KEEP",
        "USER_ROLES",
        "SEARCH_META",
    }
)
_SENTINELS: Final = {"DESCEND": "descend", "PRUNE": "prune", "KEEP": "keep"}
MAX_DEPTH: Final = 200
"""How deeply expressions may be nested."""
MAX_PATH_PARTS: Final = 200


@dataclass(slots=True, frozen=True)
class Scope:
    """The known names of an expression, and its comparison.

    `names` are the user's variables in scope. `text` is the collation: the key of texts, or None.
    `has_document` is false for a command's `let`, because it is evaluated before there is a document.
    """

    names: frozenset[str] = frozenset()
    text: TextKey | None = None
    depth: int = 0
    has_document: bool = True

    def compare(self) -> Callable[[Any, Any], int]:
        """The comparison of two values in this scope."""
        text = self.text
        return compare if text is None else lambda left, right: compare(left, right, text)

    def identity(self) -> Callable[[Any], Any]:
        """A function from a value to a key: equal values have equal keys in this scope."""
        text = self.text
        return sort_key if text is None else lambda value: sort_key(value, text)

    def with_names(self, names: Iterable[str]) -> Scope:
        return replace(self, names=self.names.union(names))


def is_nullish(value: Any) -> bool:
    """Whether a value is null or is not there."""
    return value is None or value is MISSING


def constant(value: Any) -> Evaluate:
    """An expression with a constant value."""

    def evaluate(_document: Any, _variables: Variables) -> Any:
        return value

    evaluate.constant = value  # type: ignore[attr-defined]
    return evaluate


def constant_of(evaluate: Evaluate) -> Any:
    """The constant value of an expression, or MISSING if it depends on the document."""
    return getattr(evaluate, "constant", MISSING)


def compile_value(spec: Any, scope: Scope) -> Evaluate:
    """The compiled function of an expression.

    Raises:
        MongoError: It is invalid: 168 for an unknown operator, 17276 for an undefined variable, and others.
    """
    kind = type(spec)
    if kind is str:
        return _string(spec, scope)
    if isinstance(spec, Mapping):
        return _mapping(spec, scope)
    if isinstance(spec, list | tuple):
        return _array([compile_value(part, scope) for part in spec])
    return constant(spec)


def _string(text: str, scope: Scope) -> Evaluate:
    if not text.startswith("$"):
        return constant(text)
    if text.startswith("$$"):
        return _variable(text[2:], scope)
    if not scope.has_document:
        raise MongoError(4890500, f"a variable of a command cannot be made of a field: '{text}'")
    return _field(_path_parts(text[1:]))


def _path_parts(path: str) -> tuple[str, ...]:
    if not path:
        raise MongoError(
            16872, "'$' alone is not a field path: write '$name', or {$literal: '$'} for the text"
        )
    if path.endswith("."):
        raise MongoError(40353, f"a field path must not end with a dot: '${path}'")
    parts = tuple(path.split("."))
    if len(parts) > MAX_PATH_PARTS:
        raise MongoError(5984700, f"a field path has at most {MAX_PATH_PARTS} names")
    for part in parts:
        if not part:
            raise MongoError(15998, f"a field path has no empty names: '${path}'")
        if part.startswith("$") and part not in {"$id", "$ref", "$db"}:
            raise MongoError(16410, f"a name in a field path must not begin with '$': '${path}'")
        if "\0" in part:
            raise MongoError(16411, "a name in a field path must not contain a null character")
    return parts


def _field(parts: tuple[str, ...]) -> Evaluate:
    if len(parts) == 1:
        (name,) = parts

        def evaluate_name(document: Any, _variables: Variables) -> Any:
            return document.get(name, MISSING) if isinstance(document, dict) else MISSING

        return evaluate_name

    def evaluate_path(document: Any, _variables: Variables) -> Any:
        return value_at(document, parts)

    return evaluate_path


def variable_name(name: Any, *, may_be_current: bool = False) -> str:
    """The checked name of a new variable: it begins with a small letter."""
    if not is_text(name):
        raise MongoError(9, "a variable's name is a text")
    if not name:
        raise MongoError(9, "a variable needs a name")
    if name == "CURRENT" and may_be_current:
        return name
    first = name[0]
    if not ("a" <= first <= "z" or ord(first) >= 128):
        raise MongoError(9, f"a variable's name begins with a small letter: '{name}'")
    for letter in name[1:]:
        if not (letter.isascii() and letter.isalnum()) and letter != "_" and ord(letter) < 128:
            raise MongoError(9, f"a variable's name has letters, digits and _ only: '{name}'")
    return name


def _variable(text: str, scope: Scope) -> Evaluate:
    name, dot, rest = text.partition(".")
    if not name:
        raise MongoError(9, "'$$' needs the name of a variable")
    if name not in scope.names and name not in _SYSTEM:
        # System variables begin with a capital: an unknown one is undefined, not misspelled.
        variable_name(name[0].lower() + name[1:] if name[0].isascii() else name)
        raise MongoError(17276, f"Use of undefined variable: {name}")
    if not scope.has_document and name in _SYSTEM and name != "REMOVE" and name not in scope.names:
        raise MongoError(51144, f"a variable of a command cannot be made of the system's: '$${name}'")
    parts = _path_parts(rest) if dot else ()
    read = _read_variable(name)
    if not parts:
        return read

    def evaluate(document: Any, variables: Variables) -> Any:
        return value_at(read(document, variables), parts)

    return evaluate


def _read_variable(name: str) -> Evaluate:
    if name == "CURRENT":
        return lambda document, _variables: document
    if name == "ROOT":
        return lambda document, variables: variables.get("ROOT", document)
    if name in {"REMOVE", "SEARCH_META"}:
        return constant(MISSING)
    if name == "NOW":
        return lambda _document, variables: variables["NOW"] if "NOW" in variables else now()
    if name in _SENTINELS:
        return constant(_SENTINELS[name])
    if name == "USER_ROLES":
        return lambda _document, variables: variables.get("USER_ROLES", [])
    if name == "CLUSTER_TIME":
        return _cluster_time
    return lambda _document, variables: variables.get(name, MISSING)


def _cluster_time(_document: Any, variables: Variables) -> Any:
    if "CLUSTER_TIME" not in variables:
        raise MongoError(10071200, "there is no cluster time here")
    return variables["CLUSTER_TIME"]


def _mapping(spec: Mapping[str, Any], scope: Scope) -> Evaluate:
    if scope.depth > MAX_DEPTH:
        raise MongoError(15, f"expressions are nested at most {MAX_DEPTH} deep")
    scope = replace(scope, depth=scope.depth + 1)
    first = next(iter(spec), "")
    if not first.startswith("$"):
        return _object(spec, scope)
    if len(spec) != 1:
        raise MongoError(
            15983, f"an expression has only one operator and no other field: '{first}' has others"
        )
    return _operator(first, spec[first], scope)


def _operator(name: str, spec: Any, scope: Scope) -> Evaluate:
    compiler = OPERATORS.get(name)
    if compiler is None:
        raise MongoError(168, f"Unrecognized expression '{name}'")
    evaluate = compiler(spec, scope)
    return evaluate if constant_of(evaluate) is not MISSING else _spending(evaluate, 1 + _parts_of(spec))


def _parts_of(spec: Any) -> int:
    """The number of an operator's argument expressions: `$switch` has them one level below."""
    if isinstance(spec, Mapping):
        return len(spec) + sum(
            len(part) for part in spec.values() if isinstance(part, list | tuple | Mapping)
        )
    return len(spec) if isinstance(spec, list | tuple) else 1


def _spending(evaluate: Evaluate, steps: int) -> Evaluate:
    """An operator with its costs: a step of the budget for each argument, and for each element or field of its result. An
    operator that walks a larger value spends those steps itself."""

    def spending(document: Any, variables: Variables) -> Any:
        value = evaluate(document, variables)
        budget = current.get()
        if budget is not None:
            budget.spend(steps + steps_of(value))
        return value

    return spending


def _object(spec: Mapping[str, Any], scope: Scope) -> Evaluate:
    for name in spec:
        if not name:
            raise MongoError(15998, "a field of an object expression has a name")
        if name.startswith("$"):
            raise MongoError(16410, f"an object expression cannot have both fields and operators: '{name}'")
        if "." in name:
            raise MongoError(16412, f"a field of an object expression has no dot in its name: '{name}'")
        if "\0" in name:
            raise MongoError(16411, "a field's name must not contain a null character")
    members = [(name, compile_value(value, scope)) for name, value in spec.items()]
    constants = [(name, constant_of(evaluate)) for name, evaluate in members]
    if all(value is not MISSING for _, value in constants):
        return constant(dict(constants))

    def evaluate(document: Any, variables: Variables) -> Any:
        spend(len(members))
        result = {}
        for name, member in members:
            value = member(document, variables)
            if value is not MISSING:
                result[name] = value
        return result

    return evaluate


def _array(parts: list[Evaluate]) -> Evaluate:
    constants = [constant_of(part) for part in parts]
    if all(value is not MISSING for value in constants):
        return constant(constants)

    def evaluate(document: Any, variables: Variables) -> Any:
        spend(len(parts))
        return [None if (value := part(document, variables)) is MISSING else value for part in parts]

    return evaluate


# --- The arguments of operators ---


def arguments(name: str, spec: Any, scope: Scope, least: int = 0, most: int | None = None) -> list[Evaluate]:
    """An operator's positional arguments: an array of them, or a single one without an array.

    Raises:
        MongoError: There are too few or too many: 16020 for a fixed number, else 28667.
    """
    specs = list(spec) if isinstance(spec, list | tuple) else [spec]
    count = len(specs)
    if least == most and count != least:
        raise MongoError(16020, f"Expression {name} takes exactly {least} arguments. {count} were passed in.")
    if count < least or (most is not None and count > most):
        bounds = f"at least {least}" if most is None else f"at least {least} arguments, and at most {most}"
        raise MongoError(28667, f"Expression {name} takes {bounds} arguments; {count} were passed in.")
    return [compile_value(part, scope) for part in specs]


def argument(name: str, spec: Any, scope: Scope) -> Evaluate:
    """The only argument of an operator."""
    return arguments(name, spec, scope, 1, 1)[0]


def apply_function(work: Callable[..., Any], parts: list[Evaluate]) -> Evaluate:
    """An expression that calls `work` with the values of other expressions."""
    if len(parts) == 1:
        (only,) = parts
        return lambda document, variables: work(only(document, variables))
    if len(parts) == 2:
        left, right = parts
        return lambda document, variables: work(left(document, variables), right(document, variables))
    return lambda document, variables: work(*[part(document, variables) for part in parts])


def function(
    name: str, least: int, most: int | None = -1
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers a function of its arguments' values: `least` of them, or up to `most` (None: any number)."""

    def register(work: Callable[..., Any]) -> Callable[..., Any]:
        upto = least if most == -1 else most

        @syntax(name)
        def compiler(spec: Any, scope: Scope) -> Evaluate:
            return apply_function(work, arguments(name, spec, scope, least, upto))

        return work

    return register


def syntax(name: str) -> Callable[[Compiler], Compiler]:
    """Registers the compiler of an operator's argument."""

    def register(compiler: Compiler) -> Compiler:
        assert name not in OPERATORS, name
        OPERATORS[name] = compiler
        return compiler

    return register


@dataclass(slots=True, frozen=True)
class NamedArguments:
    """The named arguments of an operator, and the error codes for them.

    `missing` has the code for each required argument. `code_not_object` is the code for an argument that is no object,
    `code_unknown` the code for an unknown name.
    """

    code_not_object: int
    code_unknown: int
    missing: Mapping[str, int]
    optional: tuple[str, ...] = ()


def check_named_parts(name: str, spec: Any, names: NamedArguments) -> Mapping[str, Any]:
    """An operator's argument as an object of named arguments, checked."""
    if not isinstance(spec, Mapping):
        raise MongoError(names.code_not_object, f"{name} takes an object of named arguments")
    for given in spec:
        if given not in names.missing and given not in names.optional:
            raise MongoError(names.code_unknown, f"{name} has no argument '{given}'")
    for needed, code in names.missing.items():
        if needed not in spec:
            raise MongoError(code, f"{name} needs the argument '{needed}'")
    return spec


def named(name: str, names: NamedArguments) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers a function of named arguments' values, called with keywords; missing arguments are left out."""

    def register(work: Callable[..., Any]) -> Callable[..., Any]:
        @syntax(name)
        def compiler(spec: Any, scope: Scope) -> Evaluate:
            parts = check_named_parts(name, spec, names)
            members = [(_python_name(key), compile_value(value, scope)) for key, value in parts.items()]
            return lambda document, variables: work(
                **{key: member(document, variables) for key, member in members}
            )

        return work

    return register


def _python_name(name: str) -> str:
    # `in` and the like cannot be the names of parameters.
    return f"{name}_" if name in {"in", "input", "if"} else name
