"""The portal's processes: their commands and database roles, said once for `make up` and for docker-compose.yml.

`tests/portal/test_compose.py` holds the compose file to this list. How they are watched is the supervisor's business.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

CELERY = ("python", "-m", "celery", "--quiet", "-A", "portal")
# Workers need neither gossip nor mingle: they share nothing, and both cost seconds at the start.
QUIET = ("--without-gossip", "--without-mingle", "--loglevel", "INFO")
LOGIN_OF_ROLE = {"app": "DATABASE_URL", "worker": "DATABASE_WORKER_URL", "admin": "DATABASE_ADMIN_URL"}
"""The variable with a role's own database login."""


@dataclass(frozen=True, slots=True)
class Process:
    """One process; `python` as the first word stands for the interpreter that runs the portal.

    One without a `role` has no login of the database. Processes of one `stage` are stopped together, the lower stages first.
    """

    name: str
    command: tuple[str, ...]
    role: str | None
    stage: int = 0


def without_other_logins(role: str, given: Mapping[str, str]) -> dict[str, str]:
    """The variables without the database logins of other roles. The owner keeps all, since it sets the passwords of the others."""
    others = set() if role == "admin" else set(LOGIN_OF_ROLE.values()) - {LOGIN_OF_ROLE.get(role, "")}
    return {name: value for name, value in given.items() if name not in others}


def environment_of(process: Process, given: Mapping[str, str]) -> dict[str, str]:
    """The environment of a process, with the database logins that its role needs."""
    kept = without_other_logins(process.role or "", given)
    return {**kept, "PORTAL_DB_ROLE": process.role} if process.role else kept


PREPARE = Process("migrate", ("python", "-m", "portal.ops.prepare"), role="admin")
# In the order of their stages: the web stops first, so that nothing new comes in.
PROCESSES = (
    Process("proxy", ("python", "-m", "portal.proxy"), role=None),
    Process("web", ("python", "-m", "gunicorn", "portal.wsgi", "-c", "portal/gunicorn.py"), role="app"),
    Process(
        "embeddings",
        (*CELERY, "worker", "-Q", "embeddings", "-P", "solo", "-n", "embeddings@%h", *QUIET),
        role="worker",
        stage=1,
    ),
    Process(
        "worker",
        (*CELERY, "worker", "-Q", "default", "-P", "solo", "-n", "default@%h", *QUIET),
        role="worker",
        stage=1,
    ),
    Process("beat", (*CELERY, "beat", "--loglevel", "INFO"), role="worker", stage=2),
)
