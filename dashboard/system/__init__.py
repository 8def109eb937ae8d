"""The state of the installation's parts: what answers, what does not, and since when.

`probes` ask, `evaluation` makes parts of what they found, `watch` does both each two seconds in every web process, and
`heartbeats` are those of processes that only the database knows of. Nothing of it is on the media's way."""
