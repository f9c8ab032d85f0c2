"""A sign for every state, so that colour never stands alone. Imports nothing: verbs must start at once."""

SIGNS = {
    "queued": "·", "held": "‖", "blocked": "…", "delayed": "◷",
    "starting": "○", "running": "●", "suspended": "◐", "stopping": "◌",
    "succeeded": "✓", "failed": "✗", "crashed": "✗", "killed": "■", "timed_out": "✗",
    "lost": "?", "refused": "!", "skipped": "-",
}  # fmt: skip
