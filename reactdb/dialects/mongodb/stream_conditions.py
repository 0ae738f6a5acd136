"""The conditions in the leading `$match` stages of a stream, and the event fields that they depend on.

    {"ns.coll": "y", "fullDocument.z": 1}    two conditions; only the second depends on `fullDocument`

A condition that does not depend on an image can be tested before the image is looked up, as MongoDB's optimizer does. The paths
in an expression show its fields.

Rule of this file: a condition that cannot be analysed depends on everything.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

__all__ = ["conjuncts", "depends_on"]

# They are no conditions on a document.
_OF_NOTHING: Final = frozenset({"$comment", "$alwaysTrue", "$alwaysFalse"})
_WHOLE: Final = frozenset({"ROOT", "CURRENT"})


def conjuncts(match: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The filters that must all match for this one, in its order. It has been compiled, so it is well-formed."""
    for name, operand in match.items():
        if name == "$and":
            for part in operand:
                yield from conjuncts(part)
        elif name == "$nor":
            yield from ({name: [part]} for part in operand)
        else:
            yield {name: operand}


def depends_on(match: Mapping[str, Any], fields: Collection[str]) -> bool:
    """Whether one of these fields of a document may decide if it matches."""
    for name, operand in match.items():
        if name in ("$and", "$or", "$nor"):
            depends = any(depends_on(part, fields) for part in operand)
        elif name == "$expr":
            depends = _uses(operand, fields)
        elif name.startswith("$"):
            depends = name not in _OF_NOTHING
        else:
            depends = name.partition(".")[0] in fields
        if depends:
            return True
    return False


def _uses(expression: Any, fields: Collection[str]) -> bool:
    if isinstance(expression, str):
        if expression.startswith("$$"):
            # Other variables are defined by expressions, whose paths are seen there.
            return expression[2:].partition(".")[0] in _WHOLE
        return expression.startswith("$") and expression[1:].partition(".")[0] in fields
    if isinstance(expression, Mapping):
        return any(
            _is_of_everything(name, inner) or _uses(inner, fields) for name, inner in expression.items()
        )
    return isinstance(expression, (list, tuple)) and any(_uses(inner, fields) for inner in expression)


def _is_of_everything(operator: str, operand: Any) -> bool:
    if operator == "$getField":
        # Without an input it reads the document, and the name may be computed.
        return not (isinstance(operand, Mapping) and "input" in operand)
    # It has another value each time, so it must not be tested twice.
    return operator == "$rand"
