"""Readers of job files, standard input, Python files and sweeps, and the table of job settings.

Invalid input is rejected as a whole, with the file, the line and the reason. This package knows nothing about sessions.
"""
