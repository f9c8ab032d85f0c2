"""The engine for this machine. Each attempt consists of a wrapper (an sh script), a claim file and a process tree.

The wrapper script and the claims form the protocol that runs each attempt exactly once. Stored sessions depend on their
format.
"""
