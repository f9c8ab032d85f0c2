"""What runs inside users' Python: the reader of their .py files, and the jobs that call their classes and functions.

Such a process may be another Python than gputui's own, so this package needs the standard library alone and knows
nothing of sessions.
"""
