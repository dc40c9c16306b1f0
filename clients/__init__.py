"""The included asyncio client: Consumer, Producer, Admin."""
