"""The media listener, driven by sockets."""
