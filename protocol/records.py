"""Record batches of magic 2: the unit of Produce, Fetch and the log (Kafka's message format since 0.11, KIP-98).

A batch is a header of 61 bytes and its records, compressed together or not. This module is the door; the parts are
``batch`` (the header), ``batch_builder`` (writing), ``batch_reader`` (reading), ``batch_check`` (a broker's checks) and
``control`` (the ends of transactions).
"""

from ottla.protocol.batch import ATTRIBUTES_AT as ATTRIBUTES_AT
from ottla.protocol.batch import BASE_OFFSET_AT as BASE_OFFSET_AT
from ottla.protocol.batch import BASE_SEQUENCE_AT as BASE_SEQUENCE_AT
from ottla.protocol.batch import BASE_TIMESTAMP_AT as BASE_TIMESTAMP_AT
from ottla.protocol.batch import BATCH_LENGTH_AT as BATCH_LENGTH_AT
from ottla.protocol.batch import CRC_AT as CRC_AT
from ottla.protocol.batch import HEADER_SIZE as HEADER_SIZE
from ottla.protocol.batch import LAST_OFFSET_DELTA_AT as LAST_OFFSET_DELTA_AT
from ottla.protocol.batch import LEADER_EPOCH_AT as LEADER_EPOCH_AT
from ottla.protocol.batch import LOG_OVERHEAD as LOG_OVERHEAD
from ottla.protocol.batch import MAGIC as MAGIC
from ottla.protocol.batch import MAGIC_AT as MAGIC_AT
from ottla.protocol.batch import MAX_TIMESTAMP_AT as MAX_TIMESTAMP_AT
from ottla.protocol.batch import NO_LEADER_EPOCH as NO_LEADER_EPOCH
from ottla.protocol.batch import NO_PRODUCER_EPOCH as NO_PRODUCER_EPOCH
from ottla.protocol.batch import NO_PRODUCER_ID as NO_PRODUCER_ID
from ottla.protocol.batch import NO_SEQUENCE as NO_SEQUENCE
from ottla.protocol.batch import NO_TIMESTAMP as NO_TIMESTAMP
from ottla.protocol.batch import PRODUCER_EPOCH_AT as PRODUCER_EPOCH_AT
from ottla.protocol.batch import PRODUCER_ID_AT as PRODUCER_ID_AT
from ottla.protocol.batch import RECORD_COUNT_AT as RECORD_COUNT_AT
from ottla.protocol.batch import TRANSACTIONAL_BIT as TRANSACTIONAL_BIT
from ottla.protocol.batch import BatchError as BatchError
from ottla.protocol.batch import BatchHeader as BatchHeader
from ottla.protocol.batch import BatchTooLarge as BatchTooLarge
from ottla.protocol.batch import CorruptBatch as CorruptBatch
from ottla.protocol.batch import Record as Record
from ottla.protocol.batch import TimestampType as TimestampType
from ottla.protocol.batch import TopicPartition as TopicPartition
from ottla.protocol.batch import batch_crc as batch_crc
from ottla.protocol.batch import check_crc as check_crc
from ottla.protocol.batch import end_of_batches as end_of_batches
from ottla.protocol.batch import iter_batches as iter_batches
from ottla.protocol.batch import parse_header as parse_header
from ottla.protocol.batch import patch_base_offset as patch_base_offset
from ottla.protocol.batch_builder import BatchBuilder as BatchBuilder
from ottla.protocol.batch_builder import build_batch as build_batch
from ottla.protocol.batch_builder import record_size_bound as record_size_bound
from ottla.protocol.batch_builder import with_codec as with_codec
from ottla.protocol.batch_builder import with_create_time as with_create_time
from ottla.protocol.batch_builder import with_log_append_time as with_log_append_time
from ottla.protocol.batch_builder import with_max_timestamp as with_max_timestamp
from ottla.protocol.batch_check import MOST_RECORDS as MOST_RECORDS
from ottla.protocol.batch_check import Allowance as Allowance
from ottla.protocol.batch_check import InvalidBatch as InvalidBatch
from ottla.protocol.batch_check import NotABatch as NotABatch
from ottla.protocol.batch_check import ProducedBatch as ProducedBatch
from ottla.protocol.batch_check import check_batch as check_batch
from ottla.protocol.batch_check import framed as framed
from ottla.protocol.batch_check import validate_few as validate_few
from ottla.protocol.batch_check import validating as validating
from ottla.protocol.batch_reader import MOST_NAMED as MOST_NAMED
from ottla.protocol.batch_reader import decode_batch as decode_batch
from ottla.protocol.batch_reader import decompressed_records as decompressed_records
from ottla.protocol.batch_reader import iter_records as iter_records
from ottla.protocol.control import EndOfTransaction as EndOfTransaction
from ottla.protocol.control import build_marker as build_marker
from ottla.protocol.control import parse_marker as parse_marker
