// What /ws/live/ sends of streams, merged: whole pictures, then the fields that changed. Two nodes may know one stream,
// by its publisher and by its players: each node's updates change what that node reported, and the publisher's is shown.

const PRESENCE = { live: 0, waiting: 1, offline: 2 };

/** Whether one says more than the other. As the server chooses: who has the publisher, or the later one. */
function precedes(one, other) {
  const by = PRESENCE[one.state] - PRESENCE[other.state] || (other.since ?? 0) - (one.since ?? 0);
  return by ? by < 0 : one.node < other.node;
}

export class Streams {
  constructor() {
    this.nodes = new Map(); // By stream id: what each node says of it, by node.
    this.marks = new Map(); // By stream id: what operators said of it.
  }

  /** Take a message in; answers the ids of the streams that it may have changed. */
  take(message) {
    const touched = new Set();
    if (message.kind === "snapshot") {
      for (const id of this.nodes.keys()) touched.add(id);
      this.nodes.clear();
      this.marks.clear();
    }
    for (const [id, marks] of Object.entries(message.marks ?? {})) {
      this.marks.set(Number(id), marks);
      if (this.nodes.has(Number(id))) touched.add(Number(id));
    }
    if (message.kind === "snapshot") {
      for (const stream of [...message.streams, ...(message.others ?? [])]) this.merge(stream.node, stream, touched);
      return touched;
    }
    for (const fields of message.streams) this.merge(message.node ?? fields.node, fields, touched);
    for (const id of message.gone) {
      touched.add(id);
      this.nodes.get(id)?.delete(message.node);
      if (!this.nodes.get(id)?.size) this.nodes.delete(id);
    }
    return touched;
  }

  merge(node, fields, touched) {
    let byNode = this.nodes.get(fields.id);
    const known = byNode?.get(node);
    // Changes of what isn't known make no stream: its whole picture was missed, and the server sends it again.
    if (!known && !fields.state) return;
    touched.add(fields.id);
    // Another object: a card compares what it showed of the stream with what comes.
    if (known) byNode.set(node, { ...known, ...fields });
    else {
      if (!byNode) this.nodes.set(fields.id, (byNode = new Map()));
      byNode.set(node, { ...fields });
    }
  }

  /** What is shown of a stream; undefined when no node knows of it. */
  get(id) {
    let chosen;
    for (const stream of this.nodes.get(id)?.values() ?? []) {
      if (!chosen || precedes(stream, chosen)) chosen = stream;
    }
    return chosen;
  }
}
