"""What travels between an owner and whoever talks to it: requests, and what is answered.

Here: plain structs, the same on both ends, in the shapes that `--json` promises. May enter: what imports core and
nothing else of ours, for every verb loads it. Who calls: the owner's side and clients alike. How it travels is a matter
of `control/`.
"""
