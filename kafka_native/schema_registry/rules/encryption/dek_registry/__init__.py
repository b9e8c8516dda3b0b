"""The client of the registry for key encryption keys and data encryption keys."""
