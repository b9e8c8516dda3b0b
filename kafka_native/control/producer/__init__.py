"""What producers ask of brokers: routes, producer ids, transactions."""
