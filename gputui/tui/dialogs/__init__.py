"""Dialogs that ask, pick, show and edit. A dialog answers with a choice; the caller acts on it."""
