// One stream's card on the wall. It keeps the last 60 s of its stream, and touches only what has changed.

import { icon, element, setAttribute, setText } from "./dom.js";
import { clock, duration, number, unit } from "./format.js";
import { health } from "./health.js";
import { SPAN_S, Spark } from "./spark.js";
import { mediaWords } from "./words.js";

const MAX_SENTENCES = 2;
const SAME_S = 0.5; // Two texts of one tick: a snapshot and an update.
const MEAN_OF = 5; // Snapshots carry means of 5 s.
const template = document.getElementById("card");

/** A waiting stream: who is there already, and what is missing. */
function waitingWords(stream, now) {
  if (!stream.session_id) return "Players wait for an encoder.";
  const wait = stream.since === null ? "" : ` for ${duration(now - stream.since)}`;
  return `An encoder is accepted, but no media has arrived${wait}.`;
}

export class Card {
  constructor(stream, href) {
    this.node = template.content.firstElementChild.cloneNode(true);
    this.article = this.node.firstElementChild;
    this.link = this.node.querySelector("a");
    this.link.href = href;
    this.link.title = `${stream.app}/${stream.name}`;
    setText(this.link.querySelector("small"), `${stream.app}/`);
    setText(this.link.querySelector("span"), stream.name);
    this.article.dataset.stream = `${stream.app}/${stream.name}`;
    this.fields = Object.fromEntries(
      [...this.node.querySelectorAll("[data-field]")].map((field) => [field.dataset.field, field]),
    );
    this.why = this.node.querySelector(".why");
    this.trace = this.node.querySelector(".trace");
    this.spark = new Spark(this.node.querySelector(".spark"));
    this.points = [];
    this.visible = true;
    this.dirty = true;
    this.issues = "";
    this.stream = stream;
  }

  /** What the server says of the stream at `at`. */
  update(stream, at) {
    this.stream = stream;
    this.dirty = true;
    const fresh = !(this.points.at(-1)?.at > at - SAME_S);
    if (stream.state === "live" && fresh) this.points.push({ at, kbps: this.kbps(), health: stream.health });
    this.points = this.points.filter((point) => point.at > at - SPAN_S - 2);
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
    if (this.visible) this.spark.draw(this.points, now, this.audioOnly() ? null : stream.target_kbps);
    setText(fields.up, stream.since === null ? "–" : clock(now - stream.since));
    if (stream.state === "waiting") setText(fields.note, waitingWords(stream, now));
    if (!this.dirty) return;
    this.dirty = false;
    setAttribute(this.article, "data-health", stream.health);
    setAttribute(this.article, "data-state", stream.state);
    this.renderHealth();
    this.renderIssues();
    const waiting = stream.state !== "live";
    fields.note.hidden = !waiting;
    this.trace.hidden = waiting;
    fields.fps.parentElement.hidden = waiting;
    setText(fields["clock-label"], waiting ? "Waiting for" : "Up for");
    setText(
      fields.about,
      this.attention || waiting
        ? this.aboutEncoder()
        : [stream.app, mediaWords(stream.media)].filter(Boolean).join(", "),
    );
    setText(fields.video_kbps, number(this.kbps()));
    setText(
      fields.of,
      this.audioOnly()
        ? "kbit/s of audio"
        : this.attention && stream.target_kbps
          ? `of ${unit(stream.target_kbps, "kbit/s")}`
          : "kbit/s",
    );
    setText(fields.players, number(stream.players));
    setText(fields.fps, number(stream.fps, 1));
    setText(fields.keyframe_interval, unit(stream.keyframe_interval, "s", 1));
  }

  aboutEncoder() {
    return [mediaWords(this.stream.media), this.stream.encoder].filter(Boolean).join(", ") || this.stream.app;
  }

  renderHealth() {
    const { word, icon: name } = health(this.stream.health);
    if (this.fields.health.dataset.health === this.stream.health) return;
    this.fields.health.dataset.health = this.stream.health;
    this.fields.health.className = `chip ${name}`;
    this.fields.health.replaceChildren(icon(name), word);
  }

  /** The worst issues, each as the fact in bold and the advice after it. */
  renderIssues() {
    const issues = [...this.stream.issues]
      .sort((a, b) => health(a.level).rank - health(b.level).rank)
      .slice(0, MAX_SENTENCES);
    const signature = JSON.stringify(
      issues.map((issue) => [issue.check, issue.level, issue.title, issue.actual, issue.expected]),
    );
    if (signature === this.issues) return;
    this.issues = signature;
    this.why.hidden = issues.length === 0;
    this.why.replaceChildren(
      ...issues.map((issue) => {
        const name = health(issue.level).icon;
        return element(
          "li",
          {},
          icon(name, `w-${name}`),
          element("div", {}, element("b", {}, issueFact(issue)), " ", element("span", {}, issue.advice)),
        );
      }),
    );
  }
}

/** "Bitrate is far below its target: 2,310 kbit/s, 4,200 at least." A title that is a sentence already stays as it is. */
function issueFact(issue) {
  if (!issue.actual || issue.title.endsWith(".")) return issue.title;
  return `${issue.title}: ${issue.actual}${issue.expected ? `, expected ${issue.expected}` : ""}.`;
}
