"""What a shell is given to run: the job's command itself, or what calls its task or its container with it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from shlex import quote

from gputui.core.job import JobSpec
from gputui.python.user_code.places import USER_CODE
from gputui.sources.user_python import python_of

CALLER = os.path.join(USER_CODE, "call_task.py")


def command_line(spec: JobSpec, environment: Mapping[str, str]) -> str:
    if spec.task:
        python = "python3" if spec.wrap else quote(python_of(environment))
        called = f"{python} {quote(CALLER)} {quote(spec.task)} {quote(spec.command)}"
        return f"{spec.wrap} {called}" if spec.wrap else called
    if not spec.wrap:
        return spec.command
    login = " -l" if spec.login_shell else ""
    return f"{spec.wrap} {quote(spec.shell or 'bash')}{login} -c {quote(spec.command)}"
