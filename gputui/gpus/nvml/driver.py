"""The door to NVML: loads NVIDIA's bindings, opens the driver once, and gives every failure one shape.

Owns which variant of a call this driver and these bindings have. Decides nothing about devices.
"""

from __future__ import annotations

import importlib
import os
import warnings
from ctypes import byref, c_ulonglong
from typing import Any

from gputui.gpus.sample import Trouble

from . import troubles

Handle = Any
"""NVML's opaque pointer."""

_TEMPERATURE_OF_THE_CHIP = 0


class DriverError(Exception):
    """The driver refused; `code` is NVML's."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class CannotOpen(Exception):
    """There is no driver to talk to; `trouble` says why."""

    def __init__(self, trouble: Trouble) -> None:
        super().__init__(trouble.message)
        self.trouble = trouble


class Driver:
    """NVML, opened. Its methods may hang, and are called from the threads of devices only."""

    def __init__(self) -> None:
        self.nvml = load_bindings()
        try:
            self.call("nvmlInit")
        except DriverError as error:
            raise CannotOpen(troubles.opening_trouble(error.code, str(error), in_container=in_container())) from error
        self._memory_version = getattr(self.nvml, "nvmlMemory_v2", None)
        if not self.has("nvmlDeviceGetMemoryInfo_v2"):
            self._memory_version = None
        self._new_temperature = hasattr(self.nvml, "nvmlDeviceGetTemperatureV") and self.has(
            "nvmlDeviceGetTemperatureV"
        )

    def call(self, name: str, *arguments: Any) -> Any:
        """One function of the bindings; whatever goes wrong in it becomes a DriverError."""
        try:
            return getattr(self.nvml, name)(*arguments)
        except Exception as error:
            raise self._translated(error) from error

    def has(self, symbol: str) -> bool:
        """The driver's library has this function."""
        try:
            self.symbol(symbol)
        except DriverError:
            return False
        return True

    def symbol(self, name: str) -> Any:
        """The C function itself, for calls whose bindings differ from driver to driver."""
        return self.call("_nvmlGetFunctionPointer", name)

    def check(self, code: int) -> None:
        if code != 0:
            raise self._translated(self.nvml.NVMLError(code))

    def count(self) -> int:
        return int(self.call("nvmlDeviceGetCount"))

    def version(self) -> str | None:
        try:
            return text(self.call("nvmlSystemGetDriverVersion"))
        except DriverError:
            return None

    def memory(self, handle: Handle) -> tuple[int, int]:
        """Used and total. Version 2 of the call, since in version 1 `used` holds the driver's reserve too."""
        if self._memory_version is not None:
            try:
                answer = self.call("nvmlDeviceGetMemoryInfo", handle, self._memory_version)
                return int(answer.used), int(answer.total)
            except DriverError as error:
                if error.code not in (troubles.FUNCTION_NOT_FOUND, troubles.ARGUMENT_VERSION_MISMATCH):
                    raise
                self._memory_version = None
        answer = self.call("nvmlDeviceGetMemoryInfo", handle)
        return int(answer.used), int(answer.total)

    def temperature(self, handle: Handle) -> int:
        """By the newer call where there is one: the older is announced to be removed."""
        name = "nvmlDeviceGetTemperatureV" if self._new_temperature else "nvmlDeviceGetTemperature"
        return int(self.call(name, handle, _TEMPERATURE_OF_THE_CHIP))

    def reasons(self, function: str, handle: Handle) -> int:
        """Bits, by the C function itself: the bindings have other names for it from release to release."""
        bits = c_ulonglong(0)
        self.check(self.symbol(function)(handle, byref(bits)))
        return bits.value

    def _translated(self, error: Exception) -> DriverError:
        if isinstance(error, DriverError):
            return error
        if isinstance(error, self.nvml.NVMLError):
            return DriverError(int(getattr(error, "value", troubles.UNKNOWN)), str(error))
        if isinstance(error, UnicodeDecodeError):
            return DriverError(troubles.NO_DATA, "garbled text")
        missing = isinstance(error, AttributeError) or type(error).__name__ == "NVMLLibraryMismatchError"
        return DriverError(troubles.FUNCTION_NOT_FOUND if missing else troubles.UNKNOWN, str(error))


def load_bindings() -> Any:
    """The module `pynvml` of the package nvidia-ml-py; other packages have shipped a module of that name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            pynvml: Any = importlib.import_module("pynvml")
        except ImportError as error:
            raise CannotOpen(troubles.bindings_missing()) from error
    if not (hasattr(pynvml, "_nvmlGetFunctionPointer") and hasattr(pynvml, "NVMLError")):
        raise CannotOpen(troubles.bindings_shadowed(str(getattr(pynvml, "__file__", "?"))))
    return pynvml


def text(value: str | bytes) -> str:
    """Bindings of some years gave bytes."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def in_container() -> bool:
    marks = ("/.dockerenv", "/run/.containerenv")
    return "container" in os.environ or any(os.path.exists(mark) for mark in marks)
