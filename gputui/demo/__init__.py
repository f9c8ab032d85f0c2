"""`gputui demo`: pretend trainings on simulated GPUs, a tour through the keys, and a broom for what they leave.

What may enter: what only the demo has; the app and the session that it shows are the real ones, unchanged.
Called by `cli.verbs.demo` alone; `broom` and `train` are programs of their own.
"""
