"""The embedding of an entity, and the queue of tasks.

The states of an embedding (EMB-5). An arrow is the function of queue/enqueue.py or queue/claims.py that takes it:

    (new) -enqueue-> pending -store-> ready -enqueue (the text changed)-> pending
    pending -enqueue (back to the text of its vector)-> ready
    pending -fail (after the last attempt)-> failed -enqueue-> pending
    any -enqueue (no text)-> blank        any -enqueue (provider disabled)-> disabled -enqueue (by the reconciler or a backfill)-> pending

The states of a task:

    (none) -enqueue-> pending -claim-> running -store or drop-> (none)
    running -retry_later or release-> pending        running -claim (its lease has ended)-> running
    running -fail-> failed        any -enqueue-> pending        any -delete_tasks-> (none)

A task exists exactly while there is work: it is deleted when its vector is stored. The table is the truth; a message of the
broker only wakes a worker.
"""

from __future__ import annotations

from typing import ClassVar
from uuid import UUID

from django.db import models
from django.db.models.functions import Now
from django.db.models.lookups import Exact, GreaterThanOrEqual, LessThanOrEqual
from pgvector.django import BitField, VectorField

from portal.error_text import ErrorField
from portal.tenancy.models import TenantModel

DIMENSION = 384
SIGNATURE_BITS = 5 * DIMENSION


class TaskStatus(models.TextChoices):
    PENDING = "pending", "Pending"  # due at next_attempt_at
    RUNNING = (
        "running",
        "Running",
    )  # claimed until next_attempt_at, the end of the lease; then it is due again
    FAILED = "failed", "Failed"  # parked with its last error until it is enqueued again


class Priority(models.IntegerChoices):
    EDIT = 0, "Edit"  # a person waits for it
    BACKFILL = 10, "Backfill"


class EmbeddingTask(TenantModel):
    """The task to embed one entity in one model: one row, overwritten by every newer request (EMB-3)."""

    entity_type = models.CharField(max_length=32)
    entity_id = models.UUIDField()
    model = models.CharField(max_length=200)
    source_hash = models.CharField(max_length=64)
    source_version = models.IntegerField(
        null=True, blank=True
    )  # for people who look at it: the entity's version at the request
    status = models.CharField(max_length=8, choices=TaskStatus.choices, default=TaskStatus.PENDING)
    priority = models.SmallIntegerField(choices=Priority.choices, default=Priority.EDIT)
    attempts = models.IntegerField(
        default=0
    )  # counted when claimed, so that a row that kills its worker counts too
    next_attempt_at = models.DateTimeField(db_default=Now())
    claim_id = models.UUIDField(null=True, blank=True)  # the fence: every newer request clears it
    last_error = ErrorField(blank=True, default="")
    wanted_at = models.DateTimeField(db_default=Now())  # time of the newest request
    # The tag of the job that enqueued it (queue/job_tasks.py), until a newer request does. No foreign key: the job's row may be
    # deleted first.
    job_id = models.UUIDField(null=True, blank=True)
    # Always null. The version before wrote the status to go back to here; to be dropped once none of its processes can run.
    status_before = models.CharField(max_length=8, null=True, blank=True)  # noqa: DJ001

    class Meta(TenantModel.Meta):
        constraints: ClassVar[list[models.BaseConstraint]] = [
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
            # Serves claims.claim: the due tasks by tenant and priority.
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
    """An embedding model and the slot that holds its vectors (EMB-10). It belongs to the whole installation, not to a tenant."""

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
    PENDING = "pending", "Pending"  # has a task; a vector of an older text may still be there
    READY = "ready", "Ready"  # the vector is of the wanted text; a task may refresh it
    FAILED = "failed", "Failed"  # its task is parked with the error
    DISABLED = "disabled", "Disabled"  # was enqueued while no provider was configured
    BLANK = "blank", "Blank"  # the entity has no text: neither vector nor task


class VectorNorm(models.Func):
    function = "vector_norm"
    output_field = models.FloatField()


class VectorDimensions(models.Func):
    function = "vector_dims"
    output_field = models.IntegerField()


class EntityEmbedding(TenantModel):
    """Base of each entity type's embedding table: the vector, and whether it is of the entity's present text.

    Subclasses add `entity`, a TenantForeignKey to the embedded row. `source_hash` is of the present text, `vector_hash` of the
    text that the vector was made from; only a row where both are equal is `ready`. An entity has one row per slot: a second
    model fills the other slot beside the serving one.
    """

    entity_id: UUID

    slot = models.SmallIntegerField(default=0)
    active = models.BooleanField(
        default=True
    )  # a copy of the entity's, written in the same transaction, for the partial index
    status = models.CharField(max_length=8, choices=EmbeddingStatus.choices)
    source_hash = models.CharField(max_length=64)
    vector_hash = models.CharField(max_length=64, null=True, blank=True)  # noqa: DJ001 - null with the vector
    vector = VectorField(dimensions=DIMENSION, null=True, blank=True, editable=False)
    # What a search of many compares first (tools/search/sql/0020_signature.sql).
    signature = models.GeneratedField(
        expression=models.Func(models.F("vector"), function="search_signature"),
        output_field=BitField(length=SIGNATURE_BITS),
        db_persist=True,
    )
    model = models.CharField(max_length=200)
    dimension = models.SmallIntegerField(default=DIMENSION)
    truncated = models.BooleanField(default=False)  # the model did not read all of the text
    error = ErrorField(blank=True, default="")
    embedded_at = models.DateTimeField(null=True, blank=True)

    class Meta(TenantModel.Meta):
        abstract = True
        constraints: ClassVar[list[models.BaseConstraint]] = [
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
            # pgvector accepts zero and unnormalised vectors, and then sorts them wrongly. NULL is no violation.
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
