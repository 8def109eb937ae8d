// One stream's card on the wall. It keeps the last 60 s of its stream, and touches only what has changed.

import { csrfToken } from "./actions.js";
import {
  bitrateWords,
  cardPictureWords,
  cardPlayersWords,
  CardPoints,
  cardWaitingWords,
  encoderWords,
  isAudioOnly,
  isStarving,
  issueFact,
  needsAttention,
  pushingWords,
  shownKbps,
  sortedIssues,
} from "./cardfigures.js";
import { element, icon, pageData, setAttribute, setText } from "./dom.js";
import { mediaWords } from "./events.js";
import { duration, number, unit } from "./format.js";
import { health, healthOf } from "./health.js";
import { silencedWords, unattendedWeight } from "./marks.js";
import { Sparkline } from "./sparkline.js";

const MAX_SENTENCES = 2;
const CLOCKS = { live: "Live for", waiting: "Waiting for", dropped: "Off for" };
const template = document.getElementById("card");
const { checks } = pageData("bootstrap"); // Names by code.

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
    this.points = new CardPoints();
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
    this.unattended = unattendedWeight(stream, this.marks, now);
    // What its place among the cards hangs on.
    const placement = `${stream.health} ${stream.state} ${stream.node} ${this.unattended}`;
    this.moved ||= this.placement !== placement;
    this.placement = placement;
    this.dirty = true;
  }

  /** One more second: also where nothing has changed. */
  sample(at) {
    this.points.sample(this.stream, at);
  }

  /** What came before the page was opened: columns of samples of one second each. */
  seed(columns) {
    this.points.seed(this.stream, columns);
  }

  get attention() {
    return needsAttention(this.stream);
  }

  /** Bring the node up to date; `now` is the server's time. */
  render(now) {
    const { stream, fields } = this;
    if (this.visible && !this.folded) {
      this.spark.draw(this.points.list, now, isAudioOnly(stream) ? null : stream.target_kbps);
      this.renderPicture(now);
    }
    setText(fields.up, stream.since === null ? "–" : duration(now - stream.since));
    if (stream.state === "waiting") setText(fields.note, cardWaitingWords(stream, now));
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
    setText(fields.about, this.attention || waiting ? encoderWords(stream) : mediaWords(stream.media));
    setText(fields.video_kbps, number(shownKbps(stream)));
    setText(fields.of, bitrateWords(stream));
    setText(fields.players, cardPlayersWords(stream));
    setText(fields.fps, number(stream.fps, 1));
    setText(fields.keyframe_interval, unit(stream.keyframe_interval, "s", 1));
  }

  /** Where else it is pushed: how many go, and how many don't; nothing where there are none. */
  renderPushing() {
    const { words, failing } = pushingWords(this.stream);
    this.fields.pushing.hidden = words === "";
    if (this.fields.pushing.textContent.trim() === words) return;
    this.fields.pushing.replaceChildren(icon(failing ? "bad" : "out", failing ? "w-bad" : ""), words);
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
    this.thumb.classList.toggle("old", isStarving(stream) || Boolean(stream.drop));
    const words = cardPictureWords(stream, now, !picture.hidden);
    setText(this.fields.tag, words);
    this.fields.tag.hidden = words === "";
  }

  unpictured() {
    if (this.picture.hidden) return;
    this.picture.hidden = true;
    this.picture.removeAttribute("src");
  }

  renderHealth() {
    const { word, icon: name } = healthOf(this.stream);
    if (this.fields.health.textContent === word) return;
    this.fields.health.className = `chip ${name}`;
    this.fields.health.replaceChildren(icon(name), word);
  }

  /** What operators said of the stream, as an icon with a word. */
  renderMarks(now) {
    const silenced = silencedWords(this.marks, now, checks);
    const signature = silenced?.join() ?? "";
    if (signature === this.marked) return;
    this.marked = signature;
    this.fields.marks.hidden = !silenced;
    if (!silenced) return;
    const [word, title] = silenced;
    this.fields.marks.replaceChildren(element("span", { class: "mark", title }, icon("mute"), element("span", {}, word)));
  }

  /** The worst issues, each as the fact in bold and the advice after it; what somebody has taken care of comes last. */
  renderIssues() {
    const issues = sortedIssues(this.stream, this.marks);
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
