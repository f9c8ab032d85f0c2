"""The door of 0.1.0, by name or by this folder's path: runs `gputui.python.user_code` with the same words."""

import os
import runpy
import sys

sys.argv[0] = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "python", "user_code")
if __package__:
    runpy.run_module("gputui.python.user_code", run_name="__main__", alter_sys=True)
else:
    runpy.run_path(sys.argv[0], run_name="__main__")
