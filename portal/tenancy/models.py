"""Tenants, who belongs to them, and the keys that act for them; and the base of every tenant table."""

from __future__ import annotations

import uuid
from typing import ClassVar, Self, TypeVar

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models.functions import Now

from portal.tenancy.context import current_tenant
from portal.tenancy.fields import CompositeForeignKey, TenantForeignKey, one_of
from portal.tenancy.history import track

M_co = TypeVar("M_co", bound=models.Model, covariant=True)

MAX_RATE = 1_000_000  # requests per minute
IDEMPOTENCY_KEY_LENGTH = 255


class Tenant(models.Model):
    """The boundary: nothing of one tenant is ever visible to another."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    slug = models.SlugField(max_length=63, unique=True)
    name = models.CharField(max_length=200)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("slug",)

    def __str__(self) -> str:
        return self.slug


class TenantManager(models.Manager[M_co]):
    """Sees the rows of the current tenant only, and raises NoTenant without one."""

    def get_queryset(self) -> models.QuerySet[M_co]:
        return super().get_queryset().filter(tenant_id=current_tenant())


class TenantModel(models.Model):
    """A row of one tenant. `tenant` defaults to the current one; `id` is a UUID, so it tells nothing of others."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    # Without an index of its own: each table has others that begin with it.
    tenant = models.ForeignKey(
        Tenant,
        on_delete=models.CASCADE,
        default=current_tenant,
        editable=False,
        related_name="+",
        db_index=False,
    )

    objects: ClassVar[TenantManager[Self]] = TenantManager()

    class Meta:
        abstract = True
        # Composite foreign keys of other tables point here. A table at which none points does without.
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["tenant", "id"], name="%(app_label)s_%(class)s_tenant_id"),
        ]


class Role(models.TextChoices):
    """What a member may do, each including the one before."""

    VIEWER = "viewer", "Viewer (looks)"
    OPERATOR = "operator", "Operator (edits, imports, refreshes)"
    ADMIN = "admin", "Admin (keys, settings, deletes)"

    @classmethod
    def at_least(cls, role: str, wanted: str) -> bool:
        order = cls.values
        return role in order and order.index(role) >= order.index(wanted)


@track()
class Membership(TenantModel):
    """A user's role in a tenant."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    role = models.CharField(max_length=10, choices=Role.choices, default=Role.VIEWER)

    class Meta(TenantModel.Meta):
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["tenant", "user"], name="membership_once"),
            one_of("role", Role, name="membership_role_known"),
        ]

    def __str__(self) -> str:
        return f"{self.user} ({self.role})"


class Invitation(TenantModel):
    """A role that waits for its person to accept it (portal/tenancy/invitations.py).

    It holds a user name, whether or not somebody has it, so that inviting tells nobody which names exist.
    """

    username = models.CharField(max_length=150)
    role = models.CharField(max_length=10, choices=Role.choices, default=Role.VIEWER)
    invited_by = models.CharField(max_length=150, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta(TenantModel.Meta):
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["tenant", "username"], name="invitation_once"),
            one_of("role", Role, name="invitation_role_known"),
        ]

    def __str__(self) -> str:
        return f"{self.username} ({self.role})"


class Scope(models.TextChoices):
    """What an API key may do."""

    SEARCH_READ = "search:read"
    TOOLS_READ = "tools:read"
    TOOLS_WRITE = "tools:write"
    TOOLS_PUBLISH = "tools:publish"
    SOURCES_WRITE = "sources:write"
    JOBS_RUN = "jobs:run"
    EXECUTIONS_WRITE = "executions:write"
    ADMIN = "admin"


class Sensitivity(models.TextChoices):
    """How far a tool may be shown, least to most guarded."""

    PUBLIC = "public"
    INTERNAL = "internal"
    CONFIDENTIAL = "confidential"
    RESTRICTED = "restricted"

    @classmethod
    def up_to(cls, highest: str) -> list[str]:
        order: list[str] = list(cls.values)
        return order[: order.index(highest) + 1]


@track(
    exclude=["digest", "previous_digest", "last_used_at"],
    # There were keys that never expired.
    otherwise={"expires_at": models.DateTimeField(null=True, blank=True)},
)
class ApiKey(TenantModel):
    """A bearer key. Only the SHA-256 digest of its secret is stored; the secret itself is shown once.

    A rotated key has two secrets for a while: the old one is `previous_digest`, which works until `previous_expires_at`.
    """

    name = models.CharField(max_length=200)
    prefix = models.CharField(max_length=16, editable=False)
    digest = models.BinaryField(max_length=32, unique=True, editable=False)
    scopes = ArrayField(models.CharField(max_length=32, choices=Scope.choices))
    max_sensitivity = models.CharField(
        max_length=12, choices=Sensitivity.choices, default=Sensitivity.RESTRICTED
    )
    # Empty is unlimited: such a key is not counted in the cache.
    requests_per_minute = models.PositiveIntegerField(
        null=True, blank=True, validators=[MinValueValidator(1), MaxValueValidator(MAX_RATE)]
    )
    expires_at = models.DateTimeField(blank=True)  # a form may leave it to the default
    previous_digest = models.BinaryField(max_length=32, unique=True, null=True, editable=False)
    previous_expires_at = models.DateTimeField(null=True, blank=True, editable=False)
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta(TenantModel.Meta):
        verbose_name = "API key"
        constraints: ClassVar[list[models.BaseConstraint]] = [
            *TenantModel.Meta.constraints,
            models.UniqueConstraint(fields=["tenant", "name"], name="api_key_name_once"),
            models.CheckConstraint(
                condition=models.Q(max_sensitivity__in=Sensitivity.values), name="api_key_sensitivity_known"
            ),
            models.CheckConstraint(
                condition=models.Q(requests_per_minute=None)
                | models.Q(requests_per_minute__range=(1, MAX_RATE)),
                name="api_key_rate_in_bounds",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"


class SignInOutcome(models.TextChoices):
    """What became of an attempt to sign in."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    THROTTLED = "throttled", "Throttled (too many attempts)"


class SignIn(TenantModel):
    """An attempt to sign in as a member of the tenant (portal/http/sign_ins.py). Append-only, as the histories are; only the worker
    deletes old ones."""

    at = models.DateTimeField(db_default=Now())
    username = models.CharField(max_length=150)  # the text, since the person may be deleted
    outcome = models.CharField(max_length=10, choices=SignInOutcome.choices)
    address = models.GenericIPAddressField(null=True)
    request_id = models.CharField(max_length=128, blank=True)

    class Meta(TenantModel.Meta):
        verbose_name = "sign-in"
        constraints: ClassVar[list[models.BaseConstraint]] = [
            one_of("outcome", SignInOutcome, name="sign_in_outcome_known"),
        ]
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["tenant", "username", "-at"], name="sign_in_of_person")
        ]

    def __str__(self) -> str:
        return f"{self.username}: {self.outcome}"


class IdempotencyKey(TenantModel):
    """What a POST with an `Idempotency-Key` was answered, written in the transaction of its effect."""

    api_key = TenantForeignKey(ApiKey, on_delete=models.CASCADE, related_name="+", db_index=False)
    # Of method, path and parameters, which may be longer than an index can hold, and of the key's rights.
    target_digest = models.BinaryField(max_length=32)
    key = models.CharField(max_length=IDEMPOTENCY_KEY_LENGTH)
    body_digest = models.BinaryField(max_length=32)
    status = models.PositiveSmallIntegerField()
    headers = models.JSONField()
    body = models.TextField()  # as it was sent
    created_at = models.DateTimeField(db_default=Now())

    class Meta(TenantModel.Meta):
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(
                fields=["tenant", "api_key", "key", "target_digest"], name="idempotency_key_once"
            ),
            CompositeForeignKey(
                column="api_key_id",
                table="tenancy_apikey",
                name="idempotency_key_api_key",
                on_delete="CASCADE",
            ),
        ]
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["tenant", "created_at"], name="idempotency_key_age")
        ]

    def __str__(self) -> str:
        return self.key
