"""DescribeCluster (key 60). KIP-700."""

from __future__ import annotations

from ottla.protocol.schema import ArrayOf, Boolean, Int8, Int16, Int32, Message, String, Words, message, struct, wire


@message(versions=range(3), flexible_from=0)
class DescribeClusterRequest(Message):
    """Ask for the cluster's id, controller and brokers."""

    include_cluster_authorized_operations: bool = wire(Boolean)
    endpoint_type: int = wire(Int8, since=1, default=1)
    include_fenced_brokers: bool = wire(Boolean, since=2)


@struct
class DescribeClusterBroker:
    """One broker and the address at which it is reached."""

    broker_id: int = wire(Int32)
    host: str = wire(String)
    port: int = wire(Int32)
    rack: str | None = wire(String, nullable_since=0, default=None)
    is_fenced: bool = wire(Boolean, since=2)


@message(versions=range(3), flexible_from=0)
class DescribeClusterResponse(Message):
    """The cluster as this broker sees it."""

    throttle_time_ms: int = wire(Int32)
    error_code: int = wire(Int16)
    error_message: str | None = wire(Words, nullable_since=0, default=None)
    endpoint_type: int = wire(Int8, since=1, default=1)
    cluster_id: str = wire(String)
    controller_id: int = wire(Int32, default=-1)
    brokers: list[DescribeClusterBroker] = wire(ArrayOf(DescribeClusterBroker))
    cluster_authorized_operations: int = wire(Int32, default=-2147483648)
