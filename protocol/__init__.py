"""The meaning of the bytes: messages, codecs, record batches. It knows no broker, no clock, no socket."""
