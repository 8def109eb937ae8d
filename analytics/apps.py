from django.apps import AppConfig


class AnalyticsConfig(AppConfig):
    name = "analytics"

    def ready(self) -> None:
        from analytics.reports import schedule  # noqa: F401 - it keeps beat's schedule with the plans.
