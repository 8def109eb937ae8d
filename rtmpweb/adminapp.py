"""Django's admin with this project's site.

What it shows is loaded with the pages (rtmpweb.urls) and by its check. Nodes, workers and the schedule, which have
neither, do without.
"""

from typing import Any

from django.contrib import admin
from django.contrib.admin.apps import SimpleAdminConfig
from django.contrib.admin.checks import check_admin_app, check_dependencies
from django.core.checks import CheckMessage, Tags, register


class AuditedAdminConfig(SimpleAdminConfig):
    default_site = "ingest.auditedadmin.AuditedSite"

    def ready(self) -> None:
        register(check_dependencies, Tags.admin)
        register(_check, Tags.admin)


def _check(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    admin.autodiscover()
    return check_admin_app(app_configs, **kwargs)
