"""The state of the installation's parts: what answers, what does not, and since when.

`probes` ask, and what they found is an `observation`, of which `evaluation` makes parts (`nodes` those of nodes).
`watch` does both each two seconds in every web process. `heartbeats` are those of processes that only the database
knows of. Nothing of it is on the media's way."""
