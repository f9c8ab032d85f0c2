"""Texts and tables computed from a snapshot for the TUI and the commands: status, waiting reasons, names, results.

Nothing in this package changes a scheduler.
"""
