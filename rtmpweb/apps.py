from django.apps import AppConfig


class RtmpwebConfig(AppConfig):
    name = "rtmpweb"

    def ready(self) -> None:
        from rtmpweb import checks  # noqa: F401 - registers them.
