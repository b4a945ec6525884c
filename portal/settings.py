"""Every setting of the portal, read once from the environment with its default, its bounds and its meaning.

`manage.py settings` lists them with their values, docs/settings.md with their defaults. What has no `env.` call is the
framework's and stays the same in every installation.

One database alias: which login it uses is chosen per process by PORTAL_DB_ROLE (`app`, `worker`, `admin`), so that
the web never holds the owner's password and no code path can pick a stronger role by accident.
"""

from __future__ import annotations

import os

import pghistory
from csp.constants import NONE, SELF
from django.core.exceptions import ImproperlyConfigured

from portal import api_settings, env

BASE_DIR = env.ROOT

# --- Declared settings: what an installation may choose -------------------------------------------------------------
# Each is read as one line of a table, so the formatter leaves their layout alone.
# fmt: off
env.section("Site")
SECRET_KEY = env.required_secret("SECRET_KEY",
    meaning="Django's secret key: it signs sessions and form tokens.")
DEBUG = env.flag("DEBUG", default=False,
    meaning="Shows Django's error pages. Never on in production.")
ALLOWED_HOSTS = env.words("ALLOWED_HOSTS", "localhost,127.0.0.1,[::1]",
    meaning="Host names that the site answers to, as in Django.")
CSRF_TRUSTED_ORIGINS = env.words("CSRF_TRUSTED_ORIGINS", "",
    meaning="Origins whose forms are accepted, as in Django; needed behind a proxy that changes `Host`.")
BEHIND_TLS = env.flag("BEHIND_TLS", default=False, replaces="COOKIES_SECURE",
    meaning="On where a proxy ends TLS and sets `X-Forwarded-Proto`: `__Host-` cookies over HTTPS only, HSTS, redirects to HTTPS.")
HOST = env.text("HOST", "127.0.0.1",
    meaning="Address that the portal's proxy listens on.")
PORT = env.integer("PORT", 8000, low=1, high=65_535,
    meaning="Port that the portal's proxy listens on.")
WEB_SOCKET = env.text("WEB_SOCKET", ".portal/web.sock",
    meaning="Unix socket where the web answers the portal's proxy. `make up` chooses one itself.")
TRUSTED_PROXIES = env.words("TRUSTED_PROXIES", "",
    meaning="Addresses or networks of proxies before the portal's own, such as `10.0.0.7,172.16.0.0/12`. `X-Forwarded-For` and "
            "`X-Forwarded-Proto` are believed from these alone. `BEHIND_TLS` needs them.")
WEB_CONCURRENCY = env.integer("WEB_CONCURRENCY", max(3, len(os.sched_getaffinity(0)) + 1), low=1, high=1000,
    default_rule="one a core and one more, at least 3",
    meaning="Processes of the web. All but one of them may read documents and ask MCP servers at a time, and no tenant has all of "
            "these where there are 3 or more; others answer 503.")
LOG_LEVEL = env.choice("LOG_LEVEL", "INFO", allowed=("NOTSET", "DEBUG", "INFO", "WARN", "WARNING", "ERROR", "CRITICAL", "FATAL"),
    meaning="Messages below this level are not logged.")
SIGN_INS_KEPT_DAYS = env.integer("SIGN_INS_KEPT_DAYS", 400, low=30, high=36_500,
    meaning="Days that attempts to sign in are kept; beat deletes older ones daily. The database refuses to delete those of the last 30 days.")
METRICS_TOKEN = env.secret("METRICS_TOKEN",
    meaning="Bearer token of `GET /metrics` (docs/prometheus.md). Without it the page does not exist.")

env.section("Database")
DB_ROLE = env.choice("PORTAL_DB_ROLE", "app", allowed=("app", "worker", "admin"),
    meaning="Database login of this process. Each command and process chooses its own; see `manage.py` and `portal/processes.py`.")
_LOGINS = {
    "app": env.database("DATABASE_URL", needed=DB_ROLE == "app",
        meaning="The web's login, as `postgresql://user:password@host:5432/portal`."),
    "worker": env.database("DATABASE_WORKER_URL", needed=DB_ROLE == "worker",
        meaning="The login of the workers."),
    "admin": env.database("DATABASE_ADMIN_URL", needed=DB_ROLE == "admin",
        meaning="The login of the schema's owner: migrations, tenants, API keys, backup."),
}
LOCK_TIMEOUT_SECONDS = env.number("LOCK_TIMEOUT_SECONDS", 2, low=0.1, high=60,
    meaning="Seconds that a statement waits for a lock of the database before it fails.")

env.section("Broker and cache")
BROKER_URL, CACHE_URL = env.redis_urls()

env.section("Jobs")
JOB_LOST_SECONDS = env.number("JOB_LOST_SECONDS", 60, low=0.5, high=3600,
    meaning="Seconds without a heartbeat after which a job's process counts as dead, and another one resumes the job.")
JOB_MAX_RESUMES = env.integer("JOB_MAX_RESUMES", 3, low=0, high=100,
    meaning="Times that a job whose process died is resumed by itself; after that it is `lost` until a person resumes it.")
JOB_THREADS = env.integer("JOB_THREADS", 3, low=1, high=32,
    meaning="Jobs that one process runs at a time, each of another tenant. Those that wait take turns with them (SEC-5).")
JOB_MAX_ACTIVE = env.integer("JOB_MAX_ACTIVE", 500, low=1, high=100_000,
    meaning="Unfinished jobs of a tenant, at most; a further one is refused (429).")
JOB_MIN_RATE = env.number("JOB_MIN_RATE", 1, low=0.1, high=1000,
    meaning="The slowest `rate` that a backfill may ask for, in tools a second.")
JOB_POLL = env.number("JOB_POLL", 2, low=0.05, high=60,
    meaning="Seconds between two looks for jobs, for a process that no message wakes.")
JOB_MAX_ATTEMPTS = env.integer("JOB_MAX_ATTEMPTS", 5, low=1, high=100,
    meaning="Errors of the database that a job may meet in one batch before it fails; until then it is started again.")
JOB_KEEP_DAYS = env.integer("JOB_KEEP_DAYS", 90, low=1, high=36_500,
    meaning="Days that a job is kept after its end; `manage.py prune` and beat delete older ones.")

BEAT_FILE = env.text("BEAT_FILE", ".portal/beat-schedule",
    meaning="File in which beat notes when it last started what. `make up` as root sets it, since its account may not write here.")

env.section("Embeddings")
EMBEDDING_PROVIDER = env.text("EMBEDDING_PROVIDER", "sentence-transformers",
    meaning="`sentence-transformers`, `openai-compatible`, `local-http` (docs/embedding-model.md), `disabled` (tools are found by "
            "keyword only), or the dotted path of a class with the interface of `embeddings.providers.base`.")
EMBEDDING_MODEL = env.text("EMBEDDING_MODEL", "all-MiniLM-L6-v2",
    meaning="The model. A new one is filled beside the one that serves until `embedding_model switch`.")
EMBEDDING_URL = env.http_url("EMBEDDING_URL",
    needed_by=f"EMBEDDING_PROVIDER={EMBEDDING_PROVIDER}" if EMBEDDING_PROVIDER in {"openai-compatible", "local-http"} else "",
    meaning="Address of the embedding server.")
EMBEDDING_API_KEY = env.secret("EMBEDDING_API_KEY",
    meaning="Key for EMBEDDING_URL; it is sent nowhere else.")
EMBEDDING_QUERY_PREFIX = env.text("EMBEDDING_QUERY_PREFIX", "",
    meaning="Text before each question, spaces included, for e5-like models: `query: `.")
EMBEDDING_PASSAGE_PREFIX = env.text("EMBEDDING_PASSAGE_PREFIX", "",
    meaning="Text before each tool's text, spaces included, for e5-like models: `passage: `.")
EMBEDDING_PREVIOUS_API_KEY = env.secret("EMBEDDING_PREVIOUS_API_KEY",
    meaning="Key of the model in the other slot, while EMBEDDING_MODEL names a new one (EMB-10).")
EMBEDDING_PREVIOUS_QUERY_PREFIX = env.text("EMBEDDING_PREVIOUS_QUERY_PREFIX", "",
    meaning="Query prefix of the model in the other slot.")
EMBEDDING_PREVIOUS_PASSAGE_PREFIX = env.text("EMBEDDING_PREVIOUS_PASSAGE_PREFIX", "",
    meaning="Passage prefix of the model in the other slot.")
EMBEDDING_RUNTIME = env.choice("EMBEDDING_RUNTIME", "onnx", allowed=("onnx", "torch"),
    meaning="Runtime of sentence-transformers. `torch` needs the extra `[torch]`, runs any model, and may use a GPU.")
if EMBEDDING_RUNTIME == "torch":
    env.need_package("sentence_transformers", needed_by="EMBEDDING_RUNTIME=torch", install="pip install -r requirements/torch.in")
EMBEDDING_DEVICE = env.choice("EMBEDDING_DEVICE", "auto", allowed=("auto", "cpu", "cuda"),
    meaning="Device of the torch runtime.")
EMBEDDING_DIMENSION = env.integer("EMBEDDING_DIMENSION", 384, low=384, high=384,
    meaning="Numbers in a vector. The database's columns are `vector(384)`.")
EMBEDDING_BATCH_SIZE = env.integer("EMBEDDING_BATCH_SIZE", 32, low=1, high=512,
    meaning="Texts in one call of the provider.")
EMBEDDING_THREADS = env.integer("EMBEDDING_THREADS", 1, low=1, high=64,
    meaning="Processor threads of a model that runs in the process.")
EMBEDDING_TIMEOUT = env.number("EMBEDDING_TIMEOUT", 30, low=0.1, high=600,
    meaning="Seconds that one call of the provider may take.")
EMBEDDING_QUERY_TIMEOUT = env.number("EMBEDDING_QUERY_TIMEOUT", 0.8, low=0.01, high=60,
    meaning="Seconds that a search waits for the vector of its question before it answers by keyword (R11).")
EMBEDDING_QUERY_SLOW = env.number("EMBEDDING_QUERY_SLOW", 0.4, low=0.01, high=60,
    meaning="Seconds from which one failed call for a question opens the provider's circuit at once.")
EMBEDDING_MAX_ATTEMPTS = env.integer("EMBEDDING_MAX_ATTEMPTS", 6, low=1, high=100,
    meaning="Attempts of one text before its embedding is `failed` (EMB-5).")
EMBEDDING_RETRY_BASE = env.number("EMBEDDING_RETRY_BASE", 2, low=0.01, high=600,
    meaning="Seconds before the second attempt, at most; they double with each attempt, with jitter.")
EMBEDDING_RETRY_MAX = env.number("EMBEDDING_RETRY_MAX", 600, low=0.01, high=86_400,
    meaning="Seconds between two attempts, at most.")
EMBEDDING_LEASE = env.number("EMBEDDING_LEASE", 60, low=0.1, high=3600,
    meaning="Seconds that a claim of tasks is exclusive; the worker renews it at a third of them.")
EMBEDDING_POLL = env.number("EMBEDDING_POLL", 3, low=0.05, high=60,
    meaning="Seconds between two looks for tasks, for a worker that no message wakes.")
EMBEDDING_RECONCILE_SECONDS = env.number("EMBEDDING_RECONCILE_SECONDS", 300, low=1, high=86_400,
    meaning="Seconds between two runs of the reconciler, which enqueues what should have a task and has none.")
EMBEDDING_CIRCUIT_ERRORS = env.integer("EMBEDDING_CIRCUIT_ERRORS", 5, low=1, high=100,
    meaning="Errors of a provider as a whole that open its circuit; a refusal or a `Retry-After` opens it at once.")
EMBEDDING_CIRCUIT_SECONDS = env.number("EMBEDDING_CIRCUIT_SECONDS", 30, low=0.05, high=3600,
    meaning="Seconds between two tries while a circuit is open.")
EMBEDDING_SWITCH_MAX_MISSING = env.number("EMBEDDING_SWITCH_MAX_MISSING", 0.005, low=0, high=1,
    meaning="Share of the serving model's vectors that the other model may lack when it is switched to (EMB-10).")

env.section("Search")
SEARCH_QUERY_MAX_LENGTH = env.integer("SEARCH_QUERY_MAX_LENGTH", 2000, low=1, high=100_000,
    meaning="Characters of a question, at most. One that makes an address longer than 8,190 bytes goes by POST.")
SEARCH_TOP_K_MAX = env.integer("SEARCH_TOP_K_MAX", 50, low=1, high=1000,
    meaning="Results that a search may ask for, at most (SRC-3).")
SEARCH_TOP_K = env.integer("SEARCH_TOP_K", min(20, SEARCH_TOP_K_MAX), low=1, high=SEARCH_TOP_K_MAX,
    meaning="Results of a search that names no number (SRC-3).")
SEARCH_NAMES_MAX = env.integer("SEARCH_NAMES_MAX", 1000, low=1, high=100_000,
    meaning="Values of the filters `names` and `exclude`, at most (SRC-2).")
SEARCH_FILTER_VALUES_MAX = env.integer("SEARCH_FILTER_VALUES_MAX", 50, low=1, high=1000,
    meaning="Values of each other filter, at most.")
SEARCH_SEMANTIC = env.flag("SEARCH_SEMANTIC", default=True,
    meaning="Searches by meaning as well. Off: by keyword alone (SRC-5).")
SEARCH_FUSION = env.choice("SEARCH_FUSION", "score", allowed=("score", "rrf"),
    meaning="How the two rankings become one: by scores, or by ranks (reciprocal rank fusion, SRC-1).")
SEARCH_RRF_K = env.integer("SEARCH_RRF_K", 60, low=1, high=10_000,
    meaning="k of reciprocal rank fusion: a result at rank r counts 1 / (k + r).")
SEARCH_MIN_SIMILARITY = env.number("SEARCH_MIN_SIMILARITY", 0.35, low=0.01, high=1,
    meaning="Cosine under which nothing is near. A best match below it is not stretched to the full score.")
SEARCH_SEMANTIC_SHARE_MIN = env.number("SEARCH_SEMANTIC_SHARE_MIN", 0.25, low=0, high=1,
    meaning="Weight of the vectors for a question that spells out the names of its matches; the keywords have the rest.")
SEARCH_SEMANTIC_SHARE_MAX = env.number("SEARCH_SEMANTIC_SHARE_MAX", 0.75, low=SEARCH_SEMANTIC_SHARE_MIN, high=1,
    meaning="Weight of the vectors for a question that names none of its matches.")
SEARCH_CANDIDATES = env.integer("SEARCH_CANDIDATES", max(30, 2 * SEARCH_TOP_K_MAX), low=SEARCH_TOP_K_MAX, high=2000,
    meaning="Candidates that are ranked, for however few results, so that fewer are always the first of more (SRC-3).")
SEARCH_EXACT_LIMIT = env.integer("SEARCH_EXACT_LIMIT", 2500, low=0, high=1_000_000,
    meaning="Up to so many tools vectors are compared one by one; of more, first their signatures, which take less time to read.")
SEARCH_FILTERED_LIMIT = env.integer("SEARCH_FILTERED_LIMIT", 10_000, low=0, high=1_000_000,
    meaning="Up to so many tools that pass the filters of a search are listed first; of more, the best are tested one after the other.")
SEARCH_POSTINGS_BUDGET = env.integer("SEARCH_POSTINGS_BUDGET", 2500, low=1, high=1_000_000,
    meaning="Postings that a question reads, at most, its rarest words first.")
SEARCH_SPELLING = env.flag("SEARCH_SPELLING", default=True,
    meaning="Corrects typing mistakes in a question, and says so in the answer (SRC-13).")
SEARCH_QUERY_CACHE = env.integer("SEARCH_QUERY_CACHE", 1000, low=0, high=100_000,
    meaning="Vectors of questions that each process remembers, those of each tenant apart (SRC-6).")

env.section("Imports")
DOCUMENT_MAX_BYTES = env.integer("DOCUMENT_MAX_BYTES", 20_000_000, low=1000, high=200_000_000,
    meaning="Bytes of an imported document, or of an MCP server's answer, at most.")
DOCUMENT_MAX_OPERATIONS = env.integer("DOCUMENT_MAX_OPERATIONS", 20_000, low=1, high=1_000_000,
    meaning="Operations or tools of an imported document, at most; files of tools apart.")
DESCRIPTION_MAX_CHARACTERS = env.integer("DESCRIPTION_MAX_CHARACTERS", 8_000, low=200, high=100_000,
    meaning="Characters of an imported description, at most; a longer one is cut, with a warning.")
IMPORT_ALLOWED_HOSTS = env.words("IMPORT_ALLOWED_HOSTS", "",
    meaning="`host:port` of servers inside the organisation that may be asked; all others must have public addresses (SEC-2).")
SYNC_MAX_REMOVED = env.number("SYNC_MAX_REMOVED", 0.2, low=0, high=1,
    meaning="Share of a source's tools that a sync may remove without a confirmation (SYN-4).")
SYNC_RETRY_SECONDS = env.number("SYNC_RETRY_SECONDS", 300, low=1, high=86_400,
    meaning="Seconds until a scheduled sync that failed is tried again; they double up to the source's interval.")
SYNCS_KEPT = env.integer("SYNCS_KEPT", 100, low=1, high=100_000,
    meaning="Syncs of each source, with their documents, that are kept; beat deletes older ones daily.")
MCP_COMMANDS_FILE = env.text("MCP_COMMANDS_FILE", "",
    meaning="JSON file that says which tenant may start which MCP server, and which may have which secret sent (docs/mcp-import.md). "
            "Without it none may.")
MCP_SECRET_PREFIX = env.text("MCP_SECRET_PREFIX", "MCP_SECRET_",
    meaning="Beginning of the environment variables that MCP servers may be sent as headers, where MCP_COMMANDS_FILE gives them to the "
            "tenant.")
MCP_SECONDS = env.number("MCP_SECONDS", 60, low=1, high=600,
    meaning="Seconds from the start of an MCP server to the end of its list.")

env.section("Requests")
DATA_UPLOAD_MAX_MEMORY_SIZE = env.integer("REQUEST_MAX_BYTES", 1_000_000, low=10_000, high=100_000_000,
    meaning="Bytes of a request's body, at most, documents apart.")
# fmt: on

# --- Django ---------------------------------------------------------------------------------------------------------
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
    "portal.ops",
    "embeddings",
    "tools",
]

MIDDLEWARE = [
    "portal.http.problems.ApiProblemMiddleware",
    "portal.http.query_strings.NulReplacedMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "portal.http.static_files.StaticFilesMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "portal.http.bodies.BodyLimitMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "portal.tenancy.middleware.TenantMiddleware",
]

ROOT_URLCONF = "portal.urls"
WSGI_APPLICATION = "portal.wsgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "builtins": ["tools.templatetags.form_tokens"],  # every form says which tenant it was made for
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
# A forgotten transaction stops the queue and a slow statement blocks a page, so every login has bounds; only
# migrations and maintenance (admin) may run long.
_STATEMENT_TIMEOUT = {"app": "5s", "worker": "60s", "admin": "0"}[DB_ROLE]
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        **_LOGINS[DB_ROLE],
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": {
            "options": f"-c statement_timeout={_STATEMENT_TIMEOUT} -c lock_timeout={1000 * LOCK_TIMEOUT_SECONDS:.0f}ms "
            "-c idle_in_transaction_session_timeout=60s",
            "application_name": f"portal-{DB_ROLE}",
            "connect_timeout": 5,
            # A job has a connection for its batch, and others for moments: its heartbeat, its progress.
            "pool": {
                "min_size": 1,
                "max_size": 4 + 2 * JOB_THREADS if DB_ROLE == "worker" else 4,
                "timeout": 5,
            },
        },
    }
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# --- History (CAT-8) ------------------------------------------------------------------------------------------------
# In the event's own row: a table of contexts would hold every tenant's beside each other.
PGHISTORY_CONTEXT_FIELD = pghistory.ContextJSONField()

# --- Broker and cache -----------------------------------------------------------------------------------------------
# One server may hold both, as every key of the cache expires and none of the broker's does (portal/embedded/valkey.py).
CACHES = {
    "default": {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        "LOCATION": CACHE_URL,
        "KEY_PREFIX": "portal",
        "TIMEOUT": 300,  # None would be a key that never expires, which a full server could not evict
        "OPTIONS": {"socket_timeout": 1, "socket_connect_timeout": 1},
    }
}
CELERY_BROKER_URL = BROKER_URL
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
# fmt: off
CELERY_BROKER_TRANSPORT_OPTIONS = {"socket_timeout": 1, "socket_connect_timeout": 1, "max_retries": 0, "visibility_timeout": 60}
CELERY_TASK_PUBLISH_RETRY = False
CELERY_BEAT_SCHEDULE_FILENAME = BEAT_FILE
CELERY_BEAT_SCHEDULE = {
    "reconcile-embeddings": {"task": "embeddings.tasks.reconcile", "schedule": EMBEDDING_RECONCILE_SECONDS, "options": {"expires": 240}},
    "prune-idempotency-keys": {"task": "portal.ops.tasks.prune_idempotency_keys", "schedule": 3600, "options": {"expires": 3000}},
    "start-due-syncs": {"task": "tools.tasks.start_due_syncs", "schedule": 60, "options": {"expires": 50}},
    "prune-jobs": {"task": "portal.ops.tasks.prune_jobs", "schedule": 86_400, "options": {"expires": 80_000}},
    "prune-sign-ins": {"task": "portal.ops.tasks.prune_sign_ins", "schedule": 86_400, "options": {"expires": 80_000}},
    "prune-syncs": {"task": "tools.tasks.prune_syncs", "schedule": 86_400, "options": {"expires": 80_000}},
}
# fmt: on

# --- API ------------------------------------------------------------------------------------------------------------
REST_FRAMEWORK = api_settings.REST_FRAMEWORK
SPECTACULAR_SETTINGS = api_settings.SPECTACULAR_SETTINGS

# --- Pages ----------------------------------------------------------------------------------------------------------
FILE_UPLOAD_MAX_MEMORY_SIZE = 2_500_000  # a larger upload is kept in a file
LOGIN_URL, LOGIN_REDIRECT_URL, LOGOUT_REDIRECT_URL = "login", "/", "login"
LANGUAGE_CODE, TIME_ZONE = "en", "UTC"
FORMAT_MODULE_PATH = "tools.admin.formats"
STATIC_URL = "static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
STORAGES = {"staticfiles": {"BACKEND": "portal.http.static_files.DigestStorage"}}
WHITENOISE_USE_FINDERS = True  # the repository's own vendored files; no build step
WHITENOISE_AUTOREFRESH = DEBUG
WHITENOISE_MAX_AGE = 3600

# One strict policy for pages and admin: tool text comes from strangers.
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        **{key: [NONE] for key in ("default-src", "base-uri", "frame-ancestors")},
        **{key: [SELF] for key in ("script-src", "style-src", "font-src", "connect-src", "form-action")},
        "img-src": [SELF, "data:"],
    }
}
# Django's defaults do the rest: cookies are HttpOnly or SameSite=Lax, no page may be framed.
if BEHIND_TLS:
    if not TRUSTED_PROXIES:
        raise ImproperlyConfigured(
            "BEHIND_TLS needs TRUSTED_PROXIES, the address of the proxy that ends TLS, such as 10.0.0.7 or 172.16.0.0/12."
        )
    SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = SECURE_SSL_REDIRECT = True
    SESSION_COOKIE_NAME, CSRF_COOKIE_NAME = "__Host-sessionid", "__Host-csrftoken"
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    SECURE_REDIRECT_EXEMPT = ["^livez$", "^readyz$", "^metrics$"]  # they are asked beside the proxy
    SECURE_HSTS_SECONDS = 365 * 86_400
# These want HSTS for all names of the domain, which are not the portal's to bind.
SILENCED_SYSTEM_CHECKS = ["security.W005", "security.W021"]
MESSAGE_STORAGE = "django.contrib.messages.storage.session.SessionStorage"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 12}},
]
AUTHENTICATION_BACKENDS = ["portal.http.sign_in_throttle.ThrottledBackend"]

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "filters": {"request_id": {"()": "portal.http.request_ids.RequestIdFilter"}},
    "formatters": {"line": {"format": "%(levelname)s %(name)s [%(request_id)s]: %(message)s"}},
    "handlers": {
        "console": {"class": "logging.StreamHandler", "formatter": "line", "filters": ["request_id"]}
    },
    "root": {"handlers": ["console"], "level": LOG_LEVEL},
    "loggers": {
        "django.request": {"level": "ERROR"},
        "django.security.RequestDataTooBig": {"level": "CRITICAL"},  # or senders could fill the log with it
    },
}
