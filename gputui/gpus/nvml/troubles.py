"""The driver's error codes in words: what is wrong and what to do. Pure; knows the codes, not the bindings."""

from __future__ import annotations

from gputui.gpus.sample import Status, Trouble, TroubleKind

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
