"""The output of jobs: lines of files of any size, styles, metrics, error signatures, and sanitized text (`plain`).

This package does not depend on Textual or on sessions. Its input is paths and bytes.
"""
