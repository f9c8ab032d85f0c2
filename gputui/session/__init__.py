"""Sessions: a directory with one queue, the process that owns it, and everybody who talks to that process.

`store/` is durable, `owner/` decides turn by turn, `devices/` watches GPUs, `control/` is the socket, `ownership/`
decides who owns. `client` and `creation` are on top of them: what commands and programs use.
"""
