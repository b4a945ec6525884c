"""Every setting of the portal, read once from the environment with its default, bounds and reason.

One database alias: which login it uses is chosen per process by PORTAL_DB_ROLE (`app`, `worker`, `admin`), so that
the web never holds the owner's password and no code path can pick a stronger role by accident.
"""

from __future__ import annotations

import pghistory
from csp.constants import NONE, SELF

from portal import env

BASE_DIR = env.ROOT
DEBUG = env.flag("DEBUG", default=False)
SECRET_KEY = env.text("SECRET_KEY")
ALLOWED_HOSTS = env.words("ALLOWED_HOSTS", "localhost,127.0.0.1,[::1]")
CSRF_TRUSTED_ORIGINS = env.words("CSRF_TRUSTED_ORIGINS", "")

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.postgres",
    "django.contrib.staticfiles",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "django_filters",
    "django_htmx",
    "template_partials",
    "csp",
    "pgtrigger",
    "pghistory",
    "portal.tenancy",
    "portal.jobs",
    "portal.resilience",
    "embeddings",
    "tools",
]

MIDDLEWARE = [
    "portal.http.problems.ApiProblemMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "portal.tenancy.middleware.TenantMiddleware",
]

ROOT_URLCONF = "portal.urls"
WSGI_APPLICATION = "portal.wsgi.application"
APPEND_SLASH = True

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "portal.tenancy.middleware.tenant_of_request",
                "tools.web.jobs.views.jobs_of_header",
            ],
        },
    },
]

# --- Database -------------------------------------------------------------------------------------------------------
DB_ROLE = env.choice("PORTAL_DB_ROLE", "app", allowed=("app", "worker", "admin"))
_URL_OF_ROLE = {"app": "DATABASE_URL", "worker": "DATABASE_WORKER_URL", "admin": "DATABASE_ADMIN_URL"}
# A forgotten transaction stops the queue and a slow statement blocks a page, so every login has bounds; only
# migrations and maintenance (admin) may run long.
_STATEMENT_TIMEOUT = {"app": "5s", "worker": "60s", "admin": "0"}[DB_ROLE]
LOCK_TIMEOUT_SECONDS = 2
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        **env.database(_URL_OF_ROLE[DB_ROLE]),
        "CONN_MAX_AGE": 0,
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": {
            "options": f"-c statement_timeout={_STATEMENT_TIMEOUT} -c lock_timeout={LOCK_TIMEOUT_SECONDS}s "
            "-c idle_in_transaction_session_timeout=60s",
            "application_name": f"portal-{DB_ROLE}",
            "connect_timeout": 5,
            "pool": {"min_size": 1, "max_size": 4, "timeout": 5},
        },
    }
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# --- History (CAT-8) ------------------------------------------------------------------------------------------------
# In the event's own row: a table of contexts would hold every tenant's beside each other.
PGHISTORY_CONTEXT_FIELD = pghistory.ContextJSONField()

# --- Broker and worker ----------------------------------------------------------------------------------------------
CELERY_BROKER_URL = env.text("REDIS_URL")
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_DEFAULT_QUEUE = "default"
CELERY_TASK_ROUTES = {"embeddings.tasks.wake": {"queue": "embeddings"}}
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
# For ever: the poll works meanwhile, and would end with the process.
CELERY_BROKER_CONNECTION_MAX_RETRIES = None
# Or else a broker whose memory is full ends the worker, and its loop with it.
CELERY_BROKER_CHANNEL_ERROR_RETRY = True
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
# A frozen broker must cost a save one bounded wait, never a hang (RELIABILITY rule 12).
CELERY_BROKER_TRANSPORT_OPTIONS = {
    "socket_timeout": 1,
    "socket_connect_timeout": 1,
    "max_retries": 0,
    "visibility_timeout": 60,
}
CELERY_TASK_PUBLISH_RETRY = False
CELERY_BEAT_SCHEDULE = {
    "reconcile-embeddings": {
        "task": "embeddings.tasks.reconcile",
        "schedule": env.number("EMBEDDING_RECONCILE_SECONDS", 300, low=1, high=86_400),
        "options": {"expires": 240},
    },
    "prune-idempotency-keys": {
        "task": "portal.ops.tasks.prune_idempotency_keys",
        "schedule": 3600,
        "options": {"expires": 3000},
    },
    "start-due-syncs": {"task": "tools.tasks.start_due_syncs", "schedule": 60, "options": {"expires": 50}},
    "prune-jobs": {"task": "portal.ops.tasks.prune_jobs", "schedule": 86_400, "options": {"expires": 80_000}},
    "prune-syncs": {"task": "tools.tasks.prune_syncs", "schedule": 86_400, "options": {"expires": 80_000}},
}

# --- Jobs -----------------------------------------------------------------------------------------------------------
JOB_LOST_SECONDS = env.number("JOB_LOST_SECONDS", 60, low=0.5, high=3600)  # without a heartbeat
JOB_POLL = env.number("JOB_POLL", 2, low=0.05, high=60)  # seconds between polls without a bell

# --- Embeddings -----------------------------------------------------------------------------------------------------
# "sentence-transformers", "openai-compatible", "local-http", "disabled", or the dotted path of a class with the interface
# of embeddings.providers.base.
EMBEDDING_PROVIDER = env.text("EMBEDDING_PROVIDER", "sentence-transformers")
EMBEDDING_MODEL = env.text("EMBEDDING_MODEL", "all-MiniLM-L6-v2")
EMBEDDING_URL = env.http_url(
    "EMBEDDING_URL",
    needed_by=f"EMBEDDING_PROVIDER={EMBEDDING_PROVIDER}"
    if EMBEDDING_PROVIDER in {"openai-compatible", "local-http"}
    else "",
)
EMBEDDING_API_KEY = env.secret("EMBEDDING_API_KEY")  # sent to EMBEDDING_URL only
# What e5-like models want before a text, spaces included: "query: ", "passage: ".
EMBEDDING_QUERY_PREFIX = env.text("EMBEDDING_QUERY_PREFIX", "")
EMBEDDING_PASSAGE_PREFIX = env.text("EMBEDDING_PASSAGE_PREFIX", "")
# Of the model that has the other slot, while the settings name a new one (EMB-10).
EMBEDDING_PREVIOUS_API_KEY = env.secret("EMBEDDING_PREVIOUS_API_KEY")
EMBEDDING_PREVIOUS_QUERY_PREFIX = env.text("EMBEDDING_PREVIOUS_QUERY_PREFIX", "")
EMBEDDING_PREVIOUS_PASSAGE_PREFIX = env.text("EMBEDDING_PREVIOUS_PASSAGE_PREFIX", "")
# What runs the model of sentence-transformers: torch needs the extra [torch], has any model, and may use a GPU.
EMBEDDING_RUNTIME = env.choice("EMBEDDING_RUNTIME", "onnx", allowed=("onnx", "torch"))
if EMBEDDING_RUNTIME == "torch":
    env.need_package(
        "sentence_transformers",
        needed_by="EMBEDDING_RUNTIME=torch",
        install="pip install -r requirements/torch.in",
    )
EMBEDDING_DEVICE = env.choice("EMBEDDING_DEVICE", "auto", allowed=("auto", "cpu", "cuda"))  # torch's
EMBEDDING_DIMENSION = env.integer("EMBEDDING_DIMENSION", 384, low=384, high=384)  # the column is vector(384)
EMBEDDING_BATCH_SIZE = env.integer("EMBEDDING_BATCH_SIZE", 32, low=1, high=512)
EMBEDDING_THREADS = env.integer("EMBEDDING_THREADS", 1, low=1, high=64)
EMBEDDING_TIMEOUT = env.number("EMBEDDING_TIMEOUT", 30, low=0.1, high=600)  # seconds, one provider call
EMBEDDING_MAX_ATTEMPTS = env.integer("EMBEDDING_MAX_ATTEMPTS", 6, low=1, high=100)
EMBEDDING_RETRY_BASE = env.number(
    "EMBEDDING_RETRY_BASE", 2, low=0.01, high=600
)  # seconds, doubles per attempt
EMBEDDING_RETRY_MAX = env.number("EMBEDDING_RETRY_MAX", 600, low=0.01, high=86_400)
EMBEDDING_LEASE = env.number("EMBEDDING_LEASE", 60, low=0.1, high=3600)  # seconds a claim is exclusive
EMBEDDING_POLL = env.number("EMBEDDING_POLL", 3, low=0.05, high=60)  # seconds between polls without a bell
# Errors of the provider as a whole until nobody calls it, and seconds between two tries from then on.
EMBEDDING_CIRCUIT_ERRORS = env.integer("EMBEDDING_CIRCUIT_ERRORS", 5, low=1, high=100)
EMBEDDING_CIRCUIT_SECONDS = env.number("EMBEDDING_CIRCUIT_SECONDS", 30, low=0.05, high=3600)

# --- Search ---------------------------------------------------------------------------------------------------------
SEARCH_SEMANTIC = env.flag("SEARCH_SEMANTIC", default=True)
SEARCH_FUSION = env.choice("SEARCH_FUSION", "score", allowed=("score", "rrf"))
SEARCH_EXACT_LIMIT = env.integer("SEARCH_EXACT_LIMIT", 10_000, low=0, high=1_000_000)  # rows; above it HNSW
SEARCH_QUERY_CACHE = env.integer("SEARCH_QUERY_CACHE", 1000, low=0, high=100_000)  # query vectors per process

# --- Imports --------------------------------------------------------------------------------------------------------
DATA_UPLOAD_MAX_MEMORY_SIZE = 1_000_000
DOCUMENT_MAX_BYTES = 20_000_000
# "host:port" of servers inside the organisation that documents may be fetched from; all else must be public.
IMPORT_ALLOWED_HOSTS = env.words("IMPORT_ALLOWED_HOSTS", "")
# The commands of MCP servers that may be started, by id (tools/imports/fetching/mcp/server.py says the form); none without it.
MCP_COMMANDS_FILE = env.text("MCP_COMMANDS_FILE", "")
SYNC_MAX_REMOVED = env.number(
    "SYNC_MAX_REMOVED", 0.2, low=0, high=1
)  # of a source's tools, without being asked
SYNCS_KEPT = env.integer("SYNCS_KEPT", 100, low=1, high=100_000)  # of each source, with their documents
# Only variables that begin with this may be sent to MCP servers as headers: operators name them (docs/mcp-import.md).
MCP_SECRET_PREFIX = env.text("MCP_SECRET_PREFIX", "MCP_SECRET_")
MCP_SECONDS = env.number("MCP_SECONDS", 60, low=1, high=600)  # from a server's start to its whole list
FILE_UPLOAD_MAX_MEMORY_SIZE = 2_500_000

# --- API ------------------------------------------------------------------------------------------------------------
REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["portal.http.authentication.ApiKeyAuthentication"],
    "DEFAULT_PERMISSION_CLASSES": ["portal.http.authentication.HasScope"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["portal.http.bodies.JsonBody"],
    "DEFAULT_THROTTLE_CLASSES": ["portal.http.rate_limits.KeyRate"],
    "DEFAULT_SCHEMA_CLASS": "tools.api.schema.PortalSchema",
    "EXCEPTION_HANDLER": "portal.http.problems.problem_response",
    "UNAUTHENTICATED_USER": None,
    "URL_FORMAT_OVERRIDE": None,
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Tool Portal",
    "VERSION": "1",
    "OAS_VERSION": "3.1.1",
    "DESCRIPTION": "A catalogue of tools for agents: imported, edited, embedded, and found by what they do. Every refusal is a "
    "problem (RFC 9457) whose `type` is a page of its own.",
    "SERVE_INCLUDE_SCHEMA": False,
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "PREPROCESSING_HOOKS": ["tools.api.schema.only_v1"],
    "POSTPROCESSING_HOOKS": ["tools.api.schema.with_problem"],
    "COMPONENT_SPLIT_REQUEST": True,
    # What a request may leave out is not said to be missing in an answer.
    "COMPONENT_SPLIT_PATCH": True,
    "ENUM_GENERATE_CHOICE_DESCRIPTION": False,
    "SERVE_AUTHENTICATION": [],
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "/static/portal/favicon.svg",
    "SWAGGER_UI_SETTINGS": {"deepLinking": True, "persistAuthorization": False, "validatorUrl": None},
}

# --- Figures ---------------------------------------------------------------------------------------------------------
# The bearer token that GET /metrics wants; without it there is no such page.
METRICS_TOKEN = env.secret("METRICS_TOKEN")

# --- Pages ----------------------------------------------------------------------------------------------------------
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "login"
LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_TZ = True
USE_I18N = True
STATIC_URL = "static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
WHITENOISE_USE_FINDERS = True  # the repository's own vendored files; no build step
WHITENOISE_AUTOREFRESH = DEBUG
WHITENOISE_MAX_AGE = 3600

# One strict policy for pages and admin: tool text comes from strangers.
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF],
        "style-src": [SELF],
        "img-src": [SELF, "data:"],
        "font-src": [SELF],
        "connect-src": [SELF],
        "form-action": [SELF],
        "base-uri": [NONE],
        "frame-ancestors": [NONE],
    }
}
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
CSRF_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = env.flag("COOKIES_SECURE", default=False)
X_FRAME_OPTIONS = "DENY"
SECURE_REFERRER_POLICY = "same-origin"
MESSAGE_STORAGE = "django.contrib.messages.storage.session.SessionStorage"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 12}},
]

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "filters": {"request_id": {"()": "portal.http.request_ids.RequestIdFilter"}},
    "formatters": {"line": {"format": "%(levelname)s %(name)s [%(request_id)s]: %(message)s"}},
    "handlers": {
        "console": {"class": "logging.StreamHandler", "formatter": "line", "filters": ["request_id"]}
    },
    "root": {"handlers": ["console"], "level": env.text("LOG_LEVEL", "INFO")},
    "loggers": {"django.request": {"level": "ERROR"}},
}
