"""Security: TLS contexts from the ``ssl.*`` properties, and SASL mechanisms.

Nothing here opens a socket or knows a thread. A client that talks plaintext imports none of the libraries behind them.
"""
