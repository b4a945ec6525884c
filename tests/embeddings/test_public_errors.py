"""SEC-4: what a provider says of itself is for those who run the portal; tenants read a neutral sentence and a number."""

from __future__ import annotations

import logging
import re
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.test import Client
from django.urls import reverse

from embeddings import providers
from embeddings.providers import ProviderError
from portal.tenancy.context import tenant_context
from portal.tenancy.models import Membership, Tenant
from tests.support.clients import make_api
from tests.support.embeddings.pipeline import Pipeline
from tests.support.servers.embedding_server import embedding_server

COMPLAINT = "quota of account org-4711 at http://10.1.2.3:8080 with the key sk-abc"


def everything_shown(tenant: Tenant, tool: Any) -> str:
    """What REST, pages and the admin say of the tool, of its job and of the models, to an admin of the tenant."""
    user = get_user_model().objects.create_user("ada", is_staff=True, is_superuser=True)
    with tenant_context(tenant.pk):
        Membership.objects.create(user=user, role="admin")
    client, api = Client(), make_api(tenant)
    client.force_login(user)
    admin = [
        "embeddings.embeddingtask",
        "tools.toolembedding",
        "resilience.circuit",
        "embeddings.embeddingmodel",
    ]
    pages = [
        api.get(f"/api/v1/tools/{tool}"),
        client.get(reverse("tool", args=[tool])),
        *(client.get(reverse(f"admin:{name.replace('.', '_')}_changelist")) for name in admin),
    ]
    get_user_model().objects.update(is_superuser=False)  # for the page of the models these run the portal
    pages.append(client.get(reverse("models")))
    assert {page.status_code for page in pages} == {200}
    return "\n".join(page.content.decode() for page in pages)


@pytest.mark.parametrize("fault", ["422", "503", "500", "401", "unreachable"])
def test_no_answer_of_the_portal_repeats_what_a_provider_said_and_the_log_does_SEC_4(
    committed: Tenant, pipeline: Pipeline, settings: Any, caplog: pytest.LogCaptureFixture, fault: str
) -> None:
    with embedding_server() as server:
        server.complaint, server.fault = COMPLAINT, "" if fault == "unreachable" else fault
        address = "http://127.0.0.1:9" if fault == "unreachable" else server.address
        settings.EMBEDDING_PROVIDER, settings.EMBEDDING_URL = "local-http", address
        settings.EMBEDDING_MAX_ATTEMPTS = settings.EMBEDDING_CIRCUIT_ERRORS = 1
        providers._provider.cache_clear()
        tool = pipeline.add("Pays.")
        with caplog.at_level(logging.WARNING, "embeddings"):
            pipeline.work()
        shown = everything_shown(committed, tool)
    providers._provider.cache_clear()
    host = address.removeprefix("http://")
    for hidden in (host, "org-4711", "10.1.2.3", "sk-abc", "answered"):
        assert hidden not in shown, hidden
    incidents = set(re.findall("incident ([0-9a-f]{8})", shown))
    [incident] = incidents
    [line] = [one for one in caplog.messages if f"incident {incident}" in one]
    assert host in line
    assert ("org-4711" in line) == (fault in {"422", "503", "500"})  # the body of a 401 may repeat the key


def test_equal_failures_have_one_number_and_the_sentence_says_whose_fault_it_is_SEC_4() -> None:
    kinds = {
        "cannot embed this text": ProviderError("x", permanent=True),
        "refuses the portal": ProviderError("x", provider_wide=True, lasting=True),
        "is not available": ProviderError("x", provider_wide=True),
        "did not return a usable vector": ProviderError("x"),
    }
    for words, error in kinds.items():
        assert words in error.public
        assert error.public.endswith(f"incident {error.incident}.")
    assert len({error.incident for error in kinds.values()} | {ProviderError("y").incident}) == 2
