"""What all processes of the installation share: circuits and counters. Neither has a tenant.

Both tables bear the name of their first user, the app embeddings.
"""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models.functions import Now

from portal.error_text import ErrorField


class Circuit(models.Model):
    """The errors of a service, and whether its circuit is open (circuit_breaker.py). A closed one without errors has no row."""

    name = models.CharField(max_length=200, db_column="model")
    purpose = models.CharField(max_length=8)
    errors = models.IntegerField()
    since = models.DateTimeField(db_default=Now())
    next_try = models.DateTimeField(null=True, blank=True)  # null while closed
    reason = ErrorField()

    class Meta:
        db_table = "embeddings_embeddingcircuit"
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["name", "purpose"], name="embedding_circuit_once"),
            models.CheckConstraint(
                condition=models.Q(purpose__in=["passage", "query", "rerank"]),
                name="embedding_circuit_purpose_known",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} for {self.purpose}: {self.reason}"


class CounterSum(models.Model):
    """A sum over all processes and tenants (counters.py)."""

    name = models.CharField(max_length=20, db_column="figure")
    label = models.CharField(max_length=40, blank=True, default="")
    value = models.FloatField(default=0)

    class Meta:
        db_table = "embeddings_embeddingtally"
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["name", "label"], name="embedding_tally_once")
        ]

    def __str__(self) -> str:
        return f"{self.name} {self.label}: {self.value:g}"
