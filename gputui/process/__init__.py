"""Linux: starting processes, seeing them end, /proc, memory, mounts, which machine and boot this is.

What may enter: one thing of the kernel or the C library each, with its fallback for kernels and Pythons that lack it.
Nothing here knows jobs, sessions or GPUs. `spawn` is the one way to start a process that may outlive what we do.
Called by engines, session, sources, gpus and cli.
"""
