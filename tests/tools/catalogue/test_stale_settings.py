"""R16: a change of a source's or a server's settings is refused when its author saw an older state of them."""

from __future__ import annotations

import pytest

from portal.tenancy.models import Tenant
from tools.catalogue import history, servers, sources
from tools.catalogue.errors import StaleSettings
from tools.models import McpServer, Source


def newest(row: Source | McpServer) -> int:
    return int(history.events(type(row)).filter(pgh_obj_id=row.pk).latest("pgh_id").pgh_id)


def test_R16_a_source_is_changed_only_from_the_state_that_was_seen(tenant: Tenant) -> None:
    source = Source.objects.create(slug="shop", kind="openapi")
    seen = newest(source)
    sources.update_source(pk=source.pk, actor="olga", expected_event=seen, title="Shop")
    for old in (seen, None):
        with pytest.raises(StaleSettings, match="Somebody changed this"):
            sources.update_source(pk=source.pk, actor="bob", expected_event=old, title="Store")
    assert Source.objects.get().title == "Shop"
    assert sources.update_source(pk=source.pk, actor="bob", title="Store").title == "Store"


def test_R16_a_server_is_changed_only_from_the_state_that_was_seen(tenant: Tenant) -> None:
    server = servers.create_server(actor="ada", slug="shop", url="https://mcp.example.com/mcp")
    seen = newest(server)
    servers.update_server(pk=server.pk, actor="olga", expected_event=seen, title="Shop")
    with pytest.raises(StaleSettings, match="Somebody changed this"):
        servers.update_server(pk=server.pk, actor="bob", expected_event=seen, title="Store")
    assert McpServer.objects.get().title == "Shop"
    # A write past the services counts as well.
    seen = newest(server)
    McpServer.objects.update(title="Raw")
    with pytest.raises(StaleSettings):
        servers.update_server(pk=server.pk, actor="bob", expected_event=seen, title="Store")
