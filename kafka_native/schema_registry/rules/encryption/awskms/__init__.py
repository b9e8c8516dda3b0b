"""The key management service of AWS."""
