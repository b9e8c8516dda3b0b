"""The key vaults of Azure."""
