"""GPUs: which there are, what is on them, who else uses them, and the grammar of `--gpus`.

What may enter: samplers of one protocol (`sample`), verdicts computed from samples, leases between users of a machine.
Nothing here knows a session or its queue. NVML itself is loaded in `gpus.nvml` only, a process of its own.
Called by `session.devices`, by verbs about GPUs, and for its words and pictures by `tui`.
"""
