"""Django's admin with this project's site."""

from django.contrib.admin.apps import AdminConfig


class AuditedAdminConfig(AdminConfig):
    default_site = "ingest.auditedadmin.AuditedSite"
