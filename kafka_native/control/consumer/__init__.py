"""What consumers and share consumers ask of brokers: offsets, fetches, commits, acknowledgements."""
