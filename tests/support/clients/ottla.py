"""The included client behind the faces that the tests share."""

from __future__ import annotations

from typing import ClassVar

from ottla.clients import Consumer, ConsumerRebalanceListener, Producer, TopicPartition
from tests.support.clients.on_a_loop import LoopKit, LoopMember

ASSIGNORS = ("range", "roundrobin", "sticky", "cooperative-sticky")


class OttlaMember(LoopMember):
    consumer = Consumer
    listener = ConsumerRebalanceListener
    assignors: ClassVar = dict(zip(ASSIGNORS, ASSIGNORS, strict=True))


class OttlaKit(LoopKit):
    kind = "ottla"
    consumer = Consumer
    producer = Producer
    place = TopicPartition


MEMBER, KIT = OttlaMember, OttlaKit
