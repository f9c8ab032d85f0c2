"""MIG: a GPU cut into instances, each a device of its own with its parent's UUID beside its own."""

from __future__ import annotations

from gputui.gpus.facts import ProcessTable
from gputui.gpus.sample import DeviceSample, MigInstance

from . import troubles
from .driver import Driver, DriverError, Handle, text
from .metrics import Metrics
from .process_lists import ProcessLists


class Instance:
    """One MIG instance. Its handle goes stale when it is destroyed, so instances are looked up anew often."""

    def __init__(self, driver: Driver, handle: Handle, lists: ProcessLists, table: ProcessTable) -> None:
        self.uuid = text(driver.call("nvmlDeviceGetUUID", handle))
        self.metrics = Metrics(driver, handle, lists, table)
        self.name = self.metrics.ask("name", lambda: text(driver.call("nvmlDeviceGetName", handle))) or "MIG"
        self.place = MigInstance(
            self.metrics.number("nvmlDeviceGetGpuInstanceId"),
            self.metrics.number("nvmlDeviceGetComputeInstanceId"),
        )

    def read(self, parent: DeviceSample) -> DeviceSample:
        """Memory and processes; the driver has no utilization for an instance."""
        memory = self.metrics.memory()
        return DeviceSample(
            index=parent.index,
            uuid=self.uuid,
            name=self.name,
            memory_used=memory.used,
            memory_total=memory.total,
            memory_shared=memory.shared,
            processes=self.metrics.processes(with_utilization=False),
            bus_id=parent.bus_id,
            parent=parent.uuid,
            mig=self.place,
        )


def is_enabled(driver: Driver, handle: Handle) -> bool:
    try:
        return bool(driver.call("nvmlDeviceGetMigMode", handle)[0])
    except DriverError as error:
        if error.code in troubles.DEVICE_GONE:
            raise
        return False


def find_instances(driver: Driver, handle: Handle, lists: ProcessLists, table: ProcessTable) -> list[Instance]:
    """Places may be empty in between, since instances come and go one by one."""
    instances = []
    for number in range(int(driver.call("nvmlDeviceGetMaxMigDeviceCount", handle))):
        try:
            instance_handle = driver.call("nvmlDeviceGetMigDeviceHandleByIndex", handle, number)
            instances.append(Instance(driver, instance_handle, lists, table))
        except DriverError as error:
            if error.code in troubles.DEVICE_GONE:
                raise
    return instances
