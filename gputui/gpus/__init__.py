"""GPUs: devices, their samples and history, processes of other users, leases, and the grammar of `--gpus`.

Nothing in this package knows about sessions or queues. NVML is loaded only in `gpus.nvml`, which runs in a separate
process.
"""
