"""What an OpenAPI document says of its operations, found by walking the document alone, and what of it neither the tool nor a
warning says.

This is the oracle of SYN-1's "nothing is lost in silence": it shares no code with the importer and knows no more of it than what
docs/openapi-import.md promises. Not looked for, since a tool does not need it: extensions, what a document says for readers of the
document (`$comment`, `$id`), servers, security, an answer's description, values that say nothing (null, false, empty).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.support.imports.said_schemas import (
    AS_A_WHOLE,
    CLOSED,
    EMPTY,
    SAYS_NOTHING,
    Said,
    SchemaWalker,
    View,
    words_of,
)
from tools.imports.formats.specs import EndpointSpec, ParsedDocument

METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
_OF_PARAMETERS = ("name", "in", "schema", "content", "$ref", "example", "examples", "description", "required")
_OF_OPERATIONS = (
    "tags", "summary", "description", "operationId", "parameters", "requestBody", "responses", "deprecated", "security", "servers",
    "consumes", "produces", "schemes",
)  # fmt: skip
_OF_PATHS = (
    *METHODS,
    "query",
    "summary",
    "description",
    "parameters",
    "servers",
    "$ref",
    "additionalOperations",
)
_WITH_FIELDS = ("properties", "patternProperties", "allOf", "anyOf", "oneOf")
_COMPONENTS = ("definitions", "parameters", "responses")


class Walker(SchemaWalker):
    """Walks one operation of a document and compares it with its tool."""

    def __init__(self, tree: Any, spec: EndpointSpec) -> None:
        super().__init__(tree)
        self.spec = spec
        self.inputs, self.answer = View(spec.input_schema), View(spec.output_schema or {})
        self.places = {
            (one["in"], one["name"].lower() if one["in"] == "header" else one["name"]): one
            for one in spec.metadata["parameters"]
        }

    # --- An operation ---------------------------------------------------------------------------------------------------
    def operation(self, item: Any, operation: Any) -> Iterator[Said]:
        description = words_of(self.spec.description)
        for text in ("summary", "description"):
            for owner, named in ((operation, ("its description has",)), (item, ("texts of paths",))):
                if isinstance(value := owner.get(text), str):
                    yield Said(
                        f"{text} {value[:60]!r}",
                        words_of(value) <= description,
                        (*named, "its description has"),
                    )
        for tag in operation.get("tags") or ():
            yield Said(f"tag {tag}", tag in self.spec.tags, ("tags beyond",))
        yield from self.fields(operation, _OF_OPERATIONS, "of operations")
        yield from self.fields(item, _OF_PATHS, "of paths")
        yield Said("deprecated", self.spec.deprecated is bool(operation.get("deprecated")), ())
        for listed in (item.get("parameters"), operation.get("parameters")):
            for one in listed or ():
                if not isinstance(self.target(one), dict):
                    yield Said(f"parameter {one}", False, ("parameter",))
        merged = self.parameters(item, operation)
        for (place, name), one in merged.items():
            if place == "body":
                yield from self._swagger_body(one, operation)
            else:
                yield from self._parameter(place, name, one)
        if (body := operation.get("requestBody")) is not None:
            yield from self._body(body)
        yield from self._answers(operation.get("responses") or {})

    def item(self, path: str) -> Any:
        """A path with what it refers to; what stands beside the reference wins."""
        written = self.tree["paths"][path]
        return {**self.target(written), **{key: value for key, value in written.items() if key != "$ref"}}

    def parameters(self, item: Any, operation: Any) -> dict[tuple[str, str], Any]:
        """The parameters of an operation and its path by place and name, as they are written."""
        merged = {}
        for listed in (item.get("parameters"), operation.get("parameters")):
            for one in listed or ():
                if isinstance(found := self.target(one), dict):
                    place, name = str(found.get("in")), str(found.get("name"))
                    merged[place, name.lower() if place == "header" else name] = one
        return merged

    def _parameter(self, place: str, name: str, written: Any) -> Iterator[Said]:
        parameter, where = self.target(written), f"parameter {name}"
        place = "form" if place == "formData" else place
        found = self.places.get((place, name))
        if found is None:
            yield Said(
                where,
                False,
                (f"parameter '{name[:50]}", "header parameters that OpenAPI has ignored", "no room for"),
            )
            return
        yield from self._texts(written.get("description", parameter.get("description")), where)
        yield from self._examples(parameter, where)
        if "schema" in parameter or parameter.get("content"):
            words = ("style", "explode", "allowReserved", "allowEmptyValue", "collectionFormat")
            yield from self.fields(parameter, (*_OF_PARAMETERS, *words), "of parameters")
            yield from self.fields(
                {key: parameter[key] for key in words if key in parameter}, (), "of parameters", found
            )
        if "schema" in parameter:
            yield from self.schema(parameter["schema"], self.inputs, "readOnly", where, ())
            yield from self.fields({"content": parameter.get("content")}, (), "of parameters")
        elif parameter.get("content"):
            for media in parameter["content"].values():
                further = ("further media types of parameters",)
                yield from self._examples(media, where, further)
                yield from self.schema(media.get("schema"), self.inputs, "readOnly", where, further)
        else:
            own = (
                *_OF_PARAMETERS,
                "style",
                "explode",
                "allowReserved",
                "allowEmptyValue",
                "collectionFormat",
                "deprecated",
            )
            inline = {key: value for key, value in parameter.items() if key not in own}
            yield from self.schema(inline, self.inputs, "readOnly", where, ())

    def _texts(self, text: Any, where: str) -> Iterator[Said]:
        if isinstance(text, str):
            named = ("descriptions of inputs beyond", *AS_A_WHOLE)
            yield Said(f"{where}: description {text[:60]!r}", words_of(text) <= self.inputs.words, named)

    def _examples(self, owner: Any, where: str, named: tuple[str, ...] = ()) -> Iterator[Said]:
        """Of a parameter or a media type."""
        named = ("examples of inputs", *named, *AS_A_WHOLE)
        given = owner.get("example")
        if given is not None:
            yield Said(f"{where}: example {given!r:.80}", self.inputs.has_value(given), named)
        examples = owner.get("examples")
        if isinstance(examples, list) and examples:
            yield Said(f"{where}: list of examples", False, ("examples that are not named", *named))
        for one in examples.values() if isinstance(examples, dict) else ():
            found = self.target(one)
            if not isinstance(found, dict):
                yield Said(f"{where}: an example", False, ("an example",))
                continue
            if (value := found.get("value")) is not None:
                yield Said(f"{where}: example {value!r:.80}", self.inputs.has_value(value), named)
            if "externalValue" in found:
                yield Said(f"{where}: example outside", False, ("examples that stand outside", *named))
            for said in self.fields(found, ("value", "externalValue"), "of examples"):
                yield said._replace(named=(*said.named, *named))

    # --- Bodies ---------------------------------------------------------------------------------------------------------
    def _swagger_body(self, written: Any, operation: Any) -> Iterator[Said]:
        parameter = self.target(written)
        yield from self._texts(written.get("description", parameter.get("description")), "body")
        yield from self._examples(parameter, "body")
        yield from self.schema(parameter.get("schema"), self.inputs, "readOnly", "body", ())
        yield from self._media_types(operation.get("consumes", self.tree.get("consumes")) or ())

    def _media_types(self, media_types: Any) -> Iterator[Said]:
        listed = (self.spec.metadata["body"] or {}).get("media_types", ())
        for one in media_types:
            named = ("media types of bodies beyond the first", "media types longer than")
            yield Said(f"media type {one}", one in listed, named)

    def _body(self, written: Any) -> Iterator[Said]:
        body = self.target(written)
        if not isinstance(body, dict):
            yield Said("body", False, ("body",))
            return
        yield from self.fields(body, ("description", "required", "content"), "of bodies")
        is_form = self._is_form
        for said in self._texts(written.get("description", body.get("description")), "body"):
            yield said._replace(named=("descriptions of forms",)) if is_form else said
        content = body.get("content") or {}
        yield from self._media_types(content)
        read = (self.spec.metadata["body"] or {}).get("media_type")
        for media_type, media in content.items():
            is_read = media_type == read
            more = () if is_read else (
                "the schemas of further media types", "examples of further media types", "'encoding' of further media types",
                "media types of bodies beyond the first",
            )  # fmt: skip
            for said in self._examples(media, media_type, more):
                yield said._replace(named=("examples of forms", *more)) if is_form and is_read else said
            yield from self._encoding(media.get("encoding") or {}, more)
            if is_read:
                yield from self.fields(media, ("schema", "example", "examples", "encoding"), "of media types")
            if is_read and is_form:
                yield from self.form(media.get("schema"), media_type)
            else:
                yield from self.schema(media.get("schema"), self.inputs, "readOnly", media_type, more)

    @property
    def _is_form(self) -> bool:
        """Whether the tool takes the body's fields one by one, or no field at all."""
        return "property" not in (self.spec.metadata["body"] or {"property": ""})

    def _encoding(self, encoding: Any, more: tuple[str, ...]) -> Iterator[Said]:
        for name, one in encoding.items():
            place = self.places.get(("form", name), {})
            for key, value in one.items():
                named = ("'encoding' of", f"'{key}' of fields of forms", *more)
                yield Said(f"encoding {name} {key}", place.get(key) == value, named)

    def form(self, node: Any, where: str, hidden: frozenset[str] = frozenset()) -> Iterator[Said]:
        """A form whose fields are properties of the tool; `hidden`: names of the server's fields in the schemas around it."""
        found = self.target(node)
        if not isinstance(found, dict):
            return
        if isinstance(node, dict) and len(node) > 1 and "$ref" in node and not self.siblings_count:
            yield from self.fields({key: node[key] for key in node if key != "$ref"}, (), "beside a $ref")
        hidden |= self.marked_names(found, "readOnly")
        for key, value in found.items():
            named = (f"'{key}' of forms", "further fields of forms")
            if key in ("type", *SAYS_NOTHING) or key.startswith("x-"):
                continue
            if key == "properties":
                for name, field in value.items():
                    if name in hidden:
                        continue
                    shown = ("form", name) in self.places
                    yield Said(f"field {name}", shown, ("fields of forms, of which", *AS_A_WHOLE))
                    more = ("further schemas of one field", "fields of forms, of which")
                    yield from self.schema(field, self.inputs, "readOnly", f"{where}: field {name}", more)
            elif key == "required":
                for name in value:
                    shown = name in hidden or self.places.get(("form", name), {}).get("required", False)
                    yield Said(
                        f"required field {name}",
                        shown,
                        (*named, "required fields of forms", "'anyOf' of forms", "'oneOf' of forms"),
                    )
            elif key in ("allOf", "anyOf", "oneOf"):
                if key != "allOf":
                    yield Said(f"{key} of a form", False, named)
                for one in value:
                    yield from self.form(one, where, hidden)
            elif (
                key == "additionalProperties"
                and value is False
                and not any(found.get(one) for one in _WITH_FIELDS)
            ):
                yield Said(
                    "a form without fields", not any(place == "form" for place, _ in self.places), named
                )
            elif value not in EMPTY or (value is False and key in CLOSED):
                yield Said(f"{key} of a form", False, named)

    # --- Answers --------------------------------------------------------------------------------------------------------
    def _answers(self, responses: Any) -> Iterator[Said]:
        further = ("the schemas of further answers",)
        for status, written in responses.items():
            if status.startswith("x-"):
                continue
            where, answer = f"answer {status}", self.target(written)
            if not isinstance(answer, dict):
                yield Said(where, False, (where,))
                continue
            is_old = self.version.startswith("2")
            read = ("description", "schema", "examples") if is_old else ("description", "summary", "content")
            yield from self.fields(answer, read, "of answers")
            content = {"": answer} if is_old else answer.get("content") or {}
            for media in content.values():
                if media.get("example") is not None or media.get("examples"):
                    yield Said(f"{where}: examples", False, ("examples of answers",))
                yield from self.schema(media.get("schema"), self.answer, "writeOnly", where, further)


def said_of(tree: Any, spec: EndpointSpec) -> Iterator[Said]:
    """All that the document says of the tool's operation."""
    walker = Walker(tree, spec)
    item = walker.item(spec.path)
    yield from walker.operation(item, item[spec.method])


def lost_in_silence(tree: Any, found: ParsedDocument) -> list[str]:
    """What the document says of its operations that neither the tool shows nor a warning names."""
    warnings = "\n".join(found.warnings)
    return [
        f"{spec.key}: {said.what}"
        for spec in found.endpoints
        for said in said_of(tree, spec)
        if not said.is_shown and not any(words in warnings for words in said.named)
    ]


def alone(tree: Any, path: str, method: str) -> Any:
    """A document with this one operation and what it refers to, so that all warnings are of it; the whole document where a
    reference is no plain one."""
    item = tree["paths"][path]
    kept = {key: value for key, value in item.items() if key == method or key not in METHODS}
    made = {
        key: value
        for key, value in tree.items()
        if key not in ("paths", "webhooks", "components", *_COMPONENTS)
    }
    made["paths"] = {path: kept}
    waiting, seen = [kept], set()
    while waiting:
        for ref in _references(waiting.pop()):
            steps = [step.replace("~1", "/").replace("~0", "~") for step in ref.removeprefix("#/").split("/")]
            depth = 3 if steps[0] == "components" else 2
            if (
                not ref.startswith("#/")
                or len(steps) != depth
                or steps[0] not in ("components", *_COMPONENTS)
                or "%" in ref
            ):
                return tree
            if ref in seen:
                continue
            seen.add(ref)
            found, into = tree, made
            for step in steps[:-1]:
                found, into = found.get(step) or {}, into.setdefault(step, {})
            if steps[-1] in found:
                into[steps[-1]] = found[steps[-1]]
                waiting.append(found[steps[-1]])
    return made


def _references(node: Any) -> Iterator[str]:
    waiting = [node]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict) and isinstance(one.get("$ref"), str):
            yield one["$ref"]
        if isinstance(one, dict | list):
            waiting.extend(one.values() if isinstance(one, dict) else one)
