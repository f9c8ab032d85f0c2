"""The output of jobs: lines of files of any size, styles, metrics, error signatures, and sanitized text (`plain`).

Independent of Textual and of sessions. The input consists of paths and bytes.
"""
