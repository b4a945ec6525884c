"""OpenAPI documents with one operation, made by chance. No word, number or name stands twice in one, so that whatever is lost of it
is missed.
"""

from __future__ import annotations

import random
from typing import Any

VERSIONS = ("2.0", "3.0.3", "3.1.0")
JSON, FORM, MULTIPART = "application/json", "application/x-www-form-urlencoded", "multipart/form-data"


class Maker:
    """Makes one document of a version."""

    def __init__(self, chance: random.Random, version: str) -> None:
        self._chance, self.version = chance, version
        self._count = 0
        self._schemas: dict[str, Any] = {}
        self._open: list[str] = []
        self._where = "#/definitions/" if version == "2.0" else "#/components/schemas/"

    def _maybe(self, part: float = 0.3) -> bool:
        return self._chance.random() < part

    def _number(self) -> int:
        self._count += 1
        return self._count

    def _word(self) -> str:
        return f"w{self._number()}"

    def _text(self) -> str:
        return f"{self._word()} {self._word()}" + (" long" * 500 if self._maybe(0.03) else "")

    def _example(self) -> Any:
        kinds = [
            self._word(),
            self._number(),
            {self._word(): [self._word()]},
            self._word() * 300 if self._maybe(0.1) else self._word(),
        ]
        return self._chance.choice(kinds)

    # --- Schemas --------------------------------------------------------------------------------------------------------
    def schema(self, depth: int = 3) -> dict[str, Any]:
        kinds = [self._string, self._integer, self._boolean]
        if depth > 0:
            kinds += [self._object, self._object, self._array, self._choice, self._reference, self._anything]
        made: dict[str, Any] = self._chance.choice(kinds)(depth)
        if "$ref" in made and (self.version != "3.1.0" or self._maybe(0.8)):
            return {**made, "description": self._text()} if self._maybe(0.2) else made
        for key, part, value in (
            ("title", 0.1, self._text), ("description", 0.4, self._text), ("deprecated", 0.1, lambda: True),
            ("externalDocs", 0.05, lambda: {"url": self._word()}), ("xml", 0.05, lambda: {"name": self._word()}),
            ("example", 0.15, self._example), (self._word(), 0.05, self._number),
        ):  # fmt: skip
            if self._maybe(part):
                made[key] = value()
        if self.version == "3.1.0" and self._maybe(0.15):
            made["examples"] = [self._example() for _ in range(self._chance.randint(1, 4))]
        if self.version == "3.1.0" and self._maybe(0.1) and "type" in made:
            made["type"] = [made["type"], "null"]
        if self.version == "3.0.3" and self._maybe(0.15) and "type" in made:
            made["nullable"] = True
        return made

    def _string(self, depth: int) -> dict[str, Any]:
        made: dict[str, Any] = {"type": "string"}
        if self._maybe():
            made["enum"] = [self._word() for _ in range(self._chance.randint(1, 3))]
        elif self._maybe():
            made["minLength"] = self._number()
            made["maxLength"] = made["minLength"] + 1000 + self._number()
        elif self._maybe():
            made["format"], made["default"] = self._word(), self._word()
        if self.version == "3.1.0" and self._maybe(0.1):
            made["contentSchema"] = {"type": "object"}
        return made

    def _integer(self, depth: int) -> dict[str, Any]:
        made: dict[str, Any] = {"type": self._chance.choice(["integer", "number"])}
        if self._maybe(0.5):
            made["minimum"] = self._number()
            made["maximum"] = made["minimum"] + 1000 + self._number()
            if self.version != "3.1.0":
                made |= {"exclusiveMinimum": self._maybe(0.5), "exclusiveMaximum": self._maybe(0.5)}
            elif self._maybe(0.5):
                made["exclusiveMinimum"] = made.pop("minimum")
        elif self._maybe():
            made["multipleOf"] = self._number()
        return made

    def _boolean(self, depth: int) -> dict[str, Any]:
        return {"type": "boolean"} | ({"default": True} if self._maybe() else {})

    def _anything(self, depth: int) -> dict[str, Any]:
        return {"not": self.schema(0)} if self._maybe() else {}

    def _object(self, depth: int) -> dict[str, Any]:
        properties = {self._word(): self.schema(depth - 1) for _ in range(self._chance.randint(0, 4))}
        for field in properties.values():
            if self._maybe(0.2) and "$ref" not in field:
                field[self._chance.choice(["readOnly", "writeOnly"])] = True
        made: dict[str, Any] = {"type": "object", "properties": properties}
        if properties and self._maybe(0.6):
            made["required"] = self._chance.sample(
                sorted(properties), self._chance.randint(1, len(properties))
            )
        if self._maybe(0.4):
            made["additionalProperties"] = self._chance.choice([True, False, self.schema(0)])
        if self._maybe(0.1):
            made["maxProperties"] = 1000 + self._number()
        if self.version == "3.1.0" and self._maybe(0.15):
            made["patternProperties"] = {f"^{self._word()}": self.schema(0)}
        return made

    def _array(self, depth: int) -> dict[str, Any]:
        made: dict[str, Any] = {"type": "array", "items": self.schema(depth - 1)}
        return made | ({"maxItems": 1000 + self._number(), "uniqueItems": True} if self._maybe() else {})

    def _choice(self, depth: int) -> dict[str, Any]:
        key = "allOf" if self.version == "2.0" else self._chance.choice(["oneOf", "anyOf", "allOf"])
        parts = [
            self._object(depth - 1) if key == "allOf" else self.schema(depth - 1)
            for _ in range(self._chance.randint(1, 3))
        ]
        made: dict[str, Any] = {key: parts}
        if key != "allOf" and self._maybe():
            kinds = {self._name(self._kind()): self._word() for _ in range(2)}
            made = {key: [{"$ref": f"{self._where}{name}"} for name in kinds]}
            mapping = {word: f"{self._where}{name}" for name, word in kinds.items()}
            made["discriminator"] = {"propertyName": "kind", "mapping": mapping}
            for name, word in kinds.items():
                if self._maybe(0.5):
                    self._schemas[name]["properties"]["kind"]["enum"] = [word]
        return made

    def _kind(self) -> dict[str, Any]:
        made = self._object(0)
        made["properties"]["kind"] = {"type": "string"}
        if self._maybe(0.6):  # only the discriminator tells it from the others
            return {"type": "object", "properties": made["properties"], "required": ["kind"]}
        return made | {"required": [*made.get("required", ()), "kind"]}

    def _name(self, schema: dict[str, Any]) -> str:
        name = f"S{self._number()}"
        self._schemas[name] = schema
        return name

    def _reference(self, depth: int) -> dict[str, Any]:
        known = [name for name in self._schemas if self._schemas[name]]
        if known and self._maybe(0.4):
            name = self._chance.choice(known)
        elif self._open and self._maybe(0.2):
            return {
                "type": "object",
                "properties": {self._word(): {"$ref": f"{self._where}{self._open[-1]}"}},
            }
        elif self._maybe(0.05):
            return {"$ref": f"{self._where}None{self._number()}"}
        else:
            name = self._name({})
            self._open.append(name)
            self._schemas[name] = self.schema(depth - 1)
            self._open.pop()
        return {"$ref": f"{self._where}{name}"}

    # --- Operations -----------------------------------------------------------------------------------------------------
    def _examples(self, many: str = "examples") -> dict[str, Any]:
        if self._maybe(0.2):
            return {"example": self._example()}
        if self._maybe(0.2) and self.version != "2.0":
            one: Any = {"value": self._example()} if self._maybe(0.8) else {"externalValue": self._word()}
            named = {
                f"e{number}": one if number else {"summary": self._text(), "value": self._example()}
                for number in range(self._chance.randint(1, 2))
            }
            return {many: named}
        return {}

    def _parameter(self, place: str) -> dict[str, Any]:
        made: dict[str, Any] = {"name": self._word(), "in": place}
        if place == "path" or self._maybe():
            made["required"] = True
        if self._maybe(0.5):
            made["description"] = self._text()
        if self._maybe(0.1):
            made["allowEmptyValue"] = True
        if self._maybe(0.05):
            made[self._word()] = self._number()
        if self.version == "2.0":
            return made | self._chance.choice([self._string, self._integer])(0)
        if self._maybe(0.15):
            return made | {"content": {JSON: {"schema": self.schema(2), **self._examples()}}}
        if self._maybe(0.2):
            made |= {"style": "form", "explode": False}
        return made | {"schema": self.schema(1), **self._examples()}

    def _content(self) -> dict[str, Any]:
        types = self._chance.choice(
            [[JSON], [JSON], [MULTIPART], [FORM], ["text/plain"], [JSON, FORM], ["application/xml", JSON]]
        )
        if self._maybe(0.05):
            types = [*types, *(f"application/{self._word()}" for _ in range(60))]
        shared = self.schema()
        content = {}
        for media_type in types:
            is_form = media_type in (FORM, MULTIPART)
            schema = self._form() if is_form else shared if self._maybe(0.7) else self.schema()
            content[media_type] = {"schema": schema, **self._examples()}
            if self._maybe(0.4 if is_form else 0.15):
                names = [*(schema.get("properties") or ()), self._word()]
                encoding = {
                    "contentType": self._word(),
                    **({"headers": {self._word(): {}}} if self._maybe() else {}),
                }
                content[media_type]["encoding"] = {self._chance.choice(names): encoding}
        return content

    def _form(self) -> dict[str, Any]:
        made = self._object(2)
        for key in ("anyOf", "oneOf", "allOf"):
            if self._maybe(0.2):
                made[key] = [self._object(1) for _ in range(2)]
                if self._maybe() and made["properties"]:
                    name = self._chance.choice(sorted(made["properties"]))
                    made[key][0]["properties"][name] = self._integer(0)
                elif self._maybe(0.5):
                    name = self._word()
                    made[key][0]["properties"][name], made[key][1]["properties"][name] = (
                        self._integer(0),
                        self._string(0),
                    )
        if self._maybe(0.2):
            made["description"] = self._text()
        if self._maybe(0.2):
            return {"$ref": f"{self._where}{self._name(made)}"}
        return made

    def _answers(self) -> dict[str, Any]:
        made = {}
        for status in self._chance.sample(
            ["200", "201", "204", "400", "default"], self._chance.randint(0, 3)
        ):
            answer: dict[str, Any] = {"description": "An answer."}
            if self.version == "2.0":
                answer |= {"schema": self.schema()} if self._maybe(0.7) else {}
                answer |= {"examples": {JSON: self._example()}} if self._maybe(0.2) else {}
            elif self._maybe(0.8):
                types = self._chance.choice([[JSON], [JSON, "text/csv"], ["text/csv"]])
                answer["content"] = {
                    media_type: {"schema": self.schema(), **self._examples()} for media_type in types
                }
            if self._maybe(0.15):
                answer["headers"] = {self._word(): {"schema": {"type": "string"}}}
            if self._maybe(0.1) and self.version != "2.0":
                answer["links"] = {self._word(): {"operationId": self._word()}}
            made[status] = answer
        return made

    def document(self) -> dict[str, Any]:
        place = self._chance.choice(["query", "header", "query"])
        parameters = [
            self._parameter(self._chance.choice([place, "query"])) for _ in range(self._chance.randint(0, 3))
        ]
        operation: dict[str, Any] = {
            "operationId": "do",
            "summary": self._text(),
            "parameters": parameters,
            "responses": self._answers(),
        }
        if self._maybe(0.6):
            operation["description"] = self._text()
        if self._maybe(0.3):
            operation["tags"] = [self._word() for _ in range(60 if self._maybe(0.1) else 2)]
        if self._maybe(0.1):
            operation[self._word()] = self._number()
        if self._maybe(0.1):
            operation["externalDocs"] = {"url": self._word()}
        if self._maybe(0.1) and self.version != "2.0":
            operation["callbacks"] = {self._word(): {"{$request.body#/url}": {}}}
        item: dict[str, Any] = {"post": operation}
        if self._maybe(0.4):
            item["parameters"] = [self._parameter("query")]
            if parameters and self._maybe():
                item["parameters"].append(
                    {**self._parameter("query"), "name": parameters[0]["name"], "in": parameters[0]["in"]}
                )
        if self._maybe(0.1):
            item |= {"description": self._text(), self._word(): self._number()}
        if self.version == "2.0":
            if self._maybe(0.5):
                body = {"name": "body", "in": "body", "schema": self.schema(), "required": self._maybe(0.5)}
                parameters.append(body | ({"description": self._text()} if self._maybe() else {}))
            elif self._maybe(0.5):
                parameters += [self._parameter("formData") for _ in range(2)]
        elif self._maybe(0.8):
            operation["requestBody"] = {"content": self._content(), "required": self._maybe(0.5)}
            if self._maybe():
                operation["requestBody"]["description"] = self._text()
        head = {"swagger": "2.0"} if self.version == "2.0" else {"openapi": self.version}
        schemas = (
            {"definitions": self._schemas}
            if self.version == "2.0"
            else {"components": {"schemas": self._schemas}}
        )
        return {**head, "info": {"title": "T", "version": "1"}, "paths": {"/do": item}, **schemas}
