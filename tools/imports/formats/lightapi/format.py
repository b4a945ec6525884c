"""Validates a LightAPI description against the format's own schema (lightapi-0.1.0.yaml), and names every violation. Every fault has its place, for example `operations.ping.method`. Values are never repeated, since a wrong document
may hold a secret where only its name may stand.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import yaml
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

from tools.imports.formats.specs import DocumentRefused, JsonObject, JsonValue
from tools.imports.formats.texts import as_text, truncate

VERSION = "0.1.0"
_SCHEMA = Path(__file__).with_name("lightapi-0.1.0.yaml")
_PROTOCOLS = {"http": "http", "jsonrpc": "jsonRpc", "openrpc": "openRpc", "grpc": "grpc", "mcp": "mcp"}
_MAX_VIOLATIONS = 5
_NAME = re.compile(r"[A-Za-z0-9_.$-]{1,100}")
_TYPES = {
    "string": "a text", "object": "a mapping", "array": "a list", "integer": "a whole number", "number": "a number",
    "boolean": "true or false", "null": "null",
}  # fmt: skip


def validate(tree: JsonValue, subject: str) -> JsonObject:
    """The document, if it is one of this version and keeps to the format's schema; otherwise DocumentRefused, whose sentence
    begins with `subject`."""
    if not isinstance(tree, dict) or "lightapi" not in tree:
        raise DocumentRefused(f"{subject} is not a LightAPI description: it has no field 'lightapi'.")
    if tree["lightapi"] != VERSION:
        shown = truncate(as_text(tree["lightapi"]), 50) or "no text"
        raise DocumentRefused(
            f"{subject} cannot be imported: its 'lightapi' is '{shown}', and the version read is {VERSION}."
        )
    violations = sorted(dict.fromkeys(_violations(_validator().iter_errors(tree))))
    if violations:
        more = (
            f" … and {len(violations) - _MAX_VIOLATIONS:,} more" if len(violations) > _MAX_VIOLATIONS else ""
        )
        raise DocumentRefused(
            f"{subject} is not a valid LightAPI description: {'; '.join(violations[:_MAX_VIOLATIONS])}{more}."
        )
    return tree


@functools.cache
def _validator() -> Draft202012Validator:
    """The format's schema, but with an operation's kind chosen by its protocol: errors of a `oneOf` name no field."""
    schema = yaml.load(_SCHEMA.read_text("utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 - ours
    schema["$defs"]["operation"] = {
        "type": "object",
        "required": ["protocol"],
        "properties": {"protocol": {"enum": list(_PROTOCOLS)}},
        "allOf": [
            {
                "if": {"properties": {"protocol": {"const": protocol}}, "required": ["protocol"]},
                "then": {"$ref": f"#/$defs/{kind}Operation"},
            }
            for protocol, kind in _PROTOCOLS.items()
        ],
    }
    return Draft202012Validator(schema)


def _violations(errors: Iterable[ValidationError]) -> Iterator[str]:
    """Sentences without values. A field that a failed part would have known is no fault of its own."""
    found = list(errors)
    certain = [error for error in found if error.validator != "unevaluatedProperties"]
    for error in found:
        if error in certain or not any(_within(error, other) for other in certain):
            yield from _sentences(error)


def _within(error: ValidationError, other: ValidationError) -> bool:
    path = list(error.absolute_path)
    return list(other.absolute_path)[: len(path)] == path


def _sentences(error: ValidationError) -> Iterator[str]:
    path, rule, wanted = _dotted(error.absolute_path), error.validator, error.validator_value
    instance = error.instance
    if rule == "required":
        yield from (
            f"{_dotted([*error.absolute_path, one])} is missing" for one in wanted if one not in instance
        )
    elif rule == "anyOf" and isinstance(instance, dict) and instance.get("protocol") == "http":
        needed = ("source", "operationId") if "source" in instance else ("method", "endpoint")
        missing = next(one for one in needed if one not in instance)
        yield (
            f"{path}.{missing} is missing (an http operation has method and endpoint, or source and operationId)"
        )
    elif rule in {"unevaluatedProperties", "additionalProperties"}:
        yield f"{path or 'the document'} has a field that the format does not know ({_unknown(error)})"
    elif rule == "maxProperties" and path == "operations":
        yield "operations has more than one entry, and the profile 'endpoint' allows one"
    elif rule in {"minProperties", "minItems", "minLength"}:
        yield f"{path} is empty"
    elif rule in {"enum", "const"}:
        yield f"{path} is none of {', '.join(map(str, wanted if rule == 'enum' else [wanted]))}"
    elif rule == "type":
        kinds: list[str] = wanted if isinstance(wanted, list) else [wanted]
        yield f"{path} is not {' or '.join(_TYPES.get(kind, kind) for kind in kinds)}"
    elif rule == "pattern":
        yield f"{path} is not written as the format wants it ({wanted})"
    elif rule in {"oneOf", "anyOf"} and error.context:
        # Of the alternatives the one that came furthest is what was meant.
        deepest = max(len(inner.absolute_path) for inner in error.context)
        meant = [inner for inner in error.context if len(inner.absolute_path) == deepest]
        if deepest > len(error.absolute_path):
            yield from _violations(meant)
        else:
            yield f"{path} has a form that the format does not allow"
    else:
        yield f"{path} breaks the format's rule '{rule}'"


def _unknown(error: ValidationError) -> str:
    """Names of fields, which are no secrets; those that are not shaped like names are counted."""
    known = error.schema.get("properties", {})
    extra = [str(one) for one in error.instance if one not in known]
    shown = [one for one in extra if _NAME.fullmatch(one)][:3]
    return ", ".join(shown) if shown else f"{len(extra)} fields"


def _dotted(path: Iterable[JsonValue]) -> str:
    return ".".join(truncate(str(part), 100) for part in path)
