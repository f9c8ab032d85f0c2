"""Linux features: starting and watching processes, /proc, directories and mounts, and the identity of the machine.

Each module wraps a feature of the kernel or the C library and falls back to another method where the feature is
missing. Nothing here knows about jobs, sessions or GPUs. `spawn` is the only way to start a process that may outlive
this one.
"""
