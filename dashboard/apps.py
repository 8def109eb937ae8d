from django.apps import AppConfig


class DashboardConfig(AppConfig):
    name = "dashboard"

    def ready(self) -> None:
        from dashboard.models import ApiToken
        from ingest.models import Webhook
        from ingest.services import installation

        installation.KEPT += [ApiToken, Webhook]
