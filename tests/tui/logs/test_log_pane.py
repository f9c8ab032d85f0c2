"""The log pane shows the end of a log, follows it, and stays where the reader put it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.log_pane_host import Files, Host, numbered

from gputui.tui.widgets.logs import AttemptLog, JobLog

pytestmark = pytest.mark.asyncio
