"""The texts of errors that tables keep: bounded, since they may repeat what a server or a document says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import models

if TYPE_CHECKING:
    CharField = models.CharField[str, str]
else:  # Django's classes take no parameters at run time
    CharField = models.CharField

ERROR_LENGTH = 500
"""The characters of a stored error, at most."""


def shorten(text: str) -> str:
    """The text, or its first characters and an ellipsis: at most ERROR_LENGTH characters."""
    return text if len(text) <= ERROR_LENGTH else text[: ERROR_LENGTH - 1].rstrip() + "…"


class ErrorField(CharField):
    """The text of an error, shortened by whatever the ORM writes it with. SQL that is written by hand calls `shorten`."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{**options, "max_length": ERROR_LENGTH})

    def get_prep_value(self, value: Any) -> Any:
        prepared = super().get_prep_value(value)
        return shorten(prepared) if isinstance(prepared, str) else prepared

    def deconstruct(self) -> Any:
        name, _, arguments, options = super().deconstruct()
        return name, "django.db.models.CharField", arguments, options  # a migration needs no more
