"""The pure core: synchronous state machines. No asyncio, time, random, uuid, os or socket."""
