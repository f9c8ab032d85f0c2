"""`gputui run`: run a session without the TUI. `cli.app` uses the same inputs and session options."""
