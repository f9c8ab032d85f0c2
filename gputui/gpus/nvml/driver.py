"""Opens NVML once; error codes in words."""

from __future__ import annotations

import importlib
import os
import warnings
from ctypes import byref, c_ulonglong
from typing import Any

from gputui.gpus.sample import Status, Trouble, TroubleKind

# ---- The driver's error codes in words ----


NOT_SUPPORTED = 3
NO_PERMISSION = 4
NOT_FOUND = 6
INSUFFICIENT_SIZE = 7
DRIVER_NOT_LOADED = 9
LIBRARY_NOT_FOUND = 12
FUNCTION_NOT_FOUND = 13
GPU_IS_LOST = 15
RESET_REQUIRED = 16
OPERATING_SYSTEM = 17
VERSION_MISMATCH = 18
NO_DATA = 21
ARGUMENT_VERSION_MISMATCH = 25
GPU_NOT_FOUND = 28
UNKNOWN = 999

UNANSWERABLE = frozenset({NOT_SUPPORTED, FUNCTION_NOT_FOUND, ARGUMENT_VERSION_MISMATCH})
"""The device will say the same next second."""

DEVICE_GONE = frozenset({1, DRIVER_NOT_LOADED, GPU_IS_LOST, RESET_REQUIRED, VERSION_MISMATCH, GPU_NOT_FOUND})
"""After one of these no other question to the device is worth asking."""

_DEVICE_WORDS = {
    NO_PERMISSION: (Status.DENIED, "no permission to read this GPU"),
    GPU_IS_LOST: (Status.LOST, "fell off the bus (dmesg may say Xid 79); only a reboot brings it back"),
    RESET_REQUIRED: (Status.LOST, "needs a reset: `nvidia-smi --gpu-reset`, or a reboot"),
    GPU_NOT_FOUND: (Status.LOST, "is not there any more"),
}


def device_status(code: int, text: str) -> tuple[Status, str]:
    """For one device that refuses to answer at all."""
    return _DEVICE_WORDS.get(code, (Status.ERROR, f"the driver says: {text}"))


def opening_trouble(code: int, text: str, *, in_container: bool) -> Trouble:
    """For a driver that cannot be opened."""
    if code in (UNKNOWN, OPERATING_SYSTEM) and in_container:
        return Trouble(
            TroubleKind.CONTAINER,
            "this container lost its GPUs",
            "restart the container; `systemctl daemon-reload` on the host takes the devices from running ones",
        )
    return _OPENING.get(code) or Trouble(
        TroubleKind.OTHER,
        f"the NVIDIA driver does not answer: {text}",
        "`nvidia-smi` should show the same; see `dmesg`",
    )


_OPENING = {
    NO_PERMISSION: Trouble(
        TroubleKind.DENIED,
        "no permission to use the NVIDIA driver",
        "ask for access to /dev/nvidia*: often membership of the group `video` or `render`",
    ),
    DRIVER_NOT_LOADED: Trouble(
        TroubleKind.NOT_LOADED,
        "the NVIDIA kernel module is not loaded",
        "`sudo modprobe nvidia`, or reboot; after a kernel update the module must be built again",
    ),
    LIBRARY_NOT_FOUND: Trouble(
        TroubleKind.NO_LIBRARY,
        "there is no NVIDIA driver here (libnvidia-ml.so.1 was not found)",
        "nothing, on a machine without GPUs; in a container start it with `--gpus all`",
    ),
    VERSION_MISMATCH: Trouble(
        TroubleKind.MISMATCH,
        "the NVIDIA driver was upgraded under the running kernel module",
        "reboot, or end all GPU programs and reload the module",
    ),
}

NO_DEVICES = Trouble(
    TroubleKind.NO_DEVICES,
    "the NVIDIA driver works but shows no GPU",
    "`lspci | grep -i nvidia` tells whether the machine has one; in a container start it with `--gpus all`",
)


def bindings_missing() -> Trouble:
    return Trouble(
        TroubleKind.BINDINGS, "the Python package nvidia-ml-py is not installed", "`pip install nvidia-ml-py`"
    )


def bindings_shadowed(path: str) -> Trouble:
    return Trouble(
        TroubleKind.BINDINGS,
        f"an old package `pynvml` ({path}) hides NVIDIA's own bindings",
        "`pip uninstall pynvml nvidia-ml-py3`, then `pip install --force-reinstall nvidia-ml-py`",
    )


def opening_silent(seconds: float) -> Trouble:
    return Trouble(
        TroubleKind.SILENT,
        f"the NVIDIA driver has not answered for {seconds:.0f} s",
        "if `nvidia-smi` hangs too, see `dmesg`; if it is only slow, `sudo nvidia-smi -pm 1` keeps the driver open",
    )


# ---- The door to NVML ----


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
            raise CannotOpen(opening_trouble(error.code, str(error), in_container=in_container())) from error
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
                if error.code not in (FUNCTION_NOT_FOUND, ARGUMENT_VERSION_MISMATCH):
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
            return DriverError(int(getattr(error, "value", UNKNOWN)), str(error))
        if isinstance(error, UnicodeDecodeError):
            return DriverError(NO_DATA, "garbled text")
        missing = isinstance(error, AttributeError) or type(error).__name__ == "NVMLLibraryMismatchError"
        return DriverError(FUNCTION_NOT_FOUND if missing else UNKNOWN, str(error))


def load_bindings() -> Any:
    """The module `pynvml` of the package nvidia-ml-py; other packages have shipped a module of that name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            pynvml: Any = importlib.import_module("pynvml")
        except ImportError as error:
            raise CannotOpen(bindings_missing()) from error
    if not (hasattr(pynvml, "_nvmlGetFunctionPointer") and hasattr(pynvml, "NVMLError")):
        raise CannotOpen(bindings_shadowed(str(getattr(pynvml, "__file__", "?"))))
    return pynvml


def text(value: str | bytes) -> str:
    """Bindings of some years gave bytes."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def in_container() -> bool:
    marks = ("/.dockerenv", "/run/.containerenv")
    return "container" in os.environ or any(os.path.exists(mark) for mark in marks)
