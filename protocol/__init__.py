"""What the bytes mean: messages, codecs, record batches. Knows no broker, no clock, no socket."""
