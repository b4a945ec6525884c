"""One object schema for all that an operation takes, and where each of its properties goes in a request.

The same name in two places stays two properties (see `names.property_names`); the list is what a caller needs
to build the request, and the only place that has a parameter's name as the document writes it.
"""

from __future__ import annotations

from typing import NamedTuple

from tools.imports.formats.names import property_names
from tools.imports.formats.openapi.inputs import Inputs
from tools.imports.formats.schema_budget import Part, SchemaBudget
from tools.imports.formats.specs import JsonObject

# The order decides which place keeps the plain name when two use one name.
_PLACES = ("path", "query", "header", "cookie", "form", "body")


class Parameters(NamedTuple):
    """`schema` is for the agent, `places` and `body` for the caller; `left_out` names what had no room."""

    schema: JsonObject
    places: list[JsonObject]
    body: JsonObject | None
    left_out: tuple[str, ...]
    shortened: bool


def fit_inputs(inputs: Inputs, budget: SchemaBudget) -> Parameters:
    """Name the inputs and put their schemas together."""
    values = sorted(inputs.values, key=lambda value: _PLACES.index(value.place))
    names = property_names([(value.place, value.name) for value in values])
    named = list(zip(names, values, strict=True))
    fitted = budget.fit_parameters(
        [Part(name, value.piece, value.annotations, value.required) for name, value in named]
    )
    places: list[JsonObject] = []
    body = inputs.body
    for name, value in named:
        if name not in fitted.kept:
            continue
        if value.place == "body":
            body = {**(body or {}), "property": name}
        else:
            places.append(
                {
                    "name": value.name,
                    "in": value.place,
                    "property": name,
                    "required": value.required,
                    **value.serialization,
                }
            )
    left_out = tuple(value.name for name, value in named if name not in fitted.kept)
    return Parameters(fitted.schema, places, body, left_out, fitted.shortened)
