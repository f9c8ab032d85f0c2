"""Helpers that tests of several directories share."""
