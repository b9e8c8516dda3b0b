"""The secrets engine transit of HashiCorp Vault."""
