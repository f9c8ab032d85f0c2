"""The Textual app.

`main_screen` holds the panes (`gpus/`, `queue/`, `log/`). `actions/` implements what the keys do, `views/` contains the
full-screen views, `dialogs/` contains the dialogs, and `terminal/` handles the terminal itself. `bridge` is the only
way from the screen's thread to the owner's thread.
"""
