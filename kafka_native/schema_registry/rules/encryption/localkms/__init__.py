"""A key management service inside the process, for tests and single machines."""
