"""The control socket: the wire, the server inside the owner, and connections to it from other processes."""
