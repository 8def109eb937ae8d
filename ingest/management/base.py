"""What the commands share: their verbs and the two forms of an answer, parsing of paths and times, the question
before a deletion, and how a command in the foreground tells an operator how it goes."""

import asyncio
import json
import os
import re
import signal
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, OutputWrapper
from django.db.models import Model
from django.utils import timezone
from django.utils.dateparse import parse_date, parse_datetime

from ingest import command_line
from ingest.models import Application, Recording, Stream
from ingest.models.names import validate_stream_name
from ingest.services import actions as services_actions
from ingest.services import audit, removal
from ingest.services.audit import Actor
from ingest.services.removal import InTheWay, Removal

if TYPE_CHECKING:
    from ingest.server import RtmpServer

UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def duration(text: str) -> timedelta:
    """'90s', '30m', '24h', '30d', '2w'; '0' is none."""
    match = re.fullmatch(r"(\d{1,6})([smhdw])", text)
    if match is None and text != "0":
        raise CommandError(f"{text!r} is no duration: give a number and a unit, such as 30m, 24h or 30d.")
    return timedelta(**{UNITS[match[2]]: int(match[1])}) if match else timedelta(0)


def moment(text: str) -> datetime:
    """A date or time in ISO 8601 (UTC where it says no zone), or how long from now, such as 30d."""
    if re.fullmatch(r"\d+[smhdw]", text):
        try:
            return timezone.now() + duration(text)
        except OverflowError:
            raise CommandError(f"{text!r} from now is past the year 9999.") from None
    try:
        at = parse_datetime(text)
        day = None if at else parse_date(text)
    except ValueError:
        at = day = None
    if at is None and day is not None:
        at = datetime(day.year, day.month, day.day, tzinfo=UTC)
    if at is None:
        raise CommandError(f"{text!r} is no time: give one such as 2030-01-31T12:00, or how long, such as 30d.")
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def split_path(path: str) -> tuple[str, str]:
    app, slash, name = path.partition("/")
    if not app or not slash or not name:
        raise CommandError(f"{path!r} is no stream: give APP/NAME, such as live/cam1.")
    return app, name


def application_of(name: str) -> Application:
    application = Application.objects.filter(name=name).first()
    if application is None:
        raise CommandError(
            f"There is no application {name!r}. Make it with: {command_line.here('application set', name)}"
        )
    return application


def stream_of(path: str, *, make: Actor | None = None) -> Stream:
    """The stream APP/NAME; with `make`, who makes one that isn't there yet in its application."""
    app, name = split_path(path)
    application = application_of(app)
    stream = Stream.objects.select_related("application").filter(application=application, name=name).first()
    if stream is not None:
        return stream
    if make is None:
        raise CommandError(f"There is no stream {path!r}.")
    try:
        validate_stream_name(name)
        return services_actions.make_stream(make, application, name)
    except ValidationError as error:
        raise CommandError(f"{name!r} can't be a stream's name. {' '.join(error.messages)}") from None


def recording_of(pk: int) -> Recording:
    recording = Recording.objects.select_related("application", "stream").filter(pk=pk).first()
    if recording is None:
        raise CommandError(f"There is no recording {pk}. See: {command_line.here('recording list')}")
    return recording


def iso(when: datetime | None) -> str | None:
    """ISO 8601 in UTC."""
    return None if when is None else when.astimezone(UTC).isoformat().replace("+00:00", "Z")


def values(row: Model, *names: str) -> dict[str, Any]:
    """A row's columns as scripts have them."""
    found = {name: getattr(row, name) for name in names}
    return {name: iso(value) if isinstance(value, datetime) else value for name, value in found.items()}


def put_json(out: OutputWrapper, value: Any) -> None:
    """One line, as scripts read it."""
    out.write(json.dumps(value))


class Argument:
    """As `ArgumentParser.add_argument` has it."""

    def __init__(self, *names: str, **options: Any) -> None:
        self.names, self.options = names, options

    @property
    def dest(self) -> str:
        dest: str = self.options.get("dest") or self.names[0].lstrip("-").replace("-", "_")
        return dest


@dataclass(frozen=True, slots=True)
class Answer:
    """What a verb comes to: `value` for scripts, `lines` for people; with a `problem` the command fails after both."""

    value: Any
    lines: Iterable[str]
    problem: str = ""


class Verb:
    """Makes a method one of its command's verbs, under its name: it gets the verb's arguments by name."""

    def __init__(self, help: str, *arguments: Argument) -> None:  # noqa: A002 - argparse's word.
        self.help, self.arguments = help, arguments

    def __call__(self, method: Callable[..., Answer]) -> "Verb":
        self.name, self.run = method.__name__.strip("_").replace("_", "-"), method
        return self


JSON = Argument("--json", action="store_true", help="print JSON")

DELETION = (
    Argument("--force", action="store_true", help="even while it is live: sessions are ended first"),
    Argument("--yes", action="store_true", help="don't ask for confirmation"),
    JSON,
)


class VerbCommand(BaseCommand):
    """A command of verbs, in the order in which they stand in the class, about rows of one kind."""

    errors: ClassVar[tuple[type[Exception], ...]] = ()
    """Whose message is for the operator."""

    def _verbs(self) -> dict[str, Verb]:
        return {verb.name: verb for verb in vars(type(self)).values() if isinstance(verb, Verb)}

    def add_arguments(self, parser: ArgumentParser) -> None:
        found = self._verbs()
        parsers = parser.add_subparsers(dest="act", required=True, metavar="|".join(found))
        for verb in found.values():
            added = parsers.add_parser(verb.name, help=verb.help)
            for argument in dict.fromkeys((*verb.arguments, JSON)):
                added.add_argument(*argument.names, **argument.options)

    def handle(self, *args: Any, **options: Any) -> None:
        verb = self._verbs()[options["act"]]
        try:
            answer = verb.run(self, **{argument.dest: options[argument.dest] for argument in verb.arguments})
        except ValidationError as error:
            raise CommandError(" ".join(error.messages)) from None
        except self.errors as error:
            raise CommandError(str(error)) from None
        self.put(answer, json=options["json"])
        if answer.problem:
            raise CommandError(answer.problem)

    def put(self, answer: Answer, *, json: bool) -> None:
        if json:
            put_json(self.stdout, answer.value)
            return
        for line in answer.lines:
            self.stdout.write(line)

    def row(self, found: Any) -> dict[str, Any]:
        """For scripts."""
        raise NotImplementedError

    def line(self, row: dict[str, Any]) -> str:
        """For people."""
        raise NotImplementedError

    def of_one(self, found: Any, done: str = "") -> Answer:
        """`done`: what was done to it, in a word."""
        row = self.row(found)
        return Answer(row, [f"{done} {self.line(row)}".lstrip()])

    def listing(self, found: Iterable[Any], *, empty: str = "") -> Answer:
        """`empty`: what people read where there is none."""
        rows = [self.row(each) for each in found]
        return Answer({"items": rows, "count": len(rows)}, map(self.line, rows) if rows or not empty else [empty])

    def show(self, found: Application | Stream, plan: Removal) -> Answer:
        """With what would go with it."""
        row = self.row(found)
        return Answer({**row, "deletion": plan.as_dict()}, [self.line(row), f"If it is deleted: {plan.summary}"])

    def set_enabled(self, found: Application | Stream, enabled: bool) -> Answer:
        services_actions.set_enabled(self.actor, found, enabled)
        return self.of_one(found, "Changed")

    @property
    def actor(self) -> Actor:
        return audit.command(type(self).__module__.rpartition(".")[2])

    def delete(
        self, path: str, plan: Removal, how: Callable[[], Removal], *, force: bool, yes: bool, json: bool
    ) -> Answer:
        """What goes with it is said, and asked for; what the deletion did. Raises CommandError."""
        try:
            removal.refuse_live(path, plan, force)
            self._confirm(path, plan, yes=yes, json=json)
            done = how()
        except InTheWay as problem:
            raise CommandError(str(problem)) from None
        return Answer({"deleted": path, **done.as_dict()}, [f"Deleted {path}."])

    def _confirm(self, path: str, plan: Removal, *, yes: bool, json: bool) -> None:
        if json:
            if not yes:
                raise CommandError("With --json nothing is asked: give --yes as well. `show` says what goes with it.")
            return
        self.stdout.write(f"{path}: {plan.summary}")
        if yes:
            return
        if not sys.stdin.isatty():
            raise CommandError("Nothing is deleted: there is no terminal to ask. Give --yes.")
        self.stdout.write(f"Type {path} to delete it: ", ending="")
        self.stdout.flush()
        if sys.stdin.readline().strip() != path:
            raise CommandError("Nothing is deleted.")


class ForegroundCommand(BaseCommand):
    def write_line(self, line: str) -> None:
        """Streams go on, and a stop is in order, though whoever read the output is gone."""
        try:
            self.stdout.write(line)
            self.stdout.flush()
        except OSError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.stdout.fileno())
            os.close(nowhere)


END_DRAIN = signal.SIGUSR1
"""To a worker: what is live is to end now."""


class StopSignals:
    """SIGINT and SIGTERM, in the running loop: until it runs, uvloop drops a signal that has a handler. The first stops
    the process, the next ends its drain if there is one, and one more ends it at once. A worker heeds the first, and
    ends its drain by END_DRAIN: who keeps it knows what an operator wants, and systemd may signal all processes.
    """

    def __init__(
        self,
        write_line: Callable[[str], None],
        stop: Callable[[], None],
        kill: Callable[[], None] = lambda: None,
        *,
        is_worker: bool = False,
    ) -> None:
        """`kill` ends what would outlive the process."""
        self._write_line, self._stop, self._kill = write_line, stop, kill
        self._is_worker = is_worker
        self._is_stopping = False
        self._draining: asyncio.Task[Any] | None = None
        self._may_drain = True
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._on_signal)
        if is_worker:
            loop.add_signal_handler(END_DRAIN, self._end_drain)

    async def drain(self, server: "RtmpServer") -> None:
        """Waits for what is live, RTMPWEB_DRAIN_S at most."""
        if settings.DRAIN_S and server.sessions and self._may_drain:
            self._write_line(f"Draining for {settings.DRAIN_S} s at most; once more to stop now.")
            await self.until_next(server.leave(settings.DRAIN_S))

    async def until_next(self, work: Coroutine[Any, Any, Any]) -> None:
        """Returns when the work is done; a further signal cancels it."""
        self._draining = asyncio.create_task(work)
        await asyncio.wait([self._draining])

    def _on_signal(self) -> None:
        if not self._is_stopping:
            self._is_stopping = True
            self._stop()
        elif self._is_worker:
            return
        elif self._draining is not None and not self._draining.done():
            self._draining.cancel()
        else:
            self._write_line("Stopped at once.")
            self._kill()
            os._exit(1)

    def _end_drain(self) -> None:
        self._may_drain = False
        if self._draining is not None:
            self._draining.cancel()
