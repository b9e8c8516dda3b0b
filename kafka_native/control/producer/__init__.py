"""The requests of producers: routes, producer ids, transactions."""
