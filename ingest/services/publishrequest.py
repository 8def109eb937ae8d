"""What a publisher asks for, and by which connection."""

from dataclasses import dataclass, replace

from ingest.server.credentials import looks_like_key
from ingest.services import instances


@dataclass(frozen=True, slots=True)
class Peer:
    """The connection that asks."""

    address: str
    encoder: str
    node: str
    channel: str


@dataclass(frozen=True, slots=True)
class PublishRequest:
    """As in contracts.PublishEvent: `name` is public or masked; the credential is a key, or a stream's name where the
    application is open or the connection has logged in."""

    app: str
    name: str
    credential: str
    credential_is_name: bool
    publish_type: str = "live"
    login: int | None = None
    """By which the connection has logged in."""
    instance: str = ""
    """Of the application; names are those within it, in which all streams are that can be published then."""

    @property
    def in_its_instance(self) -> "PublishRequest":
        """INSTANCE/NAME, asked for in the application, is NAME in the instance, so that a key in the name's place is
        seen."""
        instance, _, credential = self.credential.rpartition("/")
        if self.instance or not (self.credential_is_name and instance and credential):
            return self
        return replace(self, instance=instance, credential=credential)

    @property
    def may_be_a_name(self) -> bool:
        """Whether the credential may be a stream's public name."""
        return self.credential_is_name and not looks_like_key(self.credential)

    @property
    def asked(self) -> str:
        """The whole public name that is asked for; "": the credential may be one, or says which it is."""
        return "" if self.credential_is_name else instances.full_name(self.instance, self.name)

    @property
    def as_name(self) -> str:
        """The credential as a whole public name."""
        return instances.full_name(self.instance, self.credential)
