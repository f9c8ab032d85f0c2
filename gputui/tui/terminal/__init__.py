"""Support for the terminal: a Textual driver that never blocks, drawing of changed cells, signals and checks.

Nothing in this package knows about jobs or sessions.
"""
