"""The control socket: how any process talks to a session's owner, and what a reply looks like as JSON.

What may enter: the wire's shapes, the server inside the owner, the client outside, and the way without an owner.
A new request is a class in `session.owner.requests` or a handler in `handlers`; stored and sent shapes only grow.
The client's side is called by verbs and by `python.api`; the server's by `ownership.holding`.
"""
