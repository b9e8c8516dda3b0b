"""The control plane: what decides, on one thread a client, while csrc moves the bytes.

``main_thread`` runs the managers and hands their requests to ``brokers``; a manager (``metadata``, ``routing``,
``fetching``) is
sans-IO: ``poll(now)`` returns the calls it wants made and when it wants to be asked again, replies come to the call's
``on_reply``.
"""
