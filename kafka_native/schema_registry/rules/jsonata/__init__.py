"""Rules in JSONata: migrations between versions of a schema."""
