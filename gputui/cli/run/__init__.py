"""`gputui run`: a session without a screen. `cli.app` shares its inputs and its session options."""
