"""The control socket: the server inside the owner, the answers, and the connections of clients."""
