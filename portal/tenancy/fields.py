"""References that cannot leave their tenant.

Django has no composite foreign keys, so a relation is a `TenantForeignKey` (a plain ForeignKey without its own
database constraint) plus a `CompositeForeignKey` constraint over (tenant_id, x_id), which PostgreSQL checks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from django.db import models
from django.db.models.constraints import BaseConstraint

SetType = TypeVar("SetType")
GetType = TypeVar("GetType")


class TenantForeignKey(models.ForeignKey[SetType, GetType]):
    """A ForeignKey whose database constraint is a CompositeForeignKey of the same model."""

    def __init__(self, to: Any, on_delete: Any, **kwargs: Any) -> None:
        kwargs["db_constraint"] = False
        super().__init__(to, on_delete, **kwargs)


def one_of(column: str, choices: type[models.TextChoices], *, name: str) -> models.CheckConstraint:
    """The constraint by which the database, too, refuses every other value of a column with choices."""
    return models.CheckConstraint(condition=models.Q(**{f"{column}__in": choices.values}), name=name)


class CompositeForeignKey(BaseConstraint):
    """FOREIGN KEY (tenant_id, <column>) REFERENCES <table> (tenant_id, id).

    `on_delete` is PostgreSQL's action: NO ACTION (checked at commit), CASCADE, or SET NULL (of the column alone).
    Validation is left to the database: a form cannot offer another tenant's row, since it cannot see it.
    """

    def __init__(self, *, column: str, table: str, name: str, on_delete: str = "NO ACTION") -> None:
        if on_delete not in {"NO ACTION", "CASCADE", "SET NULL"}:
            raise ValueError(f"on_delete={on_delete!r} is not one of NO ACTION, CASCADE, SET NULL")
        self.column, self.table, self.on_delete = column, table, on_delete
        super().__init__(name=name)

    def constraint_sql(self, model: Any, schema_editor: Any) -> str:
        quote = schema_editor.quote_name
        action = f"SET NULL ({quote(self.column)})" if self.on_delete == "SET NULL" else self.on_delete
        return (
            f"CONSTRAINT {quote(self.name)} FOREIGN KEY (tenant_id, {quote(self.column)}) "
            f"REFERENCES {quote(self.table)} (tenant_id, id) ON DELETE {action} DEFERRABLE INITIALLY DEFERRED"
        )

    def create_sql(self, model: Any, schema_editor: Any) -> str:
        return f"ALTER TABLE {schema_editor.quote_name(model._meta.db_table)} ADD {self.constraint_sql(model, schema_editor)}"

    def remove_sql(self, model: Any, schema_editor: Any) -> str:
        quote = schema_editor.quote_name
        return f"ALTER TABLE {quote(model._meta.db_table)} DROP CONSTRAINT {quote(self.name)}"

    def validate(self, model: Any, instance: object, exclude: object = None, using: str = "default") -> None:
        return

    def deconstruct(self) -> tuple[str, Sequence[Any], dict[str, Any]]:
        path, args, kwargs = super().deconstruct()
        return path, args, {**kwargs, "column": self.column, "table": self.table, "on_delete": self.on_delete}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CompositeForeignKey) and self.deconstruct() == other.deconstruct()

    __hash__ = BaseConstraint.__hash__
