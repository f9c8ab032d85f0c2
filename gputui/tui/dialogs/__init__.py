"""Dialogs that ask, pick, show and edit. A dialog only returns a choice, on which the caller acts."""
