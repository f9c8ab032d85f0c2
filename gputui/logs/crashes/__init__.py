"""Determine why a job failed from the last lines of its output.

The rules recognize messages of programs, launchers, shells and drivers. They are pure functions with a bounded cost
for any input. The module `signature` chooses between their results.
"""
