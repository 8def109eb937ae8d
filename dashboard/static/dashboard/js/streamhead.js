// A stream's name, health and facts, its acts, and what it waits for.

import { icon, setAttribute, setText } from "./dom.js";
import { clock, count, duration } from "./format.js";
import { health } from "./health.js";

export class StreamHead {
  constructor(head) {
    this.head = head;
    this.fields = Object.fromEntries(
      [...document.querySelectorAll("#stream [data-field], #waiting [data-field]")].map((field) => [
        field.dataset.field,
        field,
      ]),
    );
    // The session that is meant is the one that was seen when the dialog was opened, whoever publishes by then.
    document.getElementById("kick-open")?.addEventListener("click", () => {
      const form = document.querySelector("#kick form");
      form.elements.session_id.value = this.session ?? "";
      form.querySelector(".err").hidden = true;
    });
  }

  paint(stream, now, onAir) {
    const { fields } = this;
    this.session = stream.session_id;
    setAttribute(this.head, "data-state", stream.state);
    setAttribute(this.head, "data-health", stream.health);
    const look = health(stream.health);
    const words =
      stream.state === "offline" ? "Off air" : stream.state === "waiting" ? "Waiting for media" : look.word;
    if (fields.health.textContent !== words) {
      fields.health.className = `chip ${look.icon}`;
      fields.health.replaceChildren(icon(look.icon), words);
    }
    const since = stream.since === null || stream.since === undefined ? null : now - stream.since;
    const up = stream.state === "live" ? "Live" : "Connected";
    setText(fields.up, since === null ? "Live" : `${up} for ${clock(since)}`);
    setText(fields.players, count(stream.players ?? 0, "player"));
    setText(fields.source, [stream.address, stream.encoder].filter(Boolean).join(", "));
    setText(fields.node, stream.node ?? "");
    setText(fields.waiting, waitingWords(stream, now));
    for (const part of document.querySelectorAll("[data-only-live]")) part.hidden = !onAir;
    for (const part of document.querySelectorAll("[data-of-session]"))
      part.hidden = part.dataset.ofSession !== stream.session_id;
    const kick = document.getElementById("kick-open");
    if (kick) kick.hidden = !onAir;
  }
}

function waitingWords(stream, now) {
  if (stream.state === "waiting" && stream.session_id) {
    const since = stream.since ? `, ${duration(now - stream.since)} ago` : "";
    return `An encoder is accepted${since}, but no media has arrived. Start streaming in it.`;
  }
  const itself = "This page turns to the live stream by itself.";
  if (stream.state === "waiting")
    return `${count(stream.players, "player waits", "players wait")} for it. Start streaming. ${itself}`;
  return `Start streaming. ${itself}`;
}
