// Why something ended, and what happened, in words.

export const END_WORDS = {
  client_unpublish: "Encoder stopped",
  tcp_reset: "Connection reset",
  idle_timeout: "No media arrived",
  kicked: "Kicked by an operator",
  key_revoked: "Key revoked or disabled",
  replaced: "Replaced by another encoder",
  protocol_error: "Protocol error",
  node_shutdown: "Server stopped",
  node_lost: "Server lost",
  lease_lost: "Lease lost",
  over_limit: "Over the key's bitrate limit",
};

/** What arrives, in few words: "1920 × 1080, H.264 and AAC". */
export function mediaWords(media) {
  const codecs = [media.video_codec, media.audio_codec].filter(Boolean).join(" and ");
  return [media.width ? `${media.width} × ${media.height}` : "", codecs].filter(Boolean).join(", ");
}

const lower = (text) => text[0].toLowerCase() + text.slice(1);

// An event's kind: what it says where the event itself brings no description, and its icon.
const EVENT_KINDS = {
  "session.started": ["Session started", "live"],
  "session.ended": ["Session ended", "out"],
  "publish.takeover": ["The stream was taken over", "live"],
  "health.opened": ["Issue opened", "warn"],
  "health.cleared": ["Issue cleared", "good"],
  metadata: ["The encoder described its media", "info"],
  onstatus: ["Status sent", "info"],
};

// Levels as the health checks and as onStatus name them.
const LEVEL_LOOK = {
  bad: ["bad", "w-bad"],
  error: ["bad", "w-bad"],
  warning: ["warn", "w-warn"],
  good: ["good", "w-good"],
};

const plain = (event, words) => event.description || words;

// Kinds whose words come from more than their description.
const SENTENCES = {
  "session.ended": (event, words) =>
    [`${words}: ${lower(END_WORDS[event.code] ?? "for an unknown reason")}.`, event.description]
      .filter(Boolean)
      .join(" "),
  "health.cleared": (event) => `Cleared: ${lower(event.description || event.code)}`,
  metadata: (event, words) => mediaWords(event.detail?.media ?? {}) || words,
};

/** {text, code, icon, classes} of an event. */
export function describeEvent(event) {
  const [words, plainIcon] = EVENT_KINDS[event.kind] ?? [event.kind, "info"];
  const [icon, classes] = (event.kind === "health.cleared" ? null : LEVEL_LOOK[event.level]) ?? [
    plainIcon,
    plainIcon === "good" ? "w-good" : "",
  ];
  return {
    text: (SENTENCES[event.kind] ?? plain)(event, words),
    code: event.kind === "session.started" ? event.kind : event.code || event.kind,
    icon,
    classes,
  };
}
