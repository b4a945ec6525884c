"""What a document allows a request to hold, judged by openapi-schema-validator, which shares no code with the importer; and values
that are likely to be allowed, made by chance from the document's own schemas.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import jsonschema
import referencing
from openapi_schema_validator import OAS30ReadValidator, OAS30WriteValidator, OAS31Validator

from tests.support.imports.said import Walker
from tools.imports.formats.specs import EndpointSpec

_TRIES = 6
_DEPTH = 5


def _required_of_side(mark: str) -> Any:
    """`required` of 3.1 as OpenAPI has it: on the side that may send the field."""

    def required(validator: Any, names: Any, instance: Any, schema: Any) -> Iterator[Any]:
        if validator.is_type(instance, "object"):
            for name in names:
                field = (schema.get("properties") or {}).get(name)
                if name not in instance and not (isinstance(field, dict) and field.get(mark) is True):
                    yield jsonschema.ValidationError(f"{name} is missing")

    return required


class Allowed:
    """Judges and makes values of the schemas of one document, of requests or of answers."""

    def __init__(self, tree: Any, walker: Walker, chance: random.Random, *, is_answer: bool = False) -> None:
        self._tree, self._walker, self._chance = tree, walker, chance
        self._mark = "writeOnly" if is_answer else "readOnly"
        is_old = not walker.siblings_count
        side = OAS30ReadValidator if is_answer else OAS30WriteValidator
        newer = jsonschema.validators.extend(OAS31Validator, {"required": _required_of_side(self._mark)})
        self._kind = side if is_old else newer
        self._nodes: list[Any] = []
        whole = referencing.Resource.opaque({**tree, "x-nodes": self._nodes})
        self._registry: Any = referencing.Registry().with_resource("urn:document", whole)

    def validator(self, node: Any) -> Any:
        self._nodes.append(node)
        schema = {"$ref": f"urn:document#/x-nodes/{len(self._nodes) - 1}"}
        return self._kind(schema, registry=self._registry)

    def value(self, node: Any) -> list[Any]:
        """A value that the schema allows, or none where chance finds none."""
        validator = self.validator(node)
        for _ in range(_TRIES):
            made = self._made(node, _DEPTH)
            try:
                if validator.is_valid(made):
                    return [made]
            except (referencing.exceptions.Unresolvable, RecursionError, TypeError, AttributeError):
                return []  # it has no answer: the schema is none, or leads nowhere
        return []

    def _made(self, node: Any, depth: int) -> Any:
        chance, node = self._chance, self._walker.target(node)
        if not isinstance(node, dict):
            return chance.choice(["a", 1, True, {}, []])
        listed = [*(node.get("enum") or ()), *([node["const"]] if "const" in node else ())]
        if listed:
            return chance.choice(listed)
        if node.get("nullable") is True and chance.random() < 0.2:
            return None
        known = [node[key] for key in ("example", "default") if node.get(key) is not None]
        if known and chance.random() < 0.3:
            return chance.choice(known)
        parts = list(node.get("allOf") or ())
        parts += [chance.choice(node[key]) for key in ("anyOf", "oneOf") if node.get(key)]
        told_apart = node.get("discriminator")
        if isinstance(told_apart, dict) and told_apart.get("mapping") and "allOf" not in node:
            word, ref = chance.choice(sorted(told_apart["mapping"].items()))
            made = self._made({"$ref": ref}, depth)
            return {**made, told_apart["propertyName"]: word} if isinstance(made, dict) else made
        types = node.get("type")
        if isinstance(types, list):
            types = chance.choice(types)
        if types is None:
            types = "object" if "properties" in node else "array" if "items" in node else None
        if types is None and parts:
            return self._merged([self._made(part, depth) for part in parts])
        own = self._of_type(types, node, depth)
        return self._merged([own, *(self._made(part, depth) for part in parts)])

    @staticmethod
    def _merged(made: list[Any]) -> Any:
        if all(isinstance(one, dict) for one in made):
            return {key: value for one in made for key, value in one.items()}
        return made[0]

    def _of_type(self, kind: Any, node: Any, depth: int) -> Any:
        chance = self._chance
        if kind == "object":
            return self._object(node, depth)
        if kind == "array":
            count = node.get("minItems") or (chance.randint(0, 2) if depth > 0 else 0)
            return [self._made(node.get("items"), depth - 1) for _ in range(min(count, 20))]
        if kind in ("integer", "number"):
            step = node.get("multipleOf") or 1
            low = node.get("minimum", node.get("exclusiveMinimum"))
            high = node.get("maximum", node.get("exclusiveMaximum"))
            low = low if isinstance(low, int | float) and not isinstance(low, bool) else None
            high = high if isinstance(high, int | float) and not isinstance(high, bool) else None
            if low is None:
                low = (high - 10 * step) if high is not None else 0
            near = low + step * chance.randint(0, 2)
            made = high if high is not None and chance.random() < 0.3 else near
            return int(made) if kind == "integer" else made
        if kind == "boolean":
            return chance.random() < 0.5
        if kind == "null":
            return None
        if kind in ("string", "file"):
            length = node.get("minLength") or chance.randint(0, min(node.get("maxLength", 3), 3))
            return "a" * length
        return chance.choice(["a", 1, 1.5, True, None, {}, [], {"a": 1}])

    def _object(self, node: Any, depth: int) -> Any:
        chance, made = self._chance, {}
        needed = [name for name in node.get("required") or () if isinstance(name, str)]
        properties = node.get("properties") or {}
        for name, field in properties.items():
            is_marked = isinstance(field, dict) and field.get(self._mark) is True
            wanted = name in needed or (depth > 0 and chance.random() < 0.4)
            if wanted and not is_marked:
                made[name] = self._made(field, depth - 1)
        for name in needed:
            if name not in properties:
                made[name] = chance.choice(["a", 1])
        more = node.get("additionalProperties", True)
        if more not in (False, None) and chance.random() < 0.3:
            made["another"] = self._made(more if isinstance(more, dict) else {}, depth - 1)
        return made


def requests(tree: Any, spec: EndpointSpec, chance: random.Random, count: int) -> Iterator[dict[str, Any]]:
    """Arguments of the tool for requests that the document allows: at most `count`."""
    walker = Walker(tree, spec)
    allowed = Allowed(tree, walker, chance)
    item = walker.item(spec.path)
    written = walker.parameters(item, item[spec.method])
    parameters = {key: walker.target(one) for key, one in written.items()}
    body = walker.target(item[spec.method].get("requestBody"))
    metadata = spec.metadata["body"] or {}
    if isinstance(body, dict):
        in_body = (body.get("content") or {}).get(metadata.get("media_type")) or {}
    else:
        body = in_body = next((one for (place, _), one in parameters.items() if place == "body"), {})
    for _ in range(count):
        made: dict[str, Any] = {}
        is_possible = True
        for (place, name), one in parameters.items():
            key = ("form" if place == "formData" else place, name)
            is_needed = one.get("required") is True
            if key in walker.places and (is_needed or chance.random() < 0.5):
                value = allowed.value(_schema_of(one))
                made |= dict(zip([walker.places[key]["property"]], value, strict=False))
                is_possible = is_possible and (bool(value) or not is_needed)
        is_needed = body.get("required") is True
        if is_needed or chance.random() < 0.7:
            value = allowed.value(in_body["schema"]) if "schema" in in_body else []
            for one in value:
                fields = one if isinstance(one, dict) else {}
                made |= (
                    {metadata["property"]: one}
                    if "property" in metadata
                    else {
                        walker.places["form", name]["property"]: fields[name]
                        for name in fields
                        if ("form", name) in walker.places
                    }
                )
            is_possible = is_possible and (bool(value) or not is_needed)
        if is_possible:
            yield made


def answers(tree: Any, spec: EndpointSpec, chance: random.Random, count: int) -> Iterator[Any]:
    """Values that the document allows as the answer whose schema the tool shows: the first successful one that is JSON."""
    walker = Walker(tree, spec)
    allowed = Allowed(tree, walker, chance, is_answer=True)
    responses = walker.item(spec.path)[spec.method].get("responses") or {}
    for status in sorted(responses):
        answer = walker.target(responses[status])
        if not status.startswith("2") or not isinstance(answer, dict):
            continue
        content = (
            {"application/json": answer} if walker.version.startswith("2") else answer.get("content") or {}
        )
        json_types = [one for one in content if "json" in one.split(";")[0] or one == "*/*"]
        if json_types and "schema" in content[json_types[0]]:
            for _ in range(count):
                yield from allowed.value(content[json_types[0]]["schema"])
            return


def _schema_of(parameter: Any) -> Any:
    if "schema" in parameter:
        return parameter["schema"]
    if content := parameter.get("content"):
        return next(iter(content.values())).get("schema", {})
    not_of_schemas = (
        "name",
        "in",
        "required",
        "description",
        "collectionFormat",
        "allowEmptyValue",
        "style",
        "explode",
    )
    inline = {key: value for key, value in parameter.items() if key not in not_of_schemas}
    return {**inline, "type": "string"} if inline.get("type") == "file" else inline


def refused(tree: Any, spec: EndpointSpec, chance: random.Random, count: int) -> tuple[int, list[str]]:
    """How many values were tried, and those that the document allows and the tool's schema refuses."""
    tried, found = 0, []
    for schema, made in (
        (spec.input_schema, requests(tree, spec, chance, count)),
        (spec.output_schema, answers(tree, spec, chance, count) if spec.output_schema else ()),
    ):
        validator = jsonschema.Draft202012Validator(schema or {})
        for value in made:
            tried += 1
            if (error := next(validator.iter_errors(value), None)) is not None:
                found.append(
                    f"{spec.key}: {error.message[:300]} ({list(error.absolute_schema_path)}) of {value!r:.300}"
                )
    return tried, found
