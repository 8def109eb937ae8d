// The open issues of a stream: what is wrong, since when, what to do; who knows of it; whose alerts are silenced.

import { csrfToken, openForm } from "./actions.js";
import { element, icon, setAttribute, setText } from "./dom.js";
import { health } from "./health.js";
import { ackWords, levelCounts, openWords, silenceWords, sortedWithAcks } from "./issuewords.js";
import { silencesAt } from "./marks.js";
import { atMoment } from "./moments.js";

const ownNow = () => Date.now() / 1000;

export class Issues {
  /**
   * `card` has a list, the counts, and a template of the actions for whom they are allowed; `checks`: {code: {name}};
   * `settings`: {code: {url, words}}, where what is set of a check is changed, for whom that is allowed.
   */
  constructor(card, checks, settings) {
    this.settings = settings;
    this.card = card;
    this.checks = checks;
    this.list = card.querySelector("ul.issues");
    this.muted = card.querySelector("ul.mutes");
    this.template = document.getElementById("issue-acts");
    this.acks = [];
    this.mutes = [];
    this.painted = "";
    card.addEventListener("click", (event) => {
      const button = event.target.closest("[data-mute]");
      if (button) openForm("mute", { check: button.dataset.mute });
    });
  }

  /** What a snapshot knows. */
  replace(acks, mutes) {
    this.acks = acks ?? [];
    this.mutes = mutes ?? [];
  }

  acknowledged(event) {
    this.acks = [event, ...this.acks];
  }

  /** `page`: of the session on air, to which the time leads at which an issue opened. */
  paint(stream, now, page) {
    const issues = sortedWithAcks(stream, this.acks);
    const mutes = silencesAt(this.mutes, now);
    const signature = JSON.stringify([issues, mutes]);
    if (signature !== this.painted) {
      this.painted = signature;
      this.paintCounts(issues.map(({ issue }) => issue));
      this.card.querySelector("[data-field=all-good]").hidden = issues.length > 0;
      this.list.hidden = issues.length === 0;
      if (!this.update(issues)) this.replaceRows(issues);
      this.muted.hidden = mutes.length === 0;
      this.muted.replaceChildren(...mutes.map((mute) => this.muteRow(mute)));
    }
    issues.forEach(({ issue }, index) => {
      const since = this.list.children[index].querySelector(".since a");
      setText(since, openWords(issue, now));
      setAttribute(since, "href", page ? atMoment(page, issue.since) : null);
    });
  }

  paintCounts(issues) {
    const chips = levelCounts(issues).map(([level, words]) =>
      element("span", { class: `chip ${health(level).icon}` }, icon(health(level).icon), words),
    );
    this.card.querySelector("[data-field=issue-counts]").replaceChildren(...chips);
  }

  /** The same issues with other figures: only words change, so that a focused button keeps its focus. */
  update(issues) {
    const rows = [...this.list.children];
    const same =
      rows.length === issues.length &&
      issues.every(({ issue, ack }, i) => rows[i].dataset.key === rowKey(issue, ack));
    if (!same) return false;
    issues.forEach(({ issue }, i) => {
      setText(rows[i].querySelector("h3 > :last-child"), issue.title);
      const [actual, expected] = rows[i].querySelectorAll("dd");
      setText(actual, issue.actual);
      setText(expected, issue.expected);
    });
    return true;
  }

  /** Who was in an issue stays in it: the button that was pressed may be gone. */
  replaceRows(issues) {
    const check = this.list.contains(document.activeElement)
      ? document.activeElement.closest("[data-check]").dataset.check
      : null;
    this.list.replaceChildren(...issues.map(({ issue, ack }) => this.row(issue, ack)));
    if (check === null) return;
    const row = this.list.querySelector(`[data-check="${check}"]`);
    (row?.querySelector("h3") ?? this.card.querySelector("h2")).focus();
  }

  row(issue, ack) {
    const { icon: style, word } = health(issue.level);
    const row = element(
      "li",
      {
        class: `issue${ack ? " known" : ""}`,
        "data-check": issue.check,
        "data-level": issue.level,
        "data-key": rowKey(issue, ack),
      },
      icon(style, `w-${style}`),
      element("h3", { tabindex: -1 }, element("span", { class: "vh" }, `${word}: `), element("span", {}, issue.title)),
      element("span", { class: "since" }, element("a", { title: "What was measured when it opened" })),
      element(
        "dl",
        { class: "ave" },
        element("div", {}, element("dt", {}, "Measured"), " ", element("dd", { class: `w-${style}` }, issue.actual)),
        element("div", {}, element("dt", {}, "Expected"), " ", element("dd", {}, issue.expected)),
      ),
      element("p", {}, issue.advice, ...this.setting(issue)),
    );
    if (ack) row.append(this.ackLine(ack));
    if (this.template) row.append(this.actions(issue, ack));
    return row;
  }

  setting(issue) {
    const link = this.settings[issue.check];
    return link ? [" ", element("a", { href: link.url }, link.words)] : [];
  }

  ackLine(ack) {
    return element("p", { class: "ack" }, icon("check"), element("span", {}, ackWords(ack, ownNow())));
  }

  actions(issue, ack) {
    const actions = this.template.content.firstElementChild.cloneNode(true);
    const form = actions.querySelector("form");
    if (ack) form.remove();
    else {
      form.elements.check.value = issue.check;
      form.elements.csrfmiddlewaretoken.value = csrfToken();
    }
    actions.querySelector("[data-mute]").dataset.mute = issue.check;
    return actions;
  }

  muteRow(mute) {
    const { check, of } = mute;
    const row = element("li", {}, icon("mute"), element("span", {}, silenceWords(mute, this.checks, ownNow())));
    // One of more than this stream is lifted where alerts are.
    const lift = !of && document.getElementById("lift-act")?.content.firstElementChild.cloneNode(true);
    if (lift) {
      lift.elements.check.value = check;
      lift.elements.csrfmiddlewaretoken.value = csrfToken();
      row.append(lift);
    }
    return row;
  }
}

const rowKey = (issue, ack) => `${issue.check} ${issue.level} ${issue.since} ${ack?.sequence ?? ""} ${issue.advice}`;
