"""Gunicorn's settings: prefork `sync` workers: one a core, because a search is one core's work from start to end, and one for imports.

They answer the proxy (portal/Caddyfile) on a Unix socket, and get whole requests from it. Alone they would wait for every client
that is slow to send or to read.

The application is imported once, before the fork; database pools, the model's session and all threads are made after
it, in each worker.
"""

from __future__ import annotations

import gc
import logging
import os
from pathlib import Path
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")

from django.conf import settings

# The most there is: a question of 2,000 characters stands in the address of GET search.
limit_request_line = 8190
bind = f"unix:{settings.WEB_SOCKET}"
workers = settings.WEB_CONCURRENCY
worker_class = "sync"
preload_app = True
# On a Unix socket gunicorn trusts these of its peer, and ours passes on what clients send.
forwarder_headers = ""
secure_scheme_headers: dict[str, str] = {}
# An upload of 20 MB is parsed within a minute, and an MCP server that a page asks may need its own time before.
timeout = 60 + int(settings.MCP_SECONDS)
graceful_timeout = 5
# The workers' heartbeats are files; on a disk they would stall with it.
worker_tmp_dir = "/dev/shm" if Path("/dev/shm").is_dir() else None
control_socket_disable = True
accesslog = None
logconfig_dict = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(levelname)s %(name)s: %(message)s"}},
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "line"}},
    "loggers": {"gunicorn.error": {"level": "INFO", "handlers": ["console"], "propagate": False}},
}


def post_worker_init(worker: Any) -> None:
    """Load the model before the first request, then take what now lives for ever out of the collector's rounds."""
    from embeddings.providers import ProviderError, get_provider

    try:
        provider = get_provider()
        if provider is not None:
            provider.embed(["warm-up"], "query")
    except ProviderError as error:
        # Without a model search still answers by keywords, and says so.
        logging.getLogger("portal").warning("The web starts without its embedding model: %s", error)
    gc.collect()
    gc.freeze()
