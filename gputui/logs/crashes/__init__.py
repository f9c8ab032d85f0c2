"""Determine why a job failed from the last lines of its output.

The rules recognize messages of programs, launchers, shells and drivers. They are pure, and their cost is bounded for
any input. `signature` decides between their results.
"""
