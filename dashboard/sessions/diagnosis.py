"""The first questions about a session, in the order to ask them, each with its answer."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import urlencode

from django.db.models import Q, Sum
from django.urls import reverse
from django.utils import timezone

from dashboard import zones
from dashboard.sessions.advice import KeyState, NodeState, Return, Situation, advise, cause_rank, setting_of
from dashboard.streams import measurements
from dashboard.streams.measurements import LastMinute, summarize_last_minute
from dashboard.streams.queries import Now
from dashboard.templatetags.ui import chip_for, end_words, health_of, lasted, reason_words
from ingest.contracts import SERVER_ENDS, Issue, NodeFigures, StreamSnapshot, end_of
from ingest.models import Attempt, Node, Session
from ingest.services import database

Style = str
"""A class of colours: "good", "warn", "bad", "none" or "info"."""

SAME_TIME = timedelta(seconds=30)
NODE_SILENT = timedelta(seconds=15)
"""A node that was last seen before that is down, whatever its row says."""

ISSUES_NAMED = 3


@dataclass(frozen=True, slots=True)
class Finding:
    question: str
    style: Style
    text: str
    detail: str
    link: str = ""
    link_text: str = ""


KEY_WORDS: dict[KeyState, tuple[Style, str, str]] = {
    "fine": ("good", "None of these", "{key} is enabled, {expires}, and {under}."),
    "revoked": ("bad", "It is revoked", "{key} was revoked {revoked}."),
    "disabled": ("bad", "It is disabled", "{key} is disabled."),
    "expired": ("bad", "It has expired", "{key} expired {expired}."),
    "over_limit": ("warn", "Over its limit", "In its last minute the encoder sent {sent:,.0f} kbit/s, over {limit}."),
}
"""By the key's state: look, in few words, in a sentence."""


class Diagnosis:
    """Asks database, nodes and lake once; `findings` puts it into words."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.at = timezone.now()
        self._now = Now.read()
        self._snapshot = self._now.by_id.get(session.stream_id or 0)
        others = Session.objects.filter(app=session.app, name=session.name, kind=Session.Kind.PUBLISH)
        others = others.exclude(pk=session.pk).order_by("started_at")
        self.before = others.filter(started_at__lt=session.started_at).last()
        self.after = others.filter(started_at__gte=session.started_at).first()
        self._open = others.filter(ended_at__isnull=True).last()
        claimed = session.summary.get("metadata", {})
        nominal = claimed.get("framerate") if isinstance(claimed, dict) else None
        self.last: LastMinute = summarize_last_minute(
            measurements.last_minute(session),
            target_kbps=measurements.target_kbps(session),
            nominal_fps=nominal if isinstance(nominal, int | float) and nominal > 0 else None,
        )
        self._refused = self._attempts_since()
        self.key_state = self._key_state()
        self.node_state = self._node_state()
        self.back = self._back()

    def findings(self, *, may_set: bool = False) -> list[Finding]:
        """`may_set`: with links to settings, for who may change them."""
        situation = Situation(
            reason=self.session.end_reason,
            seen=self.last.seen,
            key=self.key_state,
            node=self.node_state,
            back=self.back,
            refused=self._refused[1],
            issue=next(iter(self._issues), None),
        )
        advice = advise(situation)
        setting = self._setting(situation) if may_set else ()
        return [
            self._is_it_back(),
            self._why(),
            self._key_or_node(),
            self._key(),
            self._attempts(),
            Finding("What to do now", "info", advice.action, advice.why, *setting),
        ]

    def _setting(self, situation: Situation) -> tuple[str, str] | tuple[()]:
        """What is set of what the advice speaks of: a link and its words."""
        stream, key = self.session.stream, self.session.key_id
        if situation.issue is not None and situation.back == "on" and stream is not None:
            return setting_of(situation.issue["check"], stream.path)
        if key is not None and situation.key in ("revoked", "disabled", "expired", "over_limit"):
            return reverse("dashboard:key", args=[key]), "Open its key"
        return ()

    # --- What is known ---

    @property
    def live(self) -> StreamSnapshot | None:
        """What its node says of the stream, while this session publishes it."""
        snapshot = self._snapshot
        return snapshot if snapshot and snapshot["session_id"] == str(self.session.pk) else None

    @property
    def _issues(self) -> list[Issue]:
        """The worst first; of several as bad, the one that the others follow from."""
        issues = self.live["issues"] if self.live else []
        return sorted(issues, key=lambda issue: (issue["level"], cause_rank(issue["check"]), issue["since"]))

    def _back(self) -> Return:
        if self.session.ended_at is None:
            return "on"
        if self._open is None:
            return "off" if self.after is None else "again_off"
        health = self._snapshot["health"] if self._snapshot else "none"
        return health if health in ("warning", "bad") else "good"

    def _key_state(self) -> KeyState:
        key = self.session.key
        if key is None:
            return "none"
        if key.revoked_at is not None:
            return "revoked"
        if not key.enabled:
            return "disabled"
        if (key.expires_at and key.expires_at <= self.at) or (key.grace_until and key.grace_until <= self.at):
            return "expired"
        if key.max_kbps and (self.last.wire_kbps or 0) > key.max_kbps:
            return "over_limit"
        return "fine"

    def _node_state(self) -> NodeState:
        node = self.session.node
        if node is None:
            return "unknown"
        ticks = any(figures["node"] == node.name for figures in self._now.nodes)  # Though it can't write, perhaps.
        if node.state == Node.State.DOWN or (node.seen_at < database.shared_now() - NODE_SILENT and not ticks):
            return "down"
        return "draining" if node.state == Node.State.DRAINING else "up"

    def _attempts_since(self) -> tuple[int, str, Attempt | None]:
        """How many publishes of the stream were refused since its end (of an open one: its begin), and the last."""
        session = self.session
        of_stream = Q(stream=session.stream_id) if session.stream_id else Q(app=session.app, name=session.name)
        of_key = Q(key=session.key_id) if session.key_id else Q(pk__in=[])
        since = session.ended_at or session.started_at
        lately = Q(at__gte=since) | Q(last_at__gte=since)
        rows = Attempt.objects.filter(lately, of_stream | of_key, action=Attempt.Action.PUBLISH)
        last = rows.order_by("-at").first()
        return (rows.aggregate(all=Sum("count"))["all"] or 0, last.reason if last else "", last)

    @property
    def _end_style(self) -> Style:
        """A stream is off air by the server's end, though somebody meant that."""
        reason = self.session.end_reason
        return "none" if end_of(reason).is_expected and reason not in SERVER_ENDS else "bad"

    # --- In words ---

    def _is_it_back(self) -> Finding:
        question, session = "Is it back?", self.session
        stream = reverse("dashboard:stream", args=[session.app, session.name]) if session.stream_id else ""
        if session.ended_at is None:
            _, style, word = chip_for(health_of(self.live) if self.live else "none")
            for_ = f"For {lasted(session.started_at, self.at)}."
            return Finding(question, style, f"It is on air: {word.lower()}", for_, stream, "Open the stream")
        if self._open is not None and self.after is not None:
            bad = {"warning": ", with a warning", "bad": ", but bad"}.get(self.back, "")
            off = lasted(session.ended_at, self.after.started_at)
            detail = f"Off for {off}, then {_same(session, self.after)}."
            text = f"Yes, since {_time(self._open.started_at)}{bad}"
            return Finding(question, chip_for(self.back).classes, text, detail, stream, "Open the stream")
        if self.after is not None and self.after.ended_at is not None:
            link = reverse("dashboard:session", args=[self.after.pk])
            came = _time(self.after.started_at)
            detail = f"It came back at {came} with {_same(session, self.after)}, and ended again."
            return Finding(question, "bad", "No, it came back and ended again", detail, link, "Open the next session")
        text, detail = (
            f"No, off air for {lasted(session.ended_at, self.at)}",
            "No encoder has published the stream since.",
        )
        return Finding(question, self._end_style, text, detail, stream, "Open the stream")

    def _why(self) -> Finding:
        session = self.session
        if session.ended_at is None:
            question, issues = "What is wrong?", self._issues
            if not issues:
                return Finding(question, "good", "Nothing: all checks are good", self.last.sentence)
            text = f"{len(issues)} open issue{'s' if len(issues) != 1 else ''}"
            named = " ".join(f"{issue['title'].rstrip('.')}." for issue in issues[:ISSUES_NAMED])
            return Finding(question, chip_for(issues[0]["level"]).classes, text, f"{named} {self.last.sentence}")
        cause = session.end_description.strip()
        cause = f"{cause.rstrip('.')}. " if cause else ""
        return Finding("Why did it end?", self._end_style, end_words(session.end_reason), cause + self.last.sentence)

    def _key_or_node(self) -> Finding:
        question, session = "One key or the whole node?", self.session
        if session.node is None:
            return Finding(question, "none", "Not known", "The node is no longer in the database.")
        name = session.node.name
        at = session.ended_at or self.at
        same = Session.objects.filter(node=session.node, kind=Session.Kind.PUBLISH).exclude(pk=session.pk)
        fell = same.filter(ended_at__range=(at - SAME_TIME, at + SAME_TIME)).count() if session.ended_at else 0
        unaffected = same.filter(Q(ended_at__isnull=True) | Q(ended_at__gt=at + SAME_TIME), started_at__lte=at).count()
        figures = next((node for node in self._now.nodes if node["node"] == name), None)
        state = {"up": _load(figures), "draining": "It is draining.", "down": "It is down now.", "unknown": ""}
        now = state[self.node_state]
        if self.node_state == "down":
            seen = f"{name} was last seen at {_time(session.node.seen_at)}."
            return Finding(question, "bad", "The node is down", f"{seen} {_count(fell)} ended within 30 s of it.")
        running = f"{_count(unaffected)} on {name} kept running" if unaffected else f"No other encoder was on {name}"
        if fell:
            text = "Several at once" if unaffected else "All of the node"
            detail = f"{_count(fell)} on {name} ended within 30 s of it. {running}. {now}"
            return Finding(question, "warn" if unaffected else "bad", text, detail)
        text = "Only this one" if session.ended_at else "Only this one is shown"
        return Finding(question, "good", "Only this key" if session.key else text, f"{running}. {now}")

    def _key(self) -> Finding:
        question, key = "Key disabled, expired or over its limit?", self.session.key
        if key is None:
            login = self.session.login
            detail = f"It used the encoder log-in {login}." if login else "It published without a key."
            return Finding(question, "none", "No key", detail)
        limit = f"its {key.max_kbps or 0:,} kbit/s"
        style, text, detail = KEY_WORDS[self.key_state]
        words = detail.format(
            key=key,
            expires=f"expires {_moment(key.expires_at)}" if key.expires_at else "has no expiry",
            under=f"stayed under {limit}" if key.max_kbps else "has no limit",
            revoked=_moment(key.revoked_at),
            expired=_moment(key.expires_at or key.grace_until),
            sent=self.last.wire_kbps or 0,
            limit=limit,
        )
        return Finding(question, style, text, words)

    def _attempts(self) -> Finding:
        question, session = "Refused connections since?", self.session
        count, reason, last = self._refused
        if last is None:
            detail = f"No encoder was refused since its {'end' if session.ended_at else 'start'}."
            if self.after is not None and session.ended_at:
                detail = f"The next one, at {_time(self.after.started_at)}, was accepted."
            return Finding(question, "good", "None", detail)
        words, latest = reason_words(reason), last.last_at or last.at
        query = urlencode({"app": session.app, "name": session.name, "action": "publish"})
        link = f"{reverse('dashboard:attempts')}?{query}"
        detail = f"The last at {_time(latest)} from {last.address}: {last.description or words}"
        return Finding(question, "warn", f"{count:,}: {words}", detail, link, "Show all")


def _same(one: Session, other: Session) -> str:
    key = "the same key" if one.key_id and one.key_id == other.key_id else "another key" if other.key_id else ""
    address = "the same address" if one.address == other.address else f"another address, {other.address}"
    return f"{key} and {address}" if key else address


def _load(figures: NodeFigures | None) -> str:
    if figures is None:
        return "It is up."
    cpu, disk = figures["cpu_percent"], figures["disk_free_percent"]
    load = [f"CPU {cpu:.0f} %" if cpu is not None else "", f"disk {disk:.0f} % free" if disk is not None else ""]
    return f"It is up; {', '.join(filter(None, load))}." if any(load) else "It is up."


def _count(publishers: int) -> str:
    return f"{publishers:,} other encoder{'s' if publishers != 1 else ''}" if publishers else "No other encoder"


def _time(at: datetime) -> str:
    return zones.clock(at, "" if abs(timezone.now() - at) < timedelta(hours=20) else "%-d %b", is_named=False)


def _moment(at: datetime | None) -> str:
    return f"on {zones.clock(at, '%-d %b %Y', '%H:%M', is_named=False)}" if at else "at a time that is not known"
