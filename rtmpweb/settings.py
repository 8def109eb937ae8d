"""Settings of Django; all that differs between installations comes from the environment (see docs/operations.md)."""

import socket
from contextlib import suppress
from pathlib import Path
from typing import Any

import dj_database_url
import django_stubs_ext
from csp.constants import NONE, SELF

from ingest.services import data_folder, own_redis
from rtmpweb import env, logs

django_stubs_ext.monkeypatch()  # So that Django's classes can be subscripted at run time, as their types are.

BASE_DIR = Path(__file__).resolve().parent.parent
DATA_DIR = env.folder("RTMPWEB_DATA_DIR", BASE_DIR / "var")

DEBUG = env.flag("RTMPWEB_DEBUG")
SECRET_KEY = env.kept_secret("RTMPWEB_SECRET_KEY", DATA_DIR)
KEY_PEPPER = env.kept_secret("RTMPWEB_KEY_PEPPER", DATA_DIR)
"""The key of the HMAC under which stream keys and API tokens are kept; changing it makes all of them invalid."""
KEY_PEPPER_FILE = None if env.text("RTMPWEB_KEY_PEPPER") else env.secret_file("RTMPWEB_KEY_PEPPER", DATA_DIR)
"""Where it is kept, if the environment doesn't say it;"""
KEY_PEPPER_IS_NEW = KEY_PEPPER_FILE in env.MADE
"""and whether this process had to make it."""

DATABASE_URL = env.database_url("DATABASE_URL")
REDIS_URL = env.text("REDIS_URL")
BROKER_URL = "" if own_redis.url_of(DATA_DIR) == REDIS_URL else REDIS_URL
"""Of Celery. Empty: a folder. A Redis of our own keeps nothing, and an idle worker could not rest with it."""

# Listeners ------------------------------------------------------------
HTTP_ADDRESS = env.address("RTMPWEB_HTTP", "127.0.0.1:8000")
RTMP_ADDRESS = env.address("RTMPWEB_RTMP", "0.0.0.0:1935")
RTMPS_ADDRESS = env.address("RTMPWEB_RTMPS", "off")
TLS_CERT = env.file("RTMPWEB_TLS_CERT")
TLS_KEY = env.file("RTMPWEB_TLS_KEY")
MEDIA_ADDRESS = env.address("RTMPWEB_MEDIA", "127.0.0.1:8001")
MEDIA_URL_BASE = env.http_base("RTMPWEB_MEDIA_URL")
"""By which browsers reach the media listener; empty: by its own address."""
MEDIA_ORIGINS = env.words("RTMPWEB_MEDIA_ORIGINS")
"""From which pages may be played; empty: the dashboard's own."""
HLS_ADDRESS = env.address("RTMPWEB_HLS", "127.0.0.1:8002")
HLS_URL_BASE = env.http_base("RTMPWEB_HLS_URL")
"""By which browsers reach the HLS listener; empty: by its own address."""
REWIND_S = env.integer("RTMPWEB_REWIND_S", 0, 0, 86_400)
"""How far back viewers of HLS can go."""
FLUSH_MS = env.integer("RTMPWEB_FLUSH_MS", 0, 0, 1000)
UNSENT_KIB = env.integer("RTMPWEB_UNSENT_KIB", 128, 0, 1_048_576)
"""What the kernel may hold for a player that it has not sent."""
READ_MS = env.integer("RTMPWEB_READ_MS", 100, 0, 1000)
THUMBNAILS_S = env.integer("RTMPWEB_THUMBNAILS_S", 5, 0, 3600)
MAX_MESSAGE_MIB = env.integer("RTMPWEB_MAX_MESSAGE_MIB", 10, 1, 16)
"""At 16 the length field of RTMP is the limit."""
CACHE_MIB = env.integer("RTMPWEB_CACHE_MIB", 512, 1, 1_048_576)
MAX_CONNECTIONS = env.integer("RTMPWEB_MAX_CONNECTIONS", 10_000, 1, 1_000_000)
MAX_CONNECTIONS_PER_ADDRESS = env.integer("RTMPWEB_MAX_CONNECTIONS_PER_ADDRESS", 1_000, 1, 1_000_000)
WAITING_S = env.integer("RTMPWEB_WAITING_S", 3600, 0, 86_400)
"""How long an encoder may be connected without publishing."""
MOST_WORKERS = 64
WORKERS = env.integer("RTMPWEB_WORKERS", 1, 1, MOST_WORKERS)
"""Processes that take connections on the same ports, each a media node, where a command says no other number."""
DRAIN_S = env.integer("RTMPWEB_DRAIN_S", 0, 0, 3600)
"""How long what is live may go on after SIGTERM."""
END_PLAYERS_S = env.number("RTMPWEB_END_PLAYERS_S", 15, 0, 86_400, or_never=True)
"""From a publisher's leaving until its players are told that the stream has ended; infinity: never."""
MAX_PUSHES = env.integer("RTMPWEB_MAX_PUSHES", 100, 1, 10_000)
"""To other servers, of all streams of a node."""
MAX_PULLS = env.integer("RTMPWEB_MAX_PULLS", 50, 1, 10_000)
"""From other servers, of a node."""
RELAY_PRIVATE = env.flag("RTMPWEB_RELAY_PRIVATE")
"""Whether streams may be pushed to, and pulled from, private networks and this machine."""
RECONNECT_URL = env.rtmp_base("RTMPWEB_RECONNECT_URL")
NODE_NAME = env.text("RTMPWEB_NODE")
"""This media node's name; empty: the host's name."""
NODE_URL = env.rtmp_base("RTMPWEB_NODE_URL")
"""How other nodes reach this one; empty: by its listener's own address."""
ROLE = env.choice("RTMPWEB_ROLE", "origin", ("origin", "edge"))
"""Of this media node: an edge takes players only."""
RELAY_VIA = env.words("RTMPWEB_RELAY_VIA")
"""Nodes that this one asks first for what others publish."""
MAX_RELAYS = env.integer("RTMPWEB_MAX_RELAYS", 1_000, 1, 100_000)
RELAY_CA = env.file("RTMPWEB_RELAY_CA")
"""Who signs the certificates of nodes whose URL is rtmps://; empty: as the system has it."""
RTMP_HOST = env.text("RTMPWEB_RTMP_HOST")
"""The host name that encoders and players use, as shown in the strings to paste; empty: the listener's own address."""

HTTP_CONNECTIONS = env.integer("RTMPWEB_HTTP_CONNECTIONS", 1_000, 1, 1_000_000)
HTTP_CONNECTIONS_PER_ADDRESS = env.integer("RTMPWEB_HTTP_CONNECTIONS_PER_ADDRESS", 200, 1, 1_000_000)
HTTP_SOCKETS = env.integer("RTMPWEB_HTTP_SOCKETS", 20, 1, 1_000_000)
"""WebSockets of one browser's session."""
HTTP_HEAD_S = env.number("RTMPWEB_HTTP_HEAD_S", 10, 0.1, 600)
HTTP_BODY_S = env.number("RTMPWEB_HTTP_BODY_S", 30, 0.1, 3600)
HTTP_BODY_KIB = env.integer("RTMPWEB_HTTP_BODY_KIB", 2560, 64, 65_536)
DATA_UPLOAD_MAX_MEMORY_SIZE = HTTP_BODY_KIB * 1024
HTTP_REQUESTS = env.integer("RTMPWEB_HTTP_REQUESTS", 16, 1, 1000)
"""That a web process answers at a time: each of them has a connection to the database."""

ALLOWED_HOSTS = env.words("RTMPWEB_ALLOWED_HOSTS", "localhost 127.0.0.1 [::1]")
CSRF_TRUSTED_ORIGINS = env.words("RTMPWEB_TRUSTED_ORIGINS")
TRUSTED_PROXIES = env.networks("RTMPWEB_TRUSTED_PROXIES")
"""Whose X-Forwarded-For says who asks, for pages, API and viewers."""

INSTALLED_APPS = [
    "rtmpweb.apps.AuditedAdminConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "channels",
    "csp",
    "django_celery_beat",
    "django_htmx",
    "ingest",
    "analytics",
    "dashboard",
    "rtmpweb",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "rtmpweb.middleware.StaticFilesMiddleware",
    "csp.middleware.CSPMiddleware",
    "dashboard.zones.ZoneMiddleware",
    "dashboard.system.unavailable.UnavailableMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "rtmpweb.middleware.HostMiddleware",
    "rtmpweb.middleware.NoStoreMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
]

ROOT_URLCONF = "rtmpweb.urls"
ASGI_APPLICATION = "rtmpweb.asgi.application"
LOGIN_URL = "dashboard:login"
LOGIN_REDIRECT_URL = "dashboard:wall"
LOGOUT_REDIRECT_URL = "dashboard:login"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

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
                "dashboard.context.ui",
            ],
        },
    },
]

# Guessing, history ------------------------------------------------------------
GUESSES = env.integer("RTMPWEB_GUESSES", 10, 1, 100)
BAN_S = env.integer("RTMPWEB_BAN_S", 600, 0, 31_536_000)
REFUSAL_DELAY_S = env.number("RTMPWEB_REFUSAL_DELAY_S", 4.0, 0, 7)
"""With the 2 s that a decision may take it stays under what the listener waits for an answer (ServerConfig)."""
KEEP_ATTEMPTS_DAYS = env.integer("RTMPWEB_KEEP_ATTEMPTS_DAYS", 30, 0, 36_500)
KEEP_AUDIT_DAYS = env.integer("RTMPWEB_KEEP_AUDIT_DAYS", 400, 0, 36_500)
KEEP_SESSIONS_DAYS = env.integer("RTMPWEB_KEEP_SESSIONS_DAYS", 400, 0, 36_500)

# Telling others ------------------------------------------------------------
PUBLIC_URL = env.http_base("RTMPWEB_URL")
"""Of the dashboard, in messages; empty: by its own address."""
MANAGE = env.text("RTMPWEB_MANAGE")
"""How this installation's commands are called; empty: as `ingest.command_line` finds it."""
KEEP_HOOKS_DAYS = env.integer("RTMPWEB_KEEP_HOOKS_DAYS", 30, 0, 36_500)
WEBHOOK_PRIVATE = env.flag("RTMPWEB_WEBHOOK_PRIVATE")
AUTH_URL = env.http_base("RTMPWEB_AUTH_URL")
AUTH_SECRET = env.text("RTMPWEB_AUTH_SECRET")
EMAIL_URL = env.mail_url("RTMPWEB_EMAIL_URL")
"""It holds a password. Empty: no e-mail is sent."""
EMAIL_HOST, EMAIL_PORT, EMAIL_HOST_USER, EMAIL_HOST_PASSWORD, EMAIL_USE_TLS, EMAIL_USE_SSL = env.mail_server(EMAIL_URL)
EMAIL_TIMEOUT = 10
DEFAULT_FROM_EMAIL = env.text("RTMPWEB_EMAIL_FROM", "rtmpweb@localhost")

# Database ------------------------------------------------------------
DATABASE_TIMEOUT_S = 1.5
"""How long a statement waits for a lock; under the 2 s after which an admission is refused."""

if DATABASE_URL:
    # A connection that broke while it was idle is made anew, rather than failing the request that comes next.
    DATABASES: dict[str, Any] = {
        "default": dj_database_url.parse(DATABASE_URL, conn_max_age=60, conn_health_checks=True)
    }
    if "postgresql" in DATABASES["default"]["ENGINE"]:
        # Seconds and, for the user timeout, milliseconds: a server that is gone is found to be so within about 10 s.
        # What a statement may take is set where it matters: see ingest.consumers.decisions.
        DATABASES["default"]["OPTIONS"] = {
            "connect_timeout": 2,
            "tcp_user_timeout": 5000,
            "keepalives_idle": 5,
            "keepalives_interval": 2,
            "keepalives_count": 3,
        } | DATABASES["default"].get("OPTIONS", {})
else:
    DATABASES = {
        "default": {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": DATA_DIR / "rtmpweb.sqlite3",
            "CONN_MAX_AGE": 60,
            "TEST": {"NAME": DATA_DIR / "test.sqlite3"},  # A file, as in production: several threads write.
            "OPTIONS": {
                "timeout": DATABASE_TIMEOUT_S,
                "transaction_mode": "IMMEDIATE",
                "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
            },
        }
    }
KEEP_COPIES = env.integer("RTMPWEB_KEEP_COPIES", 3, 0, 100)
"""Of an SQLite database, from before it was migrated."""

# Channel layer, LiveStore, Celery ------------------------------------------------------------
LAYER_HOST = {"address": REDIS_URL, "socket_timeout": 8, "socket_connect_timeout": 2}
"""Seconds. The layer waits 5 s for a message: redis-py's own timeout is as long, and would make each wait an error."""

CHANNEL_LAYERS: dict[str, Any] = {
    "default": (
        {"BACKEND": "channels_redis.core.RedisChannelLayer", "CONFIG": {"hosts": [LAYER_HOST], "capacity": 1000}}
        if REDIS_URL
        else {"BACKEND": "channels.layers.InMemoryChannelLayer", "CONFIG": {"capacity": 1000}}
    )
}

LOCAL_CACHE = {"BACKEND": "django.core.cache.backends.locmem.LocMemCache", "OPTIONS": {"MAX_ENTRIES": 10000}}
CACHES: dict[str, Any] = {
    "default": (
        {
            "BACKEND": "django.core.cache.backends.redis.RedisCache",
            "LOCATION": REDIS_URL,
            "KEY_PREFIX": "rtmpweb",
            "OPTIONS": {"socket_timeout": 2, "socket_connect_timeout": 2},
        }
        if REDIS_URL
        else LOCAL_CACHE
    ),
    "local": LOCAL_CACHE,
}
"""Counts failed log-ins; `local` while Redis does not answer."""

BROKER_DIR = DATA_DIR / "broker"
CELERY_BROKER_URL = BROKER_URL or "filesystem://localhost"
CELERY_BROKER_TRANSPORT_OPTIONS: dict[str, Any] = (
    {"socket_timeout": 8, "socket_connect_timeout": 2}  # Seconds: a page that starts a task waits no longer.
    if BROKER_URL
    else {
        "data_folder_in": str(BROKER_DIR / "queue"),
        "data_folder_out": str(BROKER_DIR / "queue"),
        "control_folder": str(BROKER_DIR / "control"),
        "polling_interval": 0.5,  # Seconds: how long a task waits for an idle worker.
    }
)
CELERY_TASK_DEFAULT_QUEUE = "default"
CELERY_TASK_ROUTES = {
    "analytics.tasks.*": {"queue": "analytics"},
    "analytics.reports.tasks.*": {"queue": "analytics"},
    # It goes before the pattern.
    "analytics.reports.tasks.due_reports": {"queue": "default"},
}
CELERY_TASK_IGNORE_RESULT = True
CELERY_RESULT_EXPIRES = None  # So beat has none to clean up.
CELERY_TIMEZONE = "UTC"
CELERY_BEAT_SCHEDULER = "rtmpweb.schedule:Schedule"
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None  # A worker waits for its broker as long as it takes.
# The process that does a worker's tasks is replaced now and then: no leak ever matters.
CELERY_WORKER_MAX_TASKS_PER_CHILD = 200
CELERY_WORKER_MAX_MEMORY_PER_CHILD = 1024 * 1024  # KiB, of the Python process: Java's is bounded by its heap.

# Signs of life ------------------------------------------------------------
# In seconds. They are no operator's to set, as they hang together: what beats is late when it missed three beats.
PROCESS_BEAT_S = 5.0
"""How often the workers and beat say that they live."""
PROCESS_LATE_S = 16.0
"""One that was not heard of for so long does not run: it may miss two beats, and come a little late."""
STARTING_S = 30.0
HEARING_S = 12.0
"""After a web process's start, and after an outage of the database: so long nobody is called late who was not heard of.
"""
RUN_BEAT_S = 5.0
"""How often a run of the analytics says that it lives."""
RUN_LOST_S = 30.0
"""A running run that was not heard of for so long has lost its process."""
RUN_RESENT_S = 60.0
"""A request for a run that no worker took in this time is sent again."""

# Recordings ------------------------------------------------------------
RECORDINGS_DIR = env.path("RTMPWEB_RECORDINGS", DATA_DIR / "recordings")
RECORD_ROTATE_S = env.integer("RTMPWEB_RECORD_ROTATE_S", 3600, 0, 7 * 86_400)
RECORD_ROTATE_MIB = env.integer("RTMPWEB_RECORD_ROTATE_MIB", 0, 0, 1_048_576)
RECORDINGS_MIN_FREE_MIB = env.integer("RTMPWEB_RECORDINGS_MIN_FREE_MIB", 1024, 0, 1_048_576)
RECORDINGS_DAYS = env.integer("RTMPWEB_RECORDINGS_DAYS", 0, 0, 36_500)
RECORDINGS_GIB = env.integer("RTMPWEB_RECORDINGS_GIB", 0, 0, 1_048_576)

# Analytics ------------------------------------------------------------
LAKE_DIR = env.path("RTMPWEB_LAKE", DATA_DIR / "lake")
KEEP_SAMPLES_DAYS = env.integer("RTMPWEB_KEEP_SAMPLES_DAYS", 30, 0, 36_500)
KEEP_MINUTES_DAYS = env.integer("RTMPWEB_KEEP_MINUTES_DAYS", 90, 0, 36_500)
KEEP_HOURS_DAYS = env.integer("RTMPWEB_KEEP_HOURS_DAYS", 400, 0, 36_500)
HOURS_IN_DATABASE = env.some("RTMPWEB_HOURS_IN_DATABASE", ("stream", "key", "app", "encoder", "node", "broadcast"))
"""Dimensions whose hours are loaded into the database; those of the others are in the lake alone."""
KEEP_DAYS_DAYS = env.integer("RTMPWEB_KEEP_DAYS_DAYS", 0, 0, 36_500)
KEEP_REPORTS_DAYS = env.integer("RTMPWEB_KEEP_REPORTS_DAYS", 400, 0, 36_500)
SPARK_MASTER = env.spark("SPARK_MASTER", *env.MASTER)
SPARK_REMOTE = env.spark("SPARK_REMOTE", *env.REMOTE)
SPARK_MEMORY = env.memory("RTMPWEB_SPARK_MEMORY", "1g", 512)
"""The heap of Spark's driver, and of each executor; Spark itself refuses less than 450 MiB."""

# Time, static files ------------------------------------------------------------
TIME_ZONE = "UTC"
USE_I18N = False
FORMAT_MODULE_PATH = ["rtmpweb.formats"]
STATIC_URL = "static/"
STATIC_ROOT = DATA_DIR / "static"
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "whitenoise.storage.CompressedStaticFilesStorage"},
}
WHITENOISE_USE_FINDERS = True
WHITENOISE_ALLOW_ALL_ORIGINS = False
with suppress(OSError):  # Of a data folder that can't be written to, those tell that write there.
    STATIC_ROOT.mkdir(data_folder.FOLDER, exist_ok=True)  # WhiteNoise warns when it is missing.

# Security ------------------------------------------------------------
BEHIND_TLS = env.flag("RTMPWEB_BEHIND_TLS")
SESSION_COOKIE_SECURE = BEHIND_TLS
CSRF_COOKIE_SECURE = BEHIND_TLS
CSRF_COOKIE_HTTPONLY = True  # Scripts of pages take the token from a form.
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if BEHIND_TLS else None
SECURE_SSL_REDIRECT = BEHIND_TLS
SECURE_REDIRECT_EXEMPT = [r"^healthz$"]  # Asked by the container's own health check, past the proxy.
SECURE_HSTS_SECONDS = 365 * 24 * 3600 if BEHIND_TLS else 0
SILENCED_SYSTEM_CHECKS = [
    # Whether other hosts of the domain speak TLS is not known here: HSTS is for this host alone.
    "security.W005",
    "security.W021",
]
if not BEHIND_TLS:
    # Plain HTTP: right on a loopback address; on any other rtmpweb.W006 says so, and which one setting changes these.
    SILENCED_SYSTEM_CHECKS += ["security.W004", "security.W008", "security.W012", "security.W016"]
DEFAULT_EXCEPTION_REPORTER = "rtmpweb.debugging.Reporter"
DEFAULT_EXCEPTION_REPORTER_FILTER = "rtmpweb.debugging.Filter"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator"},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [SELF],
        "img-src": [SELF, "data:", "blob:"],
        "connect-src": [SELF],
        "object-src": [NONE],
        "base-uri": [SELF],
        "frame-ancestors": [NONE],
        "form-action": [SELF],
    }
}

# Logging ------------------------------------------------------------
LOG_FORMAT = env.choice("RTMPWEB_LOG_FORMAT", "text", logs.FORMATS)
LOG_LEVEL = env.choice("RTMPWEB_LOG_LEVEL", "INFO", logs.LEVELS)
ACCESS_LOG = env.flag("RTMPWEB_ACCESS_LOG")
LOGGING = logs.configuration(
    form=LOG_FORMAT, level=LOG_LEVEL, node=NODE_NAME or socket.gethostname(), access=ACCESS_LOG
)
