"""Whether the names that a user wants for the jobs' folders can be given."""

from __future__ import annotations

import os

from .opening import Layout


def trouble(layout: Layout) -> str | None:
    """The sentence why not; None: they can."""
    if os.sep in layout.prefix or layout.prefix in (".", ".."):
        return f"--prefix {layout.prefix!r} must be a plain name; --job-dir makes folders within folders"
    return _pattern_trouble(layout.job_dir) if layout.job_dir else None


def _pattern_trouble(pattern: str) -> str | None:
    try:
        made = pattern.format(id=0, name="name", project="project")
    except (KeyError, ValueError, IndexError) as error:
        return f"--job-dir {pattern!r}: {error}; it may hold {{project}}, {{name}} and {{id}}"
    if "{id}" not in pattern:
        return f"--job-dir {pattern!r} must hold {{id}}, or two jobs would share a folder"
    if "}{id" in pattern or "{id}{" in pattern:
        return f"--job-dir {pattern!r} needs something between {{id}} and its neighbour: a1 and 0, or a and 10?"
    if os.path.isabs(made) or ".." in made.split(os.sep):
        return f"--job-dir {pattern!r} must stay within the session's folder"
    return None
