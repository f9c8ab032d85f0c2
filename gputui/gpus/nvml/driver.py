"""Open NVML and translate its errors."""

from __future__ import annotations

import importlib
import os
import warnings
from ctypes import byref, c_ulonglong
from typing import Any

from gputui.gpus.sample import Status, Trouble

# Error codes


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
"""Error codes which mean that a query will never be answered."""

DEVICE_GONE = frozenset({1, DRIVER_NOT_LOADED, GPU_IS_LOST, RESET_REQUIRED, VERSION_MISMATCH, GPU_NOT_FOUND})
"""Error codes which mean that no other query to the device can succeed."""

_DEVICE_WORDS = {
    NO_PERMISSION: (Status.DENIED, "no permission to read this GPU"),
    GPU_IS_LOST: (Status.LOST, "fell off the bus (dmesg may show Xid 79); reboot to recover it"),
    RESET_REQUIRED: (Status.LOST, "needs a reset: `nvidia-smi --gpu-reset`, or a reboot"),
    GPU_NOT_FOUND: (Status.LOST, "no longer present"),
}


def device_status(code: int, text: str) -> tuple[Status, str]:
    """Return the status of a device that answered with an error."""
    return _DEVICE_WORDS.get(code, (Status.ERROR, f"driver: {text}"))


def opening_trouble(code: int, text: str, *, in_container: bool) -> Trouble:
    """Explain why the driver cannot be opened."""
    if code in (UNKNOWN, OPERATING_SYSTEM) and in_container:
        return Trouble(
            "this container lost its GPUs",
            "restart the container; `systemctl daemon-reload` on the host can cause this",
        )
    return _OPENING.get(code) or Trouble(
        f"the NVIDIA driver is not responding: {text}",
        "check `nvidia-smi` and `dmesg`",
    )


_OPENING = {
    NO_PERMISSION: Trouble(
        "no permission to use the NVIDIA driver",
        "ask for access to /dev/nvidia*, often via the group `video` or `render`",
    ),
    DRIVER_NOT_LOADED: Trouble(
        "the NVIDIA kernel module is not loaded",
        "`sudo modprobe nvidia`, or reboot; after a kernel update, rebuild the module",
    ),
    LIBRARY_NOT_FOUND: Trouble(
        "no NVIDIA driver found (libnvidia-ml.so.1 is missing)",
        "ignore this on a machine without GPUs; start containers with `--gpus all`",
        harmless=True,
    ),
    VERSION_MISMATCH: Trouble(
        "the NVIDIA driver was upgraded but the old kernel module is loaded",
        "reboot, or quit all GPU programs and reload the module",
    ),
}

NO_DEVICES = Trouble(
    "the NVIDIA driver works but finds no GPU",
    "check `lspci | grep -i nvidia`; start containers with `--gpus all`",
)


def opening_silent(seconds: float) -> Trouble:
    return Trouble(
        f"no response from the NVIDIA driver for {seconds:.0f} s",
        ("if `nvidia-smi` hangs too, see `dmesg`; if it is just slow, `sudo nvidia-smi -pm 1` keeps the driver loaded"),
    )


# The driver


Handle = Any
"""An opaque pointer to a device in NVML."""

_TEMPERATURE_OF_THE_CHIP = 0


class DriverError(Exception):
    """An NVML call failed. `code` is NVML's error code."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class CannotOpen(Exception):
    """NVML cannot be opened. `trouble` explains why."""

    def __init__(self, trouble: Trouble) -> None:
        super().__init__(trouble.message)
        self.trouble = trouble


class Driver:
    """Interface to NVML. Its methods may hang, so only the threads of the driver and of the devices call them."""

    def __init__(self) -> None:
        self.nvml = load_bindings()
        try:
            self.call("nvmlInit")
        except DriverError as error:
            raise CannotOpen(opening_trouble(error.code, str(error), in_container=in_container())) from error
        has_version_2 = self.has("nvmlDeviceGetMemoryInfo_v2")
        self._memory_version = getattr(self.nvml, "nvmlMemory_v2", None) if has_version_2 else None
        newer = "nvmlDeviceGetTemperatureV"
        self._new_temperature = hasattr(self.nvml, newer) and self.has(newer)

    def call(self, name: str, *arguments: Any) -> Any:
        """Call a function of the bindings. All its errors are raised as DriverError."""
        try:
            return getattr(self.nvml, name)(*arguments)
        except Exception as error:
            raise self._translated(error) from error

    def has(self, symbol: str) -> bool:
        """Return whether the driver's library has the function."""
        try:
            self.symbol(symbol)
        except DriverError:
            return False
        return True

    def symbol(self, name: str) -> Any:
        """Return a C function. Used for calls whose Python names differ between releases of the bindings."""
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
        """Return used and total bytes. In version 2 of the call, used bytes do not include the driver's reserve."""
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
        """Return the temperature in degrees Celsius, by the newer call if possible. The older call is deprecated."""
        name = "nvmlDeviceGetTemperatureV" if self._new_temperature else "nvmlDeviceGetTemperature"
        return int(self.call(name, handle, _TEMPERATURE_OF_THE_CHIP))

    def reasons(self, function: str, handle: Handle) -> int:
        """Return the bit mask of the reasons why the device is slowed down.

        This calls the C function directly, because its Python name differs between releases.
        """
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
    """Import `pynvml` from nvidia-ml-py. Other packages contain a module of the same name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            pynvml: Any = importlib.import_module("pynvml")
        except ImportError as error:
            message, advice = "the Python package nvidia-ml-py is not installed", "`pip install nvidia-ml-py`"
            raise CannotOpen(Trouble(message, advice)) from error
    if not (hasattr(pynvml, "_nvmlGetFunctionPointer") and hasattr(pynvml, "NVMLError")):
        path = getattr(pynvml, "__file__", "?")
        raise CannotOpen(
            Trouble(
                f"an old `pynvml` package ({path}) shadows NVIDIA's own bindings",
                "`pip uninstall pynvml nvidia-ml-py3`, then `pip install --force-reinstall nvidia-ml-py`",
            )
        )
    return pynvml


def text(value: str | bytes) -> str:
    """Return text as a string. Older bindings return it as bytes."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def in_container() -> bool:
    marks = ("/.dockerenv", "/run/.containerenv")
    return "container" in os.environ or any(os.path.exists(mark) for mark in marks)
