"""The sampler of NVIDIA devices: a process of its own (`python -m gputui.gpus.nvml`), and nothing else loads NVML.

A call that hangs in the kernel, or a crash of the driver's library, then harms nobody but this process.
What may enter: questions to the driver, and what counts as an answer; what samples mean is for `gpus`.
Started by `gpus.child`; nobody else imports it.
"""
