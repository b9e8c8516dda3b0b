"""The key management service of Google Cloud."""
