"""What runs inside users' Python: the reader of their .py files, and the jobs that call their classes and functions.

Such a process may be another Python than gputui's own, so this package needs the standard library alone and knows
nothing of sessions. What may enter: code for such processes, and the data that they share with who started them.
Stored commands name this package and its folder: what is called from outside keeps its name.
"""
