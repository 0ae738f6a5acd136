"""FHIR's format of a resource, made of Aidbox's.

    Aidbox                                            FHIR
    ------------------------------------------------  ----------------------------------------------------
    {"resourceType": "Patient", "id": "pt-1"}, a      {"reference": "Patient/pt-1"}
    reference; other fields of it stay
    {"uri": "http://..."} beside no resourceType      {"reference": "http://..."}
    "value": {"Quantity": {...}}, an element of       "valueQuantity": {...}
    several types
    "value": {"string": "a"}                          "valueString": "a"

Source: https://docs.aidbox.app, "Aidbox and FHIR formats".

Rule of this file: a resource in, a resource out.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

__all__ = ["instant", "meta_of", "to_fhir"]

# The types of an element with several types. Source: http://hl7.org/fhir/R4/datatypes.html, "Open type element".
# fmt: off
PRIMITIVES: Final = frozenset(
    {
        "base64Binary", "boolean", "canonical", "code", "date", "dateTime", "decimal", "id", "instant", "integer", "markdown",
        "oid", "positiveInt", "string", "time", "unsignedInt", "uri", "url", "uuid",
    }
)
COMPLEX: Final = frozenset(
    {
        "Address", "Age", "Annotation", "Attachment", "CodeableConcept", "Coding", "ContactDetail", "ContactPoint",
        "Contributor", "Count", "DataRequirement", "Distance", "Dosage", "Duration", "Expression", "HumanName", "Identifier",
        "Meta", "Money", "ParameterDefinition", "Period", "Quantity", "Range", "Ratio", "Reference", "RelatedArtifact",
        "SampledData", "Signature", "Timing", "TriggerDefinition", "UsageContext",
    }
)
# Elements with one of several primitive types. In other elements, a field with a type's name is an ordinary field.
CHOICES: Final = frozenset(
    {
        "abatement", "age", "allowed", "answer", "asNeeded", "born", "content", "deceased", "defaultValue", "dose",
        "effective", "entity", "fixed", "item", "maxValue", "medication", "minValue", "multipleBirth", "occurrence", "onset",
        "pattern", "performed", "product", "rate", "scheduled", "serviced", "source", "target", "timing", "used", "value",
    }
)
# fmt: on
REFERENCE: Final = frozenset({"resourceType", "id", "display", "identifier", "type", "localRef", "extension"})


def to_fhir(resource: Mapping[str, Any], type: str, version: int, time_ms: int) -> dict[str, Any]:
    """A resource in FHIR's format, with its type, its version and when it was written (milliseconds since 1970)."""
    rendered = {"resourceType": type, "id": resource["id"], "meta": meta_of(resource, version, time_ms)}
    rendered.update(_fields({name: value for name, value in resource.items() if name not in ("id", "meta")}))
    return rendered


def meta_of(resource: Mapping[str, Any], version: int, time_ms: int | None) -> dict[str, Any]:
    """A resource's own `meta`, with the log's data."""
    meta = dict(resource["meta"]) if isinstance(resource.get("meta"), Mapping) else {}
    if time_ms is not None:
        meta["lastUpdated"] = instant(time_ms)
    meta["versionId"] = str(version)
    return meta


def instant(time_ms: int) -> str:
    """An instant, to the millisecond."""
    return (
        datetime.fromtimestamp(time_ms / 1_000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    )


def _fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    rendered = {}
    for name, value in fields.items():
        kind = _only_type(name, value)
        if kind is None:
            rendered[name] = _value(value)
        else:
            rendered[name + kind[0].upper() + kind[1:]] = _value(value[kind])
    return rendered


def _only_type(name: str, value: Any) -> str | None:
    """The type of an element with several possible types, such as `{"Quantity": {...}}`."""
    if not isinstance(value, Mapping) or len(value) != 1:
        return None
    ((kind, inner),) = value.items()
    if kind in COMPLEX and isinstance(inner, Mapping):
        return str(kind)
    if name in CHOICES and kind in PRIMITIVES and not isinstance(inner, (Mapping, list)):
        return str(kind)
    return None


def _value(value: Any) -> Any:
    if isinstance(value, list):
        return [_value(one) for one in value]
    if not isinstance(value, Mapping):
        return value
    if _is_reference(value):
        rest = {
            name: _value(one) for name, one in value.items() if name not in ("resourceType", "id", "localRef")
        }
        local = value.get("localRef")
        return {
            "reference": f"{value['resourceType']}/{value['id']}" if local is None else f"#{local}",
            **rest,
        }
    if isinstance(value.get("uri"), str) and set(value) <= {"uri", "display", "identifier", "type"}:
        return {
            "reference": value["uri"],
            **{name: _value(one) for name, one in value.items() if name != "uri"},
        }
    return _fields(value)


def _is_reference(value: Mapping[str, Any]) -> bool:
    if "localRef" in value and set(value) <= REFERENCE:
        return isinstance(value["localRef"], str)
    return (
        isinstance(value.get("resourceType"), str)
        and isinstance(value.get("id"), str)
        and set(value) <= REFERENCE
    )
