"""The sampler for NVIDIA devices. It runs in a separate process: `python -m gputui.gpus.nvml`.

Only this package loads NVML. If a call hangs in the kernel or the library crashes, gputui itself is not affected. The
process is started by `gpus.sampler_process`.
"""
