"""The requests of consumers and share consumers: offsets, fetches, commits, acknowledgements."""
