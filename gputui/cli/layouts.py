"""Whether the names that a user wants for the jobs' folders can be given."""

from __future__ import annotations

import os

from gputui.session.opening import Layout

from .words import refuse


def check_layout(layout: Layout) -> None:
    if os.sep in layout.prefix or layout.prefix in (".", ".."):
        refuse(f"--prefix {layout.prefix!r} must be a plain name; --job-dir makes folders within folders")
    if not layout.job_dir:
        return
    try:
        made = layout.job_dir.format(id=0, name="name", project="project")
    except (KeyError, ValueError, IndexError) as error:
        refuse(f"--job-dir {layout.job_dir!r}: {error}; it may hold {{project}}, {{name}} and {{id}}")
    if "{id}" not in layout.job_dir:
        refuse(f"--job-dir {layout.job_dir!r} must hold {{id}}, or two jobs would share a folder")
    if "}{id" in layout.job_dir or "{id}{" in layout.job_dir:
        refuse(f"--job-dir {layout.job_dir!r} needs something between {{id}} and its neighbour: a1 and 0, or a and 10?")
    if os.path.isabs(made) or ".." in made.split(os.sep):
        refuse(f"--job-dir {layout.job_dir!r} must stay within the session's folder")
