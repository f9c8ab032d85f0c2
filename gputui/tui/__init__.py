"""The Textual app.

`main_screen` holds the panes (`gpus/`, `queue/`, `log/`), `actions/` is what keys do, `views/` fill the screen,
`dialogs/` ask, `terminal/` is the contract with the terminal. `bridge` is the only crossing to the owner's thread.
"""
