"""The operations: the meanings of the names in Calls.

An operation is a Python function of values with ReQL's semantics and ReQL's sentences. That function is its one
meaning: `evaluate` calls it, and so does generated code wherever it has no shorter way.

    kind      the function gets
    --------  ------------------------------------------------------------------------------------------------------
    strict    the values of its arguments; a Function arrives as a Python callable
    lazy      a callable without arguments for each argument, to call or not: `and`, `branch`, `default`

The core's operations have ReQL's names. Those of a dialect or of a program have a word of its own before a dot, such
as `mongodb.index_keys`. They are registered in the same way, at the import of their module. Indexes keep their
expressions by these names, so a name never gets another meaning; a process without a registered name can neither use
nor write the values that it indexes, and raises an error that says so.

Rule of this file: it knows no operation. Modules announce their operations (`import_later`), and are imported at the
first look-up of an unknown name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any, Final

from reactdb.errors import IncompatibleFormat, QueryError, UsageError, describe_function
from reactdb.values.extension_types import not_registered_error

Evaluate = Callable[..., Any]

CORE: Final = "reactdb.expression."


class Operation:
    """One entry of the registry.

    Attributes:
        name: ReQL's term in lower snake case, as in `ql2.proto`.
        function: The meaning. It never changes its arguments.
        at_least: Number of arguments, at least.
        at_most: Number of arguments, at most; None for any number.
        options: The names of its options, which are keyword arguments of the function; None for any name.
        is_lazy: The function gets callables instead of values.
        is_deterministic: Equal arguments give equal results, today and tomorrow.
        never_fails: It raises nothing for any value; only its arguments may.
        prepare: Takes the arguments after the first, when all of them are constants, and returns a function of the
            first. It saves work that would be the same for every document. Its errors are ignored here; `function`
            raises them.
        acts_on_groups: It takes grouped data whole, instead of being applied to each group.
        fields: Given the arguments after the first, when all of them are constants: the names of the fields of a document by
            which, as the first argument, the result is decided; None where others may matter.
    """

    __slots__ = (
        "acts_on_groups",
        "at_least",
        "at_most",
        "fields",
        "function",
        "is_deterministic",
        "is_lazy",
        "name",
        "never_fails",
        "options",
        "prepare",
    )

    def __init__(
        self,
        name: str,
        function: Evaluate,
        at_least: int,
        at_most: int | None,
        options: frozenset[str] | None = frozenset(),
        is_lazy: bool = False,
        is_deterministic: bool = True,
        never_fails: bool = False,
        prepare: Callable[..., Callable[[Any], Any]] | None = None,
        acts_on_groups: bool = False,
        fields: Callable[..., Iterable[str] | None] | None = None,
    ) -> None:
        self.name = name
        self.function = function
        self.at_least = at_least
        self.at_most = at_most
        self.options = options
        self.is_lazy = is_lazy
        self.is_deterministic = is_deterministic
        self.never_fails = never_fails
        self.prepare = prepare
        self.acts_on_groups = acts_on_groups
        self.fields = fields

    def check(self, argument_count: int, option_names: frozenset[str]) -> None:
        """Refuse a wrong number of arguments, or an unknown option, with ReQL's sentence."""
        sentence = arity_sentence(self.at_least, self.at_most, argument_count)
        if sentence is not None:
            raise QueryError(sentence)
        if self.options is None:
            return
        for name in sorted(option_names - self.options):
            raise QueryError(f"Unrecognized optional argument `{name}`.")


def arity_sentence(low: int, high: int | None, count: int) -> str | None:
    """ReQL's message for a wrong number of arguments; None if the number is right."""
    if count >= low and (high is None or count <= high):
        return None
    if low == high:
        wanted = in_arguments(low)
    elif high is None:
        wanted = f"{low} or more arguments"
    else:
        wanted = f"between {low} and {high} arguments"
    return f"Expected {wanted} but found {count}."


def in_arguments(number: int) -> str:
    return f"{number} argument{'' if number == 1 else 's'}"


def wrong_call(parameters: int, arguments: int) -> QueryError:
    """ReQL's error for a function with another number of arguments than parameters."""
    return QueryError(
        f"Expected function with {in_arguments(arguments)} but found function with {in_arguments(parameters)}."
    )


class Operations(dict[str, Operation]):
    """Operations by name. More modules are imported at the look-up of an unknown name, or of all names."""

    def __init__(self) -> None:
        super().__init__()
        self._modules: tuple[str, ...] = ()
        self._imported: tuple[str, ...] = ()

    def import_later(self, *modules: str) -> None:
        """Say that importing these modules registers operations."""
        self._modules = (*self._modules, *modules)

    def load(self) -> None:
        while self._imported is not self._modules:
            modules = self._modules
            for module in modules:
                import_module(module)
            # Last: another thread that gets here now waits for the imports.
            self._imported = modules

    def __missing__(self, name: str) -> Operation:
        self.load()
        if super().__contains__(name):
            return super().__getitem__(name)
        namespace, dot, _ = name.partition(".")
        what = f"the operation `{name}`"
        raise (
            not_registered_error(what, namespace)
            if dot
            else IncompatibleFormat(f"this version does not have {what}")
        )

    def get(self, name: str, default: Any = None) -> Any:
        try:
            return self[name]
        except IncompatibleFormat:
            return default

    def names(self) -> list[str]:
        """All names. The dict itself may lack some that were not looked up yet."""
        self.load()
        return sorted(self)


OPERATIONS: Final = Operations()


def operation(
    name: str,
    at_least: int,
    at_most: int | None = -1,
    *,
    options: tuple[str, ...] | None = (),
    is_lazy: bool = False,
    is_deterministic: bool = True,
    never_fails: bool = False,
    prepare: Callable[..., Callable[[Any], Any]] | None = None,
    acts_on_groups: bool = False,
    fields: Callable[..., Iterable[str] | None] | None = None,
) -> Callable[[Evaluate], Evaluate]:
    """Register the function below as the operation `name`: its meaning, which has to be the same in every process and for ever.

    Args:
        name: A word of the dialect or program, a dot, and the operation: `mongodb.type`. Only the core's have no dot.
        at_most: `at_least`, unless given; None is any number.
        options, is_lazy, is_deterministic, never_fails, prepare, acts_on_groups, fields: See `Operation`.

    Raises:
        UsageError: The name is another function's, or has no dot.
    """

    def register(function: Evaluate) -> Evaluate:
        module = function.__module__
        if ("." in name) == module.startswith(CORE):
            raise UsageError(
                f"operation `{name}` of {module} needs a word of its own and a dot before its name"
            )
        known = dict.get(OPERATIONS, name)
        place = describe_function(function)
        # Known already from the same place if its import was interrupted by Ctrl-C and has begun again.
        if known is not None and describe_function(known.function) != place:
            raise UsageError(f"operation `{name}` is both {describe_function(known.function)} and {place}")
        OPERATIONS[name] = Operation(
            name,
            function,
            at_least,
            at_least if at_most == -1 else at_most,
            None if options is None else frozenset(options),
            is_lazy,
            is_deterministic,
            never_fails,
            prepare,
            acts_on_groups,
            fields,
        )
        return function

    return register


def find(name: str) -> Operation:
    """The operation of that name.

    Raises:
        QueryError: There is none.
    """
    try:
        return OPERATIONS[name]
    except IncompatibleFormat as error:
        raise QueryError(f"there is no operation `{name}`" if "." not in name else str(error)) from None
