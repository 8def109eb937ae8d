// One stream's card on the wall. It keeps the last 60 s of its stream, and touches only what has changed.

import { csrfToken } from "./actions.js";
import { element, icon, pageData, setAttribute, setText } from "./dom.js";
import { mediaWords } from "./events.js";
import { count, duration, number, timeWithUtc, unit } from "./format.js";
import { acknowledges, health, healthOf } from "./health.js";
import { SPAN_S, Sparkline } from "./sparkline.js";

const MAX_SENTENCES = 2;
const BAD_WEIGHT = 1000; // More warnings than that no stream has.
const SAME_S = 0.5; // Two texts of one tick: a snapshot and an update.
const MEAN_OF = 5; // Snapshots carry means of 5 s.
const STARVING_MS = 2000; // From here on the picture's age is shown.
const PICTURE_S = 20; // A stream that is on air for longer would have its first picture, if it could be decoded.
const CLOCKS = { live: "Live for", waiting: "Waiting for", dropped: "Off for" };
const template = document.getElementById("card");
const { checks } = pageData("bootstrap"); // Names by code.

/** A waiting stream: who is there already, and what is missing. */
function waitingWords(stream, now) {
  if (!stream.session_id) return "Players wait for an encoder.";
  const wait = stream.since === null ? "" : ` for ${duration(now - stream.since)}`;
  return `An encoder is accepted, but no media has arrived${wait}.`;
}

export class Card {
  /** `href`: the stream's page; `sessionUrl(id)`: a session's. */
  constructor(stream, href, sessionUrl) {
    this.sessionUrl = sessionUrl;
    this.node = template.content.firstElementChild.cloneNode(true);
    this.article = this.node.firstElementChild;
    this.path = `${stream.app}/${stream.name}`;
    this.search = this.path.toLowerCase();
    this.link = this.node.querySelector("a");
    this.link.href = href;
    this.link.title = this.path;
    setText(this.link.querySelector("small"), `${stream.app}/`);
    setText(this.link.querySelector("span"), stream.name);
    this.article.dataset.stream = this.path;
    this.fields = Object.fromEntries(
      [...this.node.querySelectorAll("[data-field]")].map((field) => [field.dataset.field, field]),
    );
    this.why = this.node.querySelector(".why");
    this.acts = this.node.querySelector(".acts");
    this.trace = this.node.querySelector(".trace");
    this.thumb = this.node.querySelector(".thumb");
    this.picture = this.node.querySelector("img");
    this.picture.addEventListener("error", () => this.unpictured());
    this.picture.addEventListener("load", () => {
      this.picture.hidden = false;
    });
    this.pictureUrl = `${href}thumbnail.webp`;
    this.version = null;
    this.spark = new Sparkline(this.node.querySelector(".spark"));
    this.points = [];
    this.visible = false;
    this.moved = true;
    this.dirty = true;
    this.issues = "";
    this.marks = {};
    this.unattended = 0; // The weight of the issues that nobody takes care of.
    this.audience = stream.players; // As the order takes it: not of each second.
    this.folded = false; // To its name.
    this.stream = stream;
  }

  /** What nodes say of the stream, and what operators said of it; `now` is the server's time. */
  update(stream, marks, now) {
    this.stream = stream;
    this.marks = marks ?? {};
    const open = stream.issues.filter((issue) => !acknowledged(this.marks, issue) && !muted(this.marks, issue, now));
    this.unattended = open.reduce((sum, { level }) => sum + (level === "bad" ? BAD_WEIGHT : 1), 0);
    if (stream.state === "dropped") this.unattended *= 2; // What is off the air comes before what is bad on it.
    // What its place among the cards hangs on.
    const placement = `${stream.health} ${stream.state} ${stream.node} ${this.unattended}`;
    this.moved ||= this.placement !== placement;
    this.placement = placement;
    this.dirty = true;
  }

  /** One more second: also where nothing has changed. */
  sample(at) {
    const { stream, points } = this;
    const fresh = !(points.at(-1)?.at > at - SAME_S);
    if (stream.state === "live" && fresh) points.push({ at, kbps: this.kbps(), health: stream.health });
    while (points[0]?.at <= at - SPAN_S - 2) points.shift();
  }

  /** What came before the page was opened: columns of samples of one second each. */
  seed({ at, video_kbps: video, audio_kbps: audio, health: healths }) {
    const first = this.points[0]?.at ?? Infinity;
    const series = this.audioOnly() ? audio : video;
    const earlier = at.map((time, index) => {
      const run = series.slice(Math.max(0, index - MEAN_OF + 1), index + 1);
      return { at: time, kbps: run.reduce((sum, value) => sum + value, 0) / run.length, health: healths[index] };
    });
    this.points = [...earlier.filter((point) => point.at < first - SAME_S), ...this.points];
  }

  /** The figure of the card: video, or audio of a stream that has no video. */
  kbps() {
    const { video_kbps: video, audio_kbps: audio } = this.stream;
    return this.audioOnly() ? audio : video;
  }

  audioOnly() {
    return !this.stream.video_kbps && !this.stream.media?.video_codec && Boolean(this.stream.audio_kbps);
  }

  get attention() {
    return this.stream.health === "bad" || this.stream.health === "warning";
  }

  /** Bring the node up to date; `now` is the server's time. */
  render(now) {
    const { stream, fields } = this;
    if (this.visible && !this.folded) {
      this.spark.draw(this.points, now, this.audioOnly() ? null : stream.target_kbps);
      this.renderPicture(now);
    }
    setText(fields.up, stream.since === null ? "–" : duration(now - stream.since));
    if (stream.state === "waiting") setText(fields.note, waitingWords(stream, now));
    if (!this.dirty) return;
    this.dirty = false;
    this.moved = false;
    setAttribute(this.article, "data-health", stream.health);
    setAttribute(this.article, "data-state", stream.state);
    this.renderHealth();
    this.renderIssues();
    this.renderMarks(now);
    const waiting = stream.state !== "live";
    fields.note.hidden = stream.state !== "waiting";
    this.renderDrop();
    this.trace.hidden = waiting;
    fields.fps.parentElement.hidden = waiting;
    fields.keyframe_interval.parentElement.hidden = waiting;
    setText(fields["clock-label"], CLOCKS[stream.state]);
    this.renderPushing();
    setText(fields.about, this.attention || waiting ? this.aboutEncoder() : mediaWords(stream.media));
    setText(fields.video_kbps, number(this.kbps()));
    setText(
      fields.of,
      this.audioOnly()
        ? "kbit/s of audio"
        : this.attention && stream.target_kbps
          ? `of ${unit(stream.target_kbps, "kbit/s")}`
          : "kbit/s",
    );
    setText(fields.players, playersWords(stream));
    setText(fields.fps, number(stream.fps, 1));
    setText(fields.keyframe_interval, unit(stream.keyframe_interval, "s", 1));
  }

  /** Where else it is pushed: how many go, and how many don't; nothing where there are none. */
  renderPushing() {
    const { live = 0, failing = 0 } = (this.stream.state === "live" && this.stream.pushing) || {};
    const words = [live && `Pushed to ${count(live, "other server")}`, failing && `${count(failing, "push fails", "pushes fail")}`]
      .filter(Boolean)
      .join(", ");
    this.fields.pushing.hidden = words === "";
    if (this.fields.pushing.textContent.trim() === words) return;
    this.fields.pushing.replaceChildren(icon(failing ? "bad" : "out", failing ? "w-bad" : ""), words);
  }

  aboutEncoder() {
    return [mediaWords(this.stream.media), this.stream.encoder].filter(Boolean).join(", ");
  }

  /** Of a stream that dropped: its session, and for who may, that it was seen. */
  renderDrop() {
    const { drop } = this.stream;
    this.acts.hidden = !drop;
    setAttribute(this.acts, "data-dropped", drop ? this.path : null);
    if (!drop) return;
    setAttribute(this.acts.querySelector("a"), "href", this.sessionUrl(drop.id));
    const form = this.acts.querySelector("form");
    if (!form) return;
    form.action = `${this.sessionUrl(drop.id)}acknowledge`;
    form.elements.csrfmiddlewaretoken.value = csrfToken();
  }

  /** The last keyframe's picture, and in words what it doesn't say: its age, its application, why there is none. */
  renderPicture(now) {
    const { stream, picture } = this;
    const version = stream.thumbnail ?? null;
    if (version === null) this.unpictured();
    else if (version !== this.version) picture.src = `${this.pictureUrl}?v=${version}`;
    this.version = version;
    const starving = stream.state === "live" && stream.idle_ms >= STARVING_MS;
    const { drop } = stream;
    this.thumb.classList.toggle("old", starving || Boolean(drop));
    const plain = this.attention ? "" : stream.app;
    const words = picture.hidden
      ? [plain, drop ? "" : this.pictureless(now)].filter(Boolean).join(", ")
      : drop
        ? "Last picture"
        : starving
        ? `Last picture ${duration(stream.idle_ms / 1000)} ago`
        : plain;
    setText(this.fields.tag, words);
    this.fields.tag.hidden = words === "";
  }

  unpictured() {
    if (this.picture.hidden) return;
    this.picture.hidden = true;
    this.picture.removeAttribute("src");
  }

  pictureless(now) {
    const { stream } = this;
    if (stream.state === "live" && this.audioOnly()) return "audio only";
    const codec = stream.media?.video_codec;
    const late = stream.state === "live" && stream.since !== null && now - stream.since > PICTURE_S;
    return codec && late && stream.idle_ms < STARVING_MS ? `no picture of ${codec}` : "no picture yet";
  }

  renderHealth() {
    const { word, icon: name } = healthOf(this.stream);
    if (this.fields.health.textContent === word) return;
    this.fields.health.className = `chip ${name}`;
    this.fields.health.replaceChildren(icon(name), word);
  }

  /** What operators said of the stream, as an icon with a word. */
  renderMarks(now) {
    const muted = mutedWords(this.marks, now);
    const signature = muted?.join() ?? "";
    if (signature === this.marked) return;
    this.marked = signature;
    this.fields.marks.hidden = !muted;
    if (!muted) return;
    const [word, name, title] = muted;
    this.fields.marks.replaceChildren(element("span", { class: "mark", title }, icon(name), element("span", {}, word)));
  }

  /** The worst issues, each as the fact in bold and the advice after it; what somebody has taken care of comes last. */
  renderIssues() {
    const issues = this.stream.issues
      .map((issue) => ({ ...issue, known: acknowledged(this.marks, issue) }))
      .sort((a, b) => Number(a.known) - Number(b.known) || health(a.level).rank - health(b.level).rank);
    const signature = JSON.stringify(
      issues.map((issue) => [issue.check, issue.level, issue.known, issue.title, issue.actual, issue.expected]),
    );
    if (signature === this.issues) return;
    this.issues = signature;
    const more = issues.length - MAX_SENTENCES;
    this.why.hidden = issues.length === 0;
    this.why.replaceChildren(
      ...issues.slice(0, MAX_SENTENCES).map((issue) => {
        const name = health(issue.level).icon;
        return element(
          "li",
          { "data-check": issue.check },
          icon(name, `w-${name}`),
          element(
            "div",
            {},
            element("b", {}, issueFact(issue)),
            " ",
            issue.known
              ? element("span", { class: "mark" }, icon("check"), "Acknowledged")
              : element("span", {}, issue.advice),
          ),
        );
      }),
      ...(more > 0 ? [element("li", { class: "dim" }, icon("more"), `${number(more)} more`)] : []),
    );
  }
}

/** How many there are, how many of them watch by HLS, and how many fall behind: "12, 9 in browsers, 1 slow". */
function playersWords({ players, viewers = 0, slow_players: slow }) {
  return [number(players), viewers && `${number(viewers)}\u00a0by\u00a0HLS`, slow && `${number(slow)}\u00a0slow`].filter(Boolean).join(", ");
}

/** "Bitrate is far below its target: 2,310 kbit/s, 4,200 at least." A title that is a sentence already stays as it is. */
function issueFact(issue) {
  if (!issue.actual || issue.title.endsWith(".")) return issue.title;
  return `${issue.title}: ${issue.actual}${issue.expected ? `, expected ${issue.expected}` : ""}.`;
}

/* ---- what operators said of the stream: whose alerts are muted ("": of all checks), what somebody takes care of ---- */

const acknowledged = (marks, issue) => (marks.acknowledged ?? []).some((ack) => acknowledges(ack, issue));

/** Whether alerts of the issue are muted at `now`: its own, or all of the stream. */
function muted(marks, issue, now) {
  return held(marks, now).some((mute) => mute.check === "" || mute.check === issue.check);
}

const held = (marks, now) => (marks.muted ?? []).filter((mute) => mute.until === null || mute.until > now);

/** [word, icon, what it means] of a stream whose alerts are silenced at `now`, else null. */
function mutedWords(marks, now) {
  const mutes = held(marks, now);
  if (mutes.length === 0) return null;
  const whole = mutes.find((mute) => mute.check === "");
  if (!whole) return ["Partly silenced", "mute", `No alerts of ${mutes.map(({ check }) => `“${checks[check] ?? check}”`).join(", ")}.`];
  return ["Silenced", "mute", whole.until === null ? "No alerts." : `No alerts until ${timeWithUtc(whole.until)}.`];
}
