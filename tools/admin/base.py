"""Base classes of the admins of tenant models: roles, the rows that a person may see, read-only admins, and errors of services as
form errors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

from django import forms
from django.contrib import admin, messages
from django.db import models, transaction
from django.db.models.constants import LOOKUP_SEP
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from portal.http.history_context import history_context
from portal.tenancy.fields import TenantForeignKey
from portal.tenancy.middleware import Member
from portal.tenancy.models import Role
from tools.catalogue import history
from tools.catalogue.errors import CatalogueError, Invalid
from tools.catalogue.visibility import seen
from tools.web.shell.forms import AddressInput

if TYPE_CHECKING:
    ModelAdmin = admin.ModelAdmin[Any]
    ModelForm = forms.ModelForm[Any]
else:  # Django's classes take no parameters at run time
    ModelAdmin = admin.ModelAdmin
    ModelForm = forms.ModelForm


class AdminRequest(HttpRequest):
    """A request to the admin. `refusal` is the error with which a service refused the form."""

    member: Member
    refusal: CatalogueError | None


def may(request: HttpRequest, role: Role | None) -> bool:
    """Whether the visitor is a member of a tenant with at least this role; without a tenant nothing can be read."""
    member = getattr(request, "member", None)
    return member is not None and role is not None and member.may(role)


class SeenRelatedFilter(admin.RelatedFieldListFilter):
    """A filter of a list by a related row: it offers those that the person may see."""

    def field_choices(self, field: Any, request: HttpRequest, model_admin: Any) -> Any:
        shown = seen(field.related_model.objects.all())
        return field.get_choices(
            include_blank=False,
            ordering=self.field_admin_ordering(field, request, model_admin),
            limit_choices_to={"pk__in": shown.values("pk")},
        )


admin.FieldListFilter.register(
    lambda field: isinstance(field, TenantForeignKey), SeenRelatedFilter, take_priority=True
)


class ShownLookups(ModelAdmin):
    """Lists that are filtered by what they show, and by nothing else."""

    def lookup_allowed(self, lookup: str, value: str, request: Any = None) -> bool:
        """Only the columns and filters of the list. Django allows any column of the row in the address of a list, so that what no
        page shows could be guessed letter by letter."""
        filters: Any = self.get_list_filter(request)
        shown = {*self.get_list_display(request), *(getattr(one, "parameter_name", one) for one in filters)}
        return lookup.partition(LOOKUP_SEP)[0] in shown and super().lookup_allowed(lookup, value, request)


class TenantModelAdmin(ShownLookups):
    """Rows of the member's tenant that the member may see: list, search, form, history, actions and autocompletion begin at
    `get_queryset`. Django's permission and the tenant's role must both allow; a role of None allows nobody."""

    role_to_view = Role.VIEWER
    role_to_write: Role | None = Role.OPERATOR
    role_to_delete: Role | None = Role.ADMIN
    is_of_catalogue = True
    """Whether the rows tell of tools or sources; else the role alone decides."""
    list_per_page = 50
    # The services validate addresses; Django's URLField refuses hosts without a dot.
    formfield_overrides = {models.URLField: {"form_class": forms.CharField, "widget": AddressInput}}
    show_full_result_count = False

    def get_queryset(self, request: HttpRequest) -> models.QuerySet[Any]:
        rows: models.QuerySet[Any] = super().get_queryset(request)
        return seen(rows) if self.is_of_catalogue else rows

    def formfield_for_foreignkey(self, db_field: Any, request: Any, **kwargs: Any) -> Any:
        if isinstance(db_field, TenantForeignKey):
            kwargs["queryset"] = seen(cast(Any, db_field.related_model).objects.all())
        return super().formfield_for_foreignkey(db_field, request, **kwargs)

    def has_module_permission(self, request: HttpRequest) -> bool:
        return may(request, self.role_to_view) and super().has_module_permission(request)

    def has_view_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return may(request, self.role_to_view) and super().has_view_permission(request, obj)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return may(request, self.role_to_write) and super().has_add_permission(request)

    def has_change_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return may(request, self.role_to_write) and super().has_change_permission(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return may(request, self.role_to_delete) and super().has_delete_permission(request, obj)

    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        with history_context(request.user.get_username()):
            return super().changeform_view(request, *args, **kwargs)

    def changelist_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        with history_context(request.user.get_username()):
            return super().changelist_view(request, *args, **kwargs)

    def delete_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        with history_context(request.user.get_username()):
            return super().delete_view(request, *args, **kwargs)

    def has_operate_permission(self, request: HttpRequest) -> bool:
        """For `@admin.action(permissions=["operate"])`, also of read-only models."""
        return may(request, Role.OPERATOR)


class ReadOnlyAdmin(TenantModelAdmin):
    """Rows that only the pipeline or an import writes: no add, change or delete."""

    role_to_write = None
    role_to_delete = None


class InstallationAdmin(ReadOnlyAdmin):
    """Rows of the whole installation, which no page shows: for superusers."""

    is_of_catalogue = False

    def has_module_permission(self, request: HttpRequest) -> bool:
        return is_superuser(request) and super().has_module_permission(request)

    def has_view_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return is_superuser(request) and super().has_view_permission(request, obj)


def is_superuser(request: HttpRequest) -> bool:
    return request.user.is_active and bool(getattr(request.user, "is_superuser", False))


class ServiceForm(ModelForm):
    """Carries which state of the row its author saw, and shows what a service refused after the form itself had found nothing
    wrong."""

    refusal: CatalogueError | None = None
    seen_attribute = "newest_event"
    """The row's attribute that tells its states apart."""
    seen = forms.IntegerField(widget=forms.HiddenInput, required=False, min_value=0)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["seen"].initial = getattr(self.instance, self.seen_attribute, None)

    def _get_validation_exclusions(self) -> set[str]:
        # Else the model's URLField would refuse hosts without a dot.
        excluded: set[str] = super()._get_validation_exclusions()  # type: ignore[misc]  # the stubs leave it out
        return excluded | {"url"}

    def clean(self) -> dict[str, Any] | None:
        cleaned = super().clean()
        if isinstance(self.refusal, Invalid):
            for name, sentences in self.refusal.errors.items():
                for sentence in sentences:
                    self.add_error(name if name in self.fields else None, sentence)
        elif self.refusal is not None:
            raise forms.ValidationError(str(self.refusal))
        return cleaned


class ServiceAdmin(TenantModelAdmin):
    """Saves and deletes by services: subclasses define save_model and delete_model."""

    form = ServiceForm

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: Any = None,
    ) -> HttpResponse:
        try:
            return super().changeform_view(request, object_id, form_url, extra_context)
        except CatalogueError as error:
            # Once more with the refusal in the form, so that it comes back as it was typed.
            cast(AdminRequest, request).refusal = error
            return super().changeform_view(request, object_id, form_url, extra_context)

    def get_form(self, request: HttpRequest, obj: object = None, change: bool = False, **kwargs: Any) -> Any:
        form = cast(type[ServiceForm], super().get_form(request, obj, change, **kwargs))
        form.refusal = getattr(request, "refusal", None)
        return form

    def delete_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> HttpResponse:
        try:
            return super().delete_view(request, object_id, extra_context)
        except CatalogueError as error:
            messages.error(request, str(error))
            return redirect(f"admin:{self.opts.app_label}_{self.opts.model_name}_change", object_id)

    def delete_queryset(self, request: HttpRequest, queryset: Any) -> None:
        for row in queryset:
            try:
                self.delete_model(request, row)
            except CatalogueError as error:
                raise CatalogueError(f"Nothing was deleted. {row}: {error}") from error

    def response_action(
        self, request: HttpRequest, queryset: Any, *args: Any, **kwargs: Any
    ) -> HttpResponse | None:
        """Runs an action as a whole or not at all: Django would call a refused deletion a success."""
        try:
            with transaction.atomic():
                return super().response_action(request, queryset, *args, **kwargs)
        except CatalogueError as error:
            messages.error(request, str(error))
            return redirect(request.get_full_path())

    def get_deleted_objects(self, objs: Iterable[Any], request: HttpRequest) -> Any:
        """The names of the rows only: the service deletes what depends on them."""
        names = [str(row) for row in objs]
        return names, {self.model._meta.verbose_name_plural: len(names)}, set(), []


class SettingsAdmin(ServiceAdmin):
    """Rows whose form carries their newest event, which save_model passes on as `expected_event`."""

    def get_queryset(self, request: HttpRequest) -> models.QuerySet[Any]:
        newest = history.newest_event(self.model)
        found: models.QuerySet[Any] = super().get_queryset(request).annotate(newest_event=newest)
        return found
