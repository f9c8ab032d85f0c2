"""The owner's devices: samples become facts for the scheduler, figures for attempts, and pictures for whoever looks.

What may enter: what connects `gpus` with a session: which process is whose job, leases held, lanes that follow a file.
What a stranger is, is decided in `gpus.strangers`; what is done about it, in `core.placement`.
Called by `session.owner` in its turn; its requests by `control` and `tui`.
"""
