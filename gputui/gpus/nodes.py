"""The nodes of a cluster, as samples show them: their GPUs are devices of the sample, called `node:index`.

Owns the shapes only; who asks the cluster is for others.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class NodeStanding(StrEnum):
    """Whether a node takes jobs."""

    UP = "up"
    DRAINING = "draining"
    """Closed, and jobs run there still."""
    DRAINED = "drained"
    DOWN = "down"

    @property
    def closed(self) -> bool:
        return self is not NodeStanding.UP


class NodeSample(Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    standing: NodeStanding = NodeStanding.UP
    gpus: int = 0
    used: int = 0
    """By whomever."""
    unplaced: int = 0
    """Those in use of which the cluster does not say which they are."""
    reason: str | None = None
    """The admin's words, where it is closed."""
    closed_by: str | None = None
    closed_at: float | None = None


class ClusterSample(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is to be known of the cluster besides its GPUs."""

    name: str = ""
    partition: str | None = None
    """The one that the session asks for; None: whichever is the cluster's default."""
    nodes: tuple[NodeSample, ...] = ()
    asked: float | None = None
    """When it answered last; Unix seconds."""
    silent: str | None = None
    """Why it does not answer now."""


def device_word(node: str, index: int) -> str:
    """What a GPU of a cluster is called everywhere."""
    return f"{node}:{index}"


def node_of(word: str) -> str:
    return word.rpartition(":")[0]
