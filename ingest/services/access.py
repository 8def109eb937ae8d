"""What connections name when they ask to be let in, read for several of them at once."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Self

from ingest import clean
from ingest.models import Application, Stream, StreamKey
from ingest.services import keys


@dataclass(frozen=True, slots=True)
class Access:
    """Applications by name, keys by digest, streams by application and name: one statement for each kind."""

    applications: Mapping[str, Application]
    keys: Mapping[str, StreamKey]
    streams: Mapping[tuple[int, str], Stream]

    @classmethod
    def read(cls, *, applications: Iterable[str], secrets: Iterable[str] = (), names: Iterable[str] = ()) -> Self:
        """`secrets` and `names`: what may be a key, and what a stream's whole public name."""
        digests = {keys.digest(secret) for secret in secrets if secret}
        found = StreamKey.objects.select_related("stream__application").filter(digest__in=digests) if digests else ()
        by_digest = {key.digest: key for key in found}
        by_name = {key.stream.application.name: key.stream.application for key in by_digest.values()}
        if wanted := {name for name in applications if clean.fits(name)} - by_name.keys():
            by_name |= {row.name: row for row in Application.objects.filter(name__in=wanted).order_by()}
        public = {name for name in names if clean.fits(name)}
        streams = Stream.objects.filter(name__in=public).order_by() if public else ()
        return cls(by_name, by_digest, {(row.application_id, row.name): row for row in streams})

    def application(self, name: str) -> Application | None:
        return self.applications.get(name)

    def key(self, secret: str) -> StreamKey | None:
        """The key that has the secret, whatever its state, with its stream and application."""
        return self.keys.get(keys.digest(secret)) if secret else None

    def stream(self, application: Application, name: str) -> Stream | None:
        return self.streams.get((application.pk, name))
