"""Validation errors: the reason why a document does not pass a validator, as `errInfo.details` of code 121.

    details({"age": {"$gte": 18}}, {"_id": 1, "age": 5})
    {"operatorName": "$gte", "specifiedAs": {"age": {"$gte": 18}}, "reason": "comparison failed", "consideredValue": 5}

A report has the condition and the document's values. Conditions that hold are left out; in `$jsonSchema`, so are keywords that
hold.

Rule of this file: `filters` and `schemas` test the conditions. This file has only the wording.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from bson.regex import Regex

from reactdb.dialects.mongodb.bson_order import MISSING, type_name
from reactdb.dialects.mongodb.filters import Filter
from reactdb.dialects.mongodb.paths import ends, split
from reactdb.dialects.mongodb.schemas import compile_schema

__all__ = ["details"]

Document = dict[str, Any]

_REASONS: Final = {
    "$in": "no matching value found in array",
    "$nin": "matching value found in array",
    "$exists": "path does not exist",
    "$type": "type did not match",
    "$regex": "regular expression did not match",
    "$size": "array length was not equal to given size",
    "$mod": "$mod did not evaluate to expected remainder",
    "$all": "array did not contain all specified values",
    "$elemMatch": "array did not satisfy the child predicate",
    "$bitsAllSet": "bitwise operator failed to match",
    "$bitsAllClear": "bitwise operator failed to match",
    "$bitsAnySet": "bitwise operator failed to match",
    "$bitsAnyClear": "bitwise operator failed to match",
}
_COMPARISON: Final = "comparison failed"
_NEGATED: Final = frozenset(("$ne", "$nin", "$not", "$exists"))
# They may hold for a missing field.


Variables = Mapping[str, Any]


def details(spec: Mapping[str, Any], document: Document, variables: Variables | None = None) -> Document:
    """The reason why a BSON document does not match a query. `variables`: for the query's expressions."""
    clauses = [{name: value} for name, value in spec.items() if name != "$comment"]
    if len(clauses) == 1:
        return _clause(clauses[0], document, variables)
    return {"operatorName": "$and", "clausesNotSatisfied": _unsatisfied_clauses(clauses, document, variables)}


def _unsatisfied_clauses(
    clauses: list[Document], document: Document, variables: Variables | None = None
) -> list[Document]:
    return [
        {"index": place, "details": details(clause, document, variables)}
        for place, clause in enumerate(clauses)
        if not Filter(clause, variables=variables).matches(document)
    ]


def _clause(clause: Document, document: Document, variables: Variables | None) -> Document:
    ((name, value),) = clause.items()
    if name in ("$and", "$or"):
        return {"operatorName": name, "clausesNotSatisfied": _unsatisfied_clauses(value, document, variables)}
    if name == "$nor":
        held = [
            {"index": place, "details": {"operatorName": "$nor", "specifiedAs": one}}
            for place, one in enumerate(value)
            if Filter(one, variables=variables).matches(document)
        ]
        return {"operatorName": name, "clausesSatisfied": held}
    if name == "$jsonSchema":
        return {"operatorName": name, "schemaRulesNotSatisfied": _rules(value, document)}
    if name.startswith("$"):
        more: Document = {"expressionResult": False} if name == "$expr" else {}
        return {
            "operatorName": name,
            "specifiedAs": clause,
            "reason": "expression did not match" if name == "$expr" else _COMPARISON,
            **more,
        }
    return _of_field(name, value, document)


def _of_field(path: str, condition: Any, document: Document) -> Document:
    is_operators = isinstance(condition, Mapping) and condition and str(next(iter(condition))).startswith("$")
    if not is_operators:
        name = "$regex" if isinstance(condition, Regex) else "$eq"
        return _report(name, path, {path: condition}, document)
    operators = [one for one in condition if one != "$options"]
    if len(operators) == 1:
        return _report(operators[0], path, {path: condition}, document)
    clauses: list[Document] = []
    for one in operators:
        own = {one: condition[one]}
        if one == "$regex" and "$options" in condition:
            own["$options"] = condition["$options"]
        clauses.append({path: own})
    return {"operatorName": "$and", "clausesNotSatisfied": _unsatisfied_clauses(clauses, document)}


def _report(operator: str, path: str, specified: Document, document: Document) -> Document:
    values = [one for one in ends(document, split(path)) if one is not MISSING]
    report: Document = {"operatorName": operator, "specifiedAs": specified}
    if not values and operator not in _NEGATED:
        return {**report, "reason": "field was missing"}
    if operator == "$exists":
        return {**report, "reason": "path does exist" if values else _REASONS[operator]}
    report["reason"] = _REASONS.get(operator, _COMPARISON)
    return {**report, **_considered_values(values, with_type=operator == "$type")}


def _considered_values(values: list[Any], *, with_type: bool) -> Document:
    """The document's values at the path."""
    if len(values) != 1:
        return {"consideredValues": values} if values else {}
    report = {"consideredValue": values[0]}
    return {**report, "consideredType": type_name(values[0])} if with_type else report


# ---------------------------------------------------------------------------------------------------------------
# $jsonSchema

_OF_LISTS: Final = {"allOf": "schemasNotSatisfied", "anyOf": "schemasNotSatisfied"}
_BESIDE: Final = {
    "minimum": ("exclusiveMinimum",),
    "maximum": ("exclusiveMaximum",),
    "items": ("additionalItems",),
}
_SCHEMA_REASONS: Final = {
    "bsonType": "type did not match",
    "type": "type did not match",
    "enum": "value was not found in enum",
    "pattern": "regular expression did not match",
    "multipleOf": "considered value is not a multiple of the specified value",
    "minLength": "specified string length was not satisfied",
    "maxLength": "specified string length was not satisfied",
    "minItems": "array did not match specified length",
    "maxItems": "array did not match specified length",
    "minProperties": "specified number of properties was not satisfied",
    "maxProperties": "specified number of properties was not satisfied",
    "uniqueItems": "found a duplicate item",
}


def _rules(schema: Mapping[str, Any], value: Any) -> list[Document]:
    """A report for each keyword of a schema that a value does not pass."""
    reports: list[Document] = []
    for name, operand in schema.items():
        if name in _OBJECT_KEYWORDS:
            continue
        own = {one: schema[one] for one in (name, *_BESIDE.get(name, ())) if one in schema}
        if not _passes(own, value):
            reports.append(_rule(name, operand, own, value))
    if isinstance(value, dict):
        reports += _of_properties(schema, value)
    return reports


_OBJECT_KEYWORDS: Final = frozenset(("properties", "patternProperties", "additionalProperties"))


def _passes(schema: Mapping[str, Any], value: Any) -> bool:
    return compile_schema(schema)(value)


def _rule(name: str, operand: Any, own: Document, value: Any) -> Document:
    report: Document = {"operatorName": name}
    if name in _OF_LISTS:
        failed = [
            {"index": place, "details": _rules(one, value)}
            for place, one in enumerate(operand)
            if not _passes(one, value)
        ]
        return {**report, _OF_LISTS[name]: failed}
    if name == "oneOf":
        held = [place for place, one in enumerate(operand) if _passes(one, value)]
        if held:
            return {**report, "reason": "more than one subschema matched", "matchingSchemaIndexes": held}
        failed = [{"index": place, "details": _rules(one, value)} for place, one in enumerate(operand)]
        return {**report, "schemasNotSatisfied": failed}
    if name == "not":
        return {**report, "reason": "child expression matched"}
    if name == "required":
        return {
            **report,
            "specifiedAs": own,
            "missingProperties": [one for one in operand if one not in value],
        }
    if name == "items" and isinstance(operand, Mapping):
        place = next(place for place, one in enumerate(value) if not _passes(operand, one))
        return {
            **report,
            "reason": "At least one item did not match the sub-schema",
            "itemIndex": place,
            "details": _rules(operand, value[place]),
        }
    return {
        **report,
        "specifiedAs": own,
        "reason": _SCHEMA_REASONS.get(name, _COMPARISON),
        **_considered_values([value], with_type=name in ("bsonType", "type")),
    }


def _of_properties(schema: Mapping[str, Any], value: Document) -> list[Document]:
    reports: list[Document] = []
    known = schema.get("properties", {})
    failed = [
        {
            "propertyName": name,
            **({"description": inner["description"]} if "description" in inner else {}),
            "details": _rules(inner, value[name]),
        }
        for name, inner in known.items()
        if name in value and not _passes(inner, value[name])
    ]
    if failed:
        reports.append({"operatorName": "properties", "propertiesNotSatisfied": failed})
    by_pattern = schema.get("patternProperties", {})
    others = {name: one for name, one in value.items() if name not in known}
    wrong = [
        {"propertyName": name, "regexMatched": pattern, "details": _rules(inner, one)}
        for pattern, inner in by_pattern.items()
        for name, one in value.items()
        if not _passes({"patternProperties": {pattern: inner}}, {name: one})
    ]
    if wrong:
        reports.append({"operatorName": "patternProperties", "details": wrong})
    additional = schema.get("additionalProperties", True)
    own = {"patternProperties": {one: {} for one in by_pattern}, "additionalProperties": additional}
    refused = [name for name, one in others.items() if not _passes(own, {name: one})]
    if refused:
        more = (
            {"additionalProperties": refused}
            if isinstance(additional, bool)
            else {
                "reason": "at least one additional property did not match the subschema",
                "failingProperty": refused[0],
                "details": _rules(additional, value[refused[0]]),
            }
        )
        reports.append(
            {
                "operatorName": "additionalProperties",
                "specifiedAs": {"additionalProperties": additional},
                **more,
            }
        )
    return reports
