"""`gputui doctor`: checks that change nothing, with one module for each part of the machine."""
