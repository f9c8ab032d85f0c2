"""Engines execute the scheduler's instructions: they start, watch, stop and recover attempts.

`session.owner` uses engines only through `protocol`. An engine never decides what runs and never writes to the store.
"""
