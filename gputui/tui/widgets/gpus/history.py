"""What each device's utilization was, one value per sample. Owns the memory of it; knows no widget."""

from __future__ import annotations

from collections import deque

from gputui.gpus.picture import DevicesPicture
from gputui.gpus.sample import Status

HOST = "host"
"""The key of the machine itself."""


class History:
    def __init__(self, length: int) -> None:
        self._length = length
        self._values: dict[str, deque[int | None]] = {}
        self._taken: float | None = None

    def feed(self, picture: DevicesPicture) -> None:
        """A sample that was fed already adds nothing; a device that did not answer adds a gap."""
        sample = picture.sample
        if sample is None or sample.taken == self._taken:
            return
        self._taken = sample.taken
        values = {device.key: device.utilization if device.status is Status.OK else None for device in sample.devices}
        if sample.host is not None:
            used = sample.host.utilization
            values[HOST] = None if used is None else round(used)
        known, self._values = self._values, {}
        for key, value in values.items():
            series = self._values[key] = known.get(key) or deque(maxlen=self._length)
            series.append(value)

    def of(self, key: str) -> list[int | None]:
        return list(self._values.get(key, ()))
