"""The control socket: how any process talks to a session's owner.

What may enter: the wire's shapes, the server inside the owner, the client outside, and the way without an owner.
Requests and replies themselves stand in `session.messages`; stored and sent shapes only grow.
The client's side is called by verbs and by `python.api`; the server's by `ownership.holding`.
"""
