"""Deletes old syncs and documents, which a source that is read every hour and has changed each time would pile up."""

from __future__ import annotations

from django.conf import settings
from django.db.models import Exists, OuterRef

from portal.tenancy.context import tenant_context, tenant_ids
from tools.models import Layer, Source, SourceDocument, Sync, SyncState


def prune_syncs() -> int:
    """Deletes all but the newest SYNCS_KEPT syncs of each source, in every tenant, and then the documents that no sync is of;
    returns how many syncs. What waits to be applied stays, and so does the newest document of each layer."""
    pruned = 0
    for tenant_id in tenant_ids():
        with tenant_context(tenant_id):
            for source in Source.objects.all():
                pruned += _prune(source)
    return pruned


def _prune(source: Source) -> int:
    over = source.syncs.exclude(state=SyncState.PLANNED)
    old = list(over.values_list("pk", flat=True)[settings.SYNCS_KEPT :])
    if not old:
        return 0
    # Deletion reads the rows; the large columns are left out.
    Sync.objects.filter(pk__in=old).defer("summary").delete()
    newer = SourceDocument.objects.filter(
        source=source, layer=OuterRef("layer"), fetched_at__gt=OuterRef("fetched_at")
    )
    # Of a LightAPI description there may be one for each endpoint, told apart by their names.
    newer_of_endpoint = newer.filter(name=OuterRef("name"))
    documents = source.documents.filter(syncs=None).defer("content", "report")
    documents.exclude(layer=Layer.ENDPOINT).filter(Exists(newer)).delete()
    documents.filter(Exists(newer_of_endpoint), layer=Layer.ENDPOINT).delete()
    return len(old)
