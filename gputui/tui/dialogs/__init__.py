"""Dialogs that ask, pick, show and edit. A dialog only returns a choice; its caller carries it out."""
