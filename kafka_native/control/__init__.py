"""The control plane: one thread per client makes the decisions; csrc moves the bytes.

`main_thread` runs the managers and passes their requests to `brokers.pool`. A manager (`metadata`,
`producer.produce_router`, `consumer.fetches`) does no I/O itself. Its ``poll(now)`` returns the
requests to send and the time of its next poll. The reply arrives at the call's ``on_reply``.
"""
