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
};

// An event's kind: what it says where the event itself brings no description, and its icon.
const EVENT_KINDS = {
  "connect.accepted": ["Connection accepted", "check"],
  "connect.rejected": ["Connection refused", "ban"],
  "publish.accepted": ["Publish accepted", "check"],
  "publish.rejected": ["Publish refused", "ban"],
  "publish.takeover": ["Another encoder took over", "rotate"],
  "session.started": ["Session started", "live"],
  "session.ended": ["Session ended", "out"],
  "health.opened": ["Issue opened", "warn"],
  "health.cleared": ["Issue cleared", "good"],
  "config.changed": ["Media changed", "info"],
  metadata: ["The encoder described its media", "info"],
  onstatus: ["Status sent", "info"],
  "operator.kick": ["Kicked by an operator", "kick"],
};

// Levels as the health checks and as onStatus name them.
const LEVEL_LOOK = { bad: ["bad", "w-bad"], error: ["bad", "w-bad"], warning: ["warn", "w-warn"], good: ["good", "w-good"] };

/** {text, code, icon, classes} of an event. */
export function describeEvent(event) {
  const [words, plainIcon] = EVENT_KINDS[event.kind] ?? [event.kind, "info"];
  const detail = event.detail ?? {};
  const reason = event.kind === "session.ended" ? END_WORDS[detail.reason ?? event.code] : null;
  const [icon, classes] = (event.kind === "health.cleared" ? null : LEVEL_LOOK[event.level]) ?? [plainIcon, plainIcon === "good" ? "w-good" : ""];
  return {
    text: reason ? `${words}: ${reason[0].toLowerCase()}${reason.slice(1)}` : event.description || words,
    code: event.code || event.kind,
    icon,
    classes,
  };
}
