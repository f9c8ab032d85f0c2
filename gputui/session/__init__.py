"""Sessions. A session is a directory with one queue, the process that owns it, and the clients of that process.

`store/` is the database, `owner/` runs the scheduler, `devices/` watches GPUs, `control/` is the socket, and
`ownership/` decides which process is the owner. Commands and other programs use `client` and `creation`.
"""
