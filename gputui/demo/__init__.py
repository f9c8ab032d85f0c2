"""`gputui demo`: fake training runs on simulated GPUs, a tour of the keys, and a broom that cleans up afterwards.

The app and the session are real. `broom` and `train` are separate programs.
"""
