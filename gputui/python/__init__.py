"""Python: `api` is what users' programs import, `user_code` runs in users' Pythons. `gputui.tasks` points here."""
