"""Ownership of a session: becoming the owner, serving its socket, and the daemons that take over.

Only the kernel's lock decides which process is the owner. Pids and files are only hints. This package is used by the
app, `run`, daemons, and clients that find no owner.
"""
