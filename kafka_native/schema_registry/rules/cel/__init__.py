"""Rules in the Common Expression Language: conditions and transforms."""
