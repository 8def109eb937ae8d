// Streams that dropped: their publisher ended although nobody meant it. One is open, and bad, until it is back or somebody
// has seen it. Nodes tell of an end before the database knows it, so a snapshot may lack the latest.

const WRITTEN_S = 15; // By then a snapshot has it.

export class Drops {
  constructor() {
    this.latest = new Map(); // By stream id.
  }

  /** Take a message in; answers the ids of the streams that it may have changed. */
  take(message) {
    const touched = new Set();
    if (message.kind === "snapshot") {
      for (const [id, drop] of this.latest) {
        touched.add(id);
        if (drop.at < message.at - WRITTEN_S) this.latest.delete(id);
      }
    }
    for (const drop of message.drops ?? []) {
      const known = this.latest.get(drop.stream);
      if (known && known.id !== drop.id && known.at > drop.at) continue;
      const same = known?.id === drop.id ? known : undefined;
      this.latest.set(drop.stream, { ...drop, back: drop.back ?? same?.back ?? null, seen: drop.seen || !!same?.seen });
      touched.add(drop.stream);
    }
    return touched;
  }

  /** What is on air now: another publisher than the one that ended means that the stream is back. */
  heed(stream) {
    const drop = this.latest.get(stream.id);
    if (drop && drop.back === null && stream.session_id && stream.session_id !== drop.id)
      drop.back = stream.since ?? drop.at;
  }

  /** The stream's end that somebody has to look at, or undefined. */
  open(id) {
    const drop = this.latest.get(id);
    return drop && !drop.seen && drop.back === null ? drop : undefined;
  }

  /** Those that are known or over, and that ended after `since`, the latest first. */
  closed(since) {
    return [...this.latest.values()]
      .filter((drop) => drop.at > since && (drop.seen || drop.back !== null))
      .sort((a, b) => b.at - a.at);
  }
}

/**
 * The stream that the wall shows: as `stream`, what nodes report of it now (undefined if nothing), or as dropped.
 * `former` is what its card showed last.
 */
export function shownStream(id, stream, drops, former) {
  if (stream) drops.heed(stream);
  const drop = drops.open(id);
  return drop && stream?.session_id !== drop.id ? dropped(drop, stream ?? former) : stream;
}

/** A stream that dropped, as its card shows it; `former`: what is, or was, known of it. */
export function dropped(drop, former) {
  const words = `Dropped: ${drop.words.charAt(0).toLowerCase()}${drop.words.slice(1)}.`;
  const issue = { check: "ended", level: "bad", since: drop.at, title: words, actual: "", expected: "", advice: drop.advice };
  return {
    ...former,
    id: drop.stream,
    app: drop.app,
    name: drop.name,
    node: drop.node,
    state: "dropped",
    health: "bad",
    issues: [issue],
    since: drop.at,
    session_id: null,
    players: former?.players ?? 0,
    media: former?.media ?? {},
    encoder: former?.encoder ?? "",
    thumbnail: former?.thumbnail ?? null,
    drop,
  };
}
