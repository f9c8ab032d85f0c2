"""Data structures that keep a long queue cheap: a sorted line, timers, an immutable list with shared parts.

What may enter: structures that know nothing of jobs beyond a key, each with its cost in its docstring.
Called by `core` alone; a snapshot's lists are read by everybody.
"""
