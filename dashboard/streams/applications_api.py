"""/applications: who may publish, play and record in each; enabled, or deleted."""

from django.http import HttpRequest
from django.shortcuts import get_object_or_404
from ninja import Field, Query, Router, Schema, Status

from dashboard.access import actor_of
from dashboard.api_base import ListOf, Paging, Problem, allow, listed
from dashboard.streams.api import DeletionOut, HowToDelete
from ingest.models import Application
from ingest.services import actions as service_actions
from ingest.services import removal
from ingest.services.roles import Ability

router = Router(tags=["applications"])

ONE = "/applications/{app}"


class ApplicationOut(Schema):
    name: str
    enabled: bool = Field(description="Else nobody publishes or plays in it.")
    publish: str = Field(alias="publish_policy", description="key: with a stream key. open: anyone.")
    play: str = Field(alias="play_policy", description="public: anyone. token: with a play token. none: nobody.")
    record: str = Field(description="none, requested: what publishers ask for, or all.")
    encoder_login: bool = Field(description="Encoders are asked for a user and password.")
    shared_objects: str = Field(description="none, temporary, or persistent.")
    callback: str = Field(description="About whom the authorisation service is asked.")
    play_recordings: str = Field(
        description="signed: by a signed link or token. as_live: whoever may play what is live."
    )
    play_start_unit: str = Field(description="ms or s: the unit of the start and duration that players give.")
    max_instances: int = Field(description="Of namespaces of its streams, rtmp://host/NAME/INSTANCE; 0: none.")


@router.get("/applications", response=ListOf[ApplicationOut])
def applications(request: HttpRequest, paging: Query[Paging]) -> dict[str, object]:
    """The last made comes first."""
    return listed(Application.objects.order_by("-created_at", "-pk"), paging)


@router.get(ONE, response=ApplicationOut)
def application(request: HttpRequest, app: str) -> Application:
    """One application."""
    return get_object_or_404(Application, name=app)


class EnabledIn(Schema):
    enabled: bool


@router.patch(ONE, response=ApplicationOut, auth=allow(Ability.MANAGE_STREAMS))
def change_application(request: HttpRequest, app: str, body: EnabledIn) -> Application:
    """Disable or enable it. Who publishes or plays in one that is disabled is ended within two seconds."""
    row = get_object_or_404(Application, name=app)
    service_actions.set_enabled(actor_of(request), row, body.enabled)
    return row


@router.delete(ONE, response={200: DeletionOut, 204: None, 409: Problem}, auth=allow(Ability.MANAGE_STREAMS))
def delete_application(request: HttpRequest, app: str, how: Query[HowToDelete]) -> Status[DeletionOut | None]:
    """Delete it with its streams and all that is set up for them, its recordings with their files, and its shared
    objects. History stays. 409 while one of its streams is live, unless it is forced.
    """
    row = get_object_or_404(Application, name=app)
    if how.dry_run:
        return Status(200, DeletionOut(**removal.of_applications(Application.objects.filter(pk=row.pk)).as_dict()))
    removal.delete_application(actor_of(request), row, force=how.force)
    return Status(204, None)
