"""The control plane: what decides, on one thread a client, while csrc moves the bytes.

`main_thread` runs the managers and hands their requests to `brokers.pool`. A manager (`metadata`,
`producer.produce_router`, `consumer.fetches`) is sans-IO: ``poll(now)`` returns the calls that it wants made, and when
it wants to be asked again. Replies come to the call's ``on_reply``.
"""
