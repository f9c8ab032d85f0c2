"""Commands that sessions of 0.1.0 have stored name this package and this folder; `gputui.python.user_code` is meant."""
