"""Code that runs in the users' Python interpreters: it reads their .py files and calls their functions.

The interpreter may be different from the one that runs gputui, so this package needs only the standard library and
knows nothing about sessions. The names of its entry points must not change because stored commands contain the name and
the path of this package.
"""
