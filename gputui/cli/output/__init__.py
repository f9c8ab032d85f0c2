"""What the command line prints: tables, progress lines, copied logs, and questions that a key answers.

What may enter: forms of text for a terminal or a pipe; all of it passes the gate in `logs.plain`.
It decides nothing, and asks no session anything: whoever calls has the reply already.
Called by every room of `cli`.
"""
