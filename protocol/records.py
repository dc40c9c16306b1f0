"""Record batches of magic 2: the unit of Produce, Fetch and the log (Kafka's message format since 0.11, KIP-98).

A batch is a header of 61 bytes and its records, compressed together or not. This module is the door; the parts are
``batch`` (the header), ``batch_builder`` (writing), ``batch_reader`` (reading), ``batch_check`` (a broker's checks) and
``control`` (the ends of transactions).
"""

# ruff: noqa: F403 - the modules say what is public
from ottla.protocol.batch import *
from ottla.protocol.batch_builder import *
from ottla.protocol.batch_check import *
from ottla.protocol.batch_reader import *
from ottla.protocol.control import *
