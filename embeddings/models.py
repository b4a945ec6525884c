"""The embedding of an entity, and the work still to be done for it.

The state machine of an embedding (EMB-5); arrows are the functions of wishes.py, claims.py and worker.py that take them:

    (new) -want-> pending -store-> ready -want (text changed)-> pending
    pending -want (back to the text of its vector)-> ready
    pending -fail (last attempt)-> failed -want or refresh-> pending
    any -want (no text)-> blank        any -want (provider disabled)-> disabled -backfill-> pending

A task row exists exactly while there is work; it is deleted when its vector is stored. The table is the truth: a
message of the broker only wakes a worker.
"""

from __future__ import annotations

from typing import ClassVar
from uuid import UUID

from django.db import models
from django.db.models.functions import Now
from django.db.models.lookups import Exact, GreaterThanOrEqual, LessThanOrEqual
from pgvector.django import VectorField

from portal.tenancy.models import TenantModel

DIMENSION = 384


class TaskStatus(models.TextChoices):
    PENDING = "pending", "Pending"  # waits until next_attempt_at
    RUNNING = "running", "Running"  # claimed; free again for anyone at next_attempt_at, the end of the lease
    FAILED = "failed", "Failed"  # parked with its last error until the text changes or someone refreshes


class Priority(models.IntegerChoices):
    EDIT = 0, "Edit"  # someone is waiting for it
    BACKFILL = 10, "Backfill"


class EmbeddingTask(TenantModel):
    """A wish for one entity's vector in one model: one row, overwritten by every newer wish (EMB-3)."""

    entity_type = models.CharField(max_length=32)
    entity_id = models.UUIDField()
    model = models.CharField(max_length=200)
    source_hash = models.CharField(max_length=64)
    source_version = models.IntegerField(
        null=True, blank=True
    )  # diagnostic: the entity's version when it asked
    status = models.CharField(max_length=8, choices=TaskStatus.choices, default=TaskStatus.PENDING)
    priority = models.SmallIntegerField(choices=Priority.choices, default=Priority.EDIT)
    attempts = models.IntegerField(
        default=0
    )  # counted when claimed, so that a row that kills its worker counts too
    next_attempt_at = models.DateTimeField(db_default=Now())
    claim_id = models.UUIDField(null=True, blank=True)  # void after every newer wish: the fence
    last_error = models.CharField(max_length=500, blank=True, default="")
    wanted_at = models.DateTimeField(db_default=Now())  # of the newest wish
    # The tag of the job that enqueued it (queue/job_tasks.py), until a newer request does. No foreign key: the job's row may be
    # deleted first.
    job_id = models.UUIDField(null=True, blank=True)
    # Always null. The version before wrote the status to go back to here; to be dropped once none of its processes can run.
    status_before = models.CharField(max_length=8, null=True, blank=True)  # noqa: DJ001

    class Meta(TenantModel.Meta):
        constraints: ClassVar[list[models.BaseConstraint]] = [
            *TenantModel.Meta.constraints,
            models.UniqueConstraint(
                fields=["tenant", "entity_type", "entity_id", "model"], name="embedding_task_once"
            ),
            models.CheckConstraint(
                condition=models.Q(status__in=TaskStatus.values), name="embedding_task_status_known"
            ),
            models.CheckConstraint(
                condition=~models.Q(status="running") | models.Q(claim_id__isnull=False),
                name="embedding_task_running_has_claim",
            ),
        ]
        indexes: ClassVar[list[models.Index]] = [
            # Serves claims.claim: what may be worked on now, tenant by tenant, most urgent first.
            models.Index(
                fields=["tenant", "priority", "next_attempt_at"],
                condition=~models.Q(status="failed"),
                name="embedding_task_due",
            ),
            models.Index(
                fields=["tenant", "job_id"], condition=~models.Q(job_id=None), name="embedding_task_of_job"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.entity_type} {self.entity_id}: {self.status}"


class EmbeddingModel(models.Model):
    """A model that vectors are kept of, in the slot that holds them (EMB-10). Of the whole installation, without tenant."""

    slot = models.SmallIntegerField(primary_key=True)
    model = models.CharField(max_length=200, unique=True)
    provider = models.CharField(max_length=200)
    url = models.CharField(max_length=500, blank=True, default="")
    serves = models.BooleanField(default=False)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.CheckConstraint(condition=models.Q(slot__in=[0, 1]), name="embedding_model_slot_0_or_1"),
            models.UniqueConstraint(
                fields=["serves"], condition=models.Q(serves=True), name="embedding_model_one_serves"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.model} in slot {self.slot}"


class EmbeddingStatus(models.TextChoices):
    PENDING = "pending", "Pending"
    READY = "ready", "Ready"
    FAILED = "failed", "Failed"
    DISABLED = "disabled", "Disabled"
    BLANK = "blank", "Blank"


class VectorNorm(models.Func):
    function = "vector_norm"
    output_field = models.FloatField()


class VectorDimensions(models.Func):
    function = "vector_dims"
    output_field = models.IntegerField()


class EntityEmbedding(TenantModel):
    """Base of each entity type's embedding table: the vector and how it stands to the text it should mean.

    Subclasses add `entity`, a TenantForeignKey to the embedded row. `source_hash` is what is wanted, `vector_hash`
    what the vector was made from; only a row whose two agree is `ready`. One row per slot: a second model fills
    the other slot beside the serving one.
    """

    entity_id: UUID

    slot = models.SmallIntegerField(default=0)
    active = models.BooleanField(
        default=True
    )  # the entity's own, copied in the same write, for the partial index
    status = models.CharField(max_length=8, choices=EmbeddingStatus.choices)
    source_hash = models.CharField(max_length=64)
    vector_hash = models.CharField(max_length=64, null=True, blank=True)  # noqa: DJ001 - null with the vector
    vector = VectorField(dimensions=DIMENSION, null=True, blank=True, editable=False)
    model = models.CharField(max_length=200)
    dimension = models.SmallIntegerField(default=DIMENSION)
    truncated = models.BooleanField(default=False)  # the model did not read all of the text
    error = models.CharField(max_length=500, blank=True, default="")
    embedded_at = models.DateTimeField(null=True, blank=True)

    class Meta(TenantModel.Meta):
        abstract = True
        constraints: ClassVar[list[models.BaseConstraint]] = [
            *TenantModel.Meta.constraints,
            models.UniqueConstraint(fields=["tenant", "entity", "slot"], name="%(class)s_once"),
            models.CheckConstraint(condition=models.Q(slot__in=[0, 1]), name="%(class)s_slot_0_or_1"),
            models.CheckConstraint(
                condition=models.Q(status__in=EmbeddingStatus.values), name="%(class)s_status_known"
            ),
            models.CheckConstraint(
                condition=~models.Q(status="ready")
                # A comparison with NULL is no violation, hence the second `isnull`.
                | models.Q(
                    vector__isnull=False, vector_hash__isnull=False, vector_hash=models.F("source_hash")
                ),
                name="%(class)s_ready_is_current",
            ),
            # pgvector takes zero and unnormalised vectors without a word, and then sorts them wrongly. NULL is no violation.
            models.CheckConstraint(
                condition=models.Q(
                    GreaterThanOrEqual(VectorNorm(models.F("vector")), 0.99),
                    LessThanOrEqual(VectorNorm(models.F("vector")), 1.01),
                ),
                name="%(class)s_vector_normalised",
            ),
            models.CheckConstraint(
                condition=models.Q(Exact(VectorDimensions(models.F("vector")), DIMENSION)),
                name="%(class)s_vector_whole",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.status} ({self.model})"
