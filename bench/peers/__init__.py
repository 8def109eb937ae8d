"""The servers that are measured: each a process on a free loopback port, in a folder of its own."""
