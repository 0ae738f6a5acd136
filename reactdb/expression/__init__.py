"""The expression tree: conditions and computed values, as data.

ReQL's builders and its wire terms are spellings of the one tree in `tree`. MongoDB's queries, Mango's selectors and
Aidbox's dot expressions are not: they have their own rules about equality and missing values, and their own
functions. For an index or a router, the first two derive a common property of all selected documents: values, or an
expression.

Read it in this order:

    tree, registry      the nodes of an expression, and the names of its operations
    markers             values that exist only during an evaluation
    evaluate            its meaning
    operations/,
    checks              wrong arguments of operations, in ReQL's sentences
    pattern, pattern_reader, pattern_steps
                        regular expressions for `match`, with a bound on the cost of matching
    paths               paths of fields, for `pluck` and similar terms
    build, namespace    its form for users
    show, serialize     its text, and its form for indexes in the file
    compile             its generated Python function
    api                 from an expression to a value, in three ways
    analyse             facts that it implies without any document
    exact_ranges        the ranges of an index with exactly the documents for which it holds
    predicate, update, order
                        the forms of filter, update and order_by

Rule of this folder: it knows values, not tables. It imports `reactdb.values`, `errors`, `budget`,
`async_functions` and `guessed_words` only.

The names are imported at their first use, and the operations at the first look-up of one: a program that inserts and
gets needs few of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

# At once: `evaluate` is also the name of a module here, and an import of that module would put the module under this
# name.
from reactdb.expression.api import compile_predicate, compile_value, evaluate
from reactdb.expression.registry import OPERATIONS

if TYPE_CHECKING:
    from reactdb.expression.analyse import (
        Conjunct,
        FieldPath,
        KeyRange,
        field_path,
        fields_read,
        find_compared_fields,
        find_conjuncts,
        find_dict_patterns,
        find_implied_ranges,
        find_index_ranges,
        find_ranges_of_indexes,
        is_deterministic,
        may_fail,
        route_of,
        routing_keys,
    )
    from reactdb.expression.build import (
        Expression,
        call,
        call_node,
        expr,
        function_node,
        has_expression,
        pattern_function,
        row,
    )
    from reactdb.expression.checks import array_limit
    from reactdb.expression.exact_ranges import find_exact_values, ranges_of_index
    from reactdb.expression.markers import Grouped, Literal
    from reactdb.expression.namespace import Namespace, as_order_key, asc, branch, desc, literal, r
    from reactdb.expression.order import OrderKey, sort_documents
    from reactdb.expression.predicate import Predicate, as_predicate, describe_function
    from reactdb.expression.registry import Operation, operation
    from reactdb.expression.serialize import check_known, from_data, to_data
    from reactdb.expression.tree import MAX_TREE_DEPTH, Call, Constant, Function, Node, Row, Variable
    from reactdb.expression.update import (
        as_function,
        as_patch,
        check_patch,
        compile_function,
        compute_returned,
        is_user_code,
        merge_document,
    )
    from reactdb.values.collation import maxval, minval

_HOMES = {
    "reactdb.values.collation": (
        "maxval",
        "minval",
    ),
    "reactdb.expression.analyse": (
        "Conjunct",
        "FieldPath",
        "KeyRange",
        "find_compared_fields",
        "find_conjuncts",
        "find_dict_patterns",
        "field_path",
        "fields_read",
        "find_implied_ranges",
        "find_index_ranges",
        "find_ranges_of_indexes",
        "is_deterministic",
        "may_fail",
        "route_of",
        "routing_keys",
    ),
    "reactdb.expression.build": (
        "Expression",
        "call",
        "call_node",
        "expr",
        "function_node",
        "has_expression",
        "pattern_function",
        "row",
    ),
    "reactdb.expression.checks": ("array_limit",),
    "reactdb.expression.exact_ranges": (
        "find_exact_values",
        "ranges_of_index",
    ),
    "reactdb.expression.markers": (
        "Grouped",
        "Literal",
    ),
    "reactdb.expression.namespace": (
        "Namespace",
        "as_order_key",
        "asc",
        "branch",
        "desc",
        "literal",
        "r",
    ),
    "reactdb.expression.order": (
        "OrderKey",
        "sort_documents",
    ),
    "reactdb.expression.predicate": (
        "Predicate",
        "as_predicate",
        "describe_function",
    ),
    "reactdb.expression.registry": (
        "Operation",
        "operation",
    ),
    "reactdb.expression.serialize": (
        "check_known",
        "from_data",
        "to_data",
    ),
    "reactdb.expression.tree": (
        "Call",
        "Constant",
        "Function",
        "MAX_TREE_DEPTH",
        "Node",
        "Row",
        "Variable",
    ),
    "reactdb.expression.update": (
        "as_function",
        "as_patch",
        "check_patch",
        "compile_function",
        "compute_returned",
        "is_user_code",
        "merge_document",
    ),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "MAX_TREE_DEPTH",
    "OPERATIONS",
    "Call",
    "Conjunct",
    "Constant",
    "Expression",
    "FieldPath",
    "Function",
    "Grouped",
    "KeyRange",
    "Literal",
    "Namespace",
    "Node",
    "Operation",
    "OrderKey",
    "Predicate",
    "Row",
    "Variable",
    "array_limit",
    "as_function",
    "as_order_key",
    "as_patch",
    "as_predicate",
    "asc",
    "branch",
    "call",
    "call_node",
    "check_known",
    "check_patch",
    "compile_function",
    "compile_predicate",
    "compile_value",
    "compute_returned",
    "desc",
    "describe_function",
    "evaluate",
    "expr",
    "field_path",
    "fields_read",
    "find_compared_fields",
    "find_conjuncts",
    "find_dict_patterns",
    "find_exact_values",
    "find_implied_ranges",
    "find_index_ranges",
    "find_ranges_of_indexes",
    "from_data",
    "function_node",
    "has_expression",
    "is_deterministic",
    "is_user_code",
    "literal",
    "maxval",
    "may_fail",
    "merge_document",
    "minval",
    "operation",
    "pattern_function",
    "r",
    "ranges_of_index",
    "route_of",
    "routing_keys",
    "row",
    "sort_documents",
    "to_data",
]


OPERATIONS.import_later(
    *(
        f"reactdb.expression.operations.{family}"
        for family in ("arrays", "logic", "numbers", "objects", "sequences", "strings", "times", "types")
    )
)


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'reactdb.expression' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
