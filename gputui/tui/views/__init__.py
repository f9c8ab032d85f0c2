"""Views that fill the screen."""
