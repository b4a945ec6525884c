"""Only vectors of norm 1 and of 384 dimensions are stored (R13); the base class says so now, for every embedded type.

Rows are checked after the constraint stands, under a lock that lets reads and writes through. The norm has been checked
since 0002.
"""

from __future__ import annotations

from django.contrib.postgres.operations import AddConstraintNotValid, ValidateConstraint
from django.db import migrations, models
from django.db.models.lookups import Exact, GreaterThanOrEqual, LessThanOrEqual

from embeddings.models import VectorDimensions, VectorNorm

NORMALISED = models.CheckConstraint(
    condition=models.Q(
        GreaterThanOrEqual(VectorNorm(models.F("vector")), 0.99),
        LessThanOrEqual(VectorNorm(models.F("vector")), 1.01),
    ),
    name="toolembedding_vector_normalised",
)
WHOLE = models.CheckConstraint(
    condition=models.Q(Exact(VectorDimensions(models.F("vector")), 384)), name="toolembedding_vector_whole"
)


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("tools", "0005_worker_clears_slots")]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[migrations.AddConstraint("toolembedding", NORMALISED)]
        ),
        AddConstraintNotValid("toolembedding", WHOLE),
        ValidateConstraint("toolembedding", "toolembedding_vector_whole"),
    ]
