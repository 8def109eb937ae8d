"""`manage.py pepper`: goes on after the pepper was lost, under which stream keys and tokens are kept."""

from ingest import command_line
from ingest.management.base import Answer, Verb, VerbCommand
from ingest.services import installation


class Command(VerbCommand):
    help = (
        "Where RTMPWEB_KEY_PEPPER, or its file in the data folder, is another than it was, no process starts: each "
        "stream key and API token would be void. `accept` says that the former one is gone for good."
    )

    @Verb("go on with the present one: what was made under another is void")
    def _accept(self) -> Answer:
        void = installation.accept_pepper(self.actor)
        if not void:
            return Answer({"void": void}, ["Nothing is void: the pepper is the installation's."])
        line = (
            f"Void are {installation.in_words(void)}. Make new ones: {command_line.here('streamkey rotate')}, apitoken "
            "create. Receivers of webhooks need their new secrets."
        )
        return Answer({"void": void}, [line])
