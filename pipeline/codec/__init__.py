"""From bytes of a log to columns, with numpy and Arrow: no Spark, no loop, no socket."""
