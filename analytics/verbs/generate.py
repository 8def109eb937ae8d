"""`manage.py analytics generate`: telemetry that is made up, for trying things out and measuring them."""

from argparse import ArgumentParser
from datetime import datetime
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError

from analytics.verbs.arguments import moment
from analytics.verbs.verb import Say
from ingest.services import audit

HELP = "fill a lake with made-up telemetry: realistic days of as many streams as you like, the same for a seed"


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--streams", type=int, required=True, help="how many there are")
    parser.add_argument("--from", dest="since", type=moment, required=True, metavar="TIME", help="the first hour (UTC)")
    parser.add_argument("--hours", type=int, required=True, help="how many are made")
    parser.add_argument("--seed", type=int, help="another one makes other days")
    parser.add_argument("--lake", type=Path, metavar="PATH", help="its folder (RTMPWEB_LAKE)")
    parser.add_argument("--into-existing", action="store_true", help="even if nodes have written to the lake")
    parser.add_argument(
        "--files-per-hour", type=int, default=60, metavar="N", help="of each node, a divisor of 60 (60, as nodes do)"
    )
    world = parser.add_argument_group("what the days are like")
    world.add_argument("--nodes", type=int, help="that the streams are published to")
    world.add_argument("--always-on", type=float, metavar="SHARE", help="streams on air day and night, 0 to 1")
    world.add_argument("--bad", type=float, metavar="SHARE", help="streams with a bad uplink, 0 to 1")
    world.add_argument("--players", type=float, metavar="N", help="of a stream on air, in the mean")
    world.add_argument("--twice", type=float, metavar="SHARE", help="files whose rows come twice, 0 to 1")


def perform(options: dict[str, Any], say: Say) -> None:
    from analytics import synthetic  # numpy is loaded only where it is used.

    lake: Path = options["lake"] or settings.LAKE_DIR
    if not options["into_existing"] and synthetic.holds_other_data(lake):
        raise CommandError(
            f"{lake} holds what nodes have measured, and made-up figures would be mixed into its history. "
            "Name another folder (--lake), or add --into-existing if that is what you want."
        )

    def told(hour: datetime, samples: int) -> None:
        say(f"{hour:%Y-%m-%d %H:%M} UTC: {samples:,} samples")

    given = {name: options[name] for name in ("nodes", "always_on", "bad", "players", "twice")}
    try:
        made = synthetic.generate(
            lake,
            streams=options["streams"],
            start=options["since"],
            hours=options["hours"],
            seed=synthetic.SEED if options["seed"] is None else options["seed"],
            files_per_hour=options["files_per_hour"],
            world=synthetic.World(**{name: value for name, value in given.items() if value is not None}),
            told=told,
        )
    except (ValueError, OSError) as error:
        raise CommandError(str(error)) from None
    if lake == settings.LAKE_DIR:
        audit.record(audit.command("analytics"), "analytics.generate", str(lake), samples=made.samples)
    say(f"Made {made.samples:,} samples and {made.events:,} events of {made.sessions:,} publishing sessions in {lake}.")
