"""Security: TLS contexts from the ``ssl.*`` properties, and SASL mechanisms.

The modules of this package open no broker connections and know no client threads. A PLAINTEXT
client imports neither OpenSSL nor a SASL library.
"""
