"""Client-side encryption of fields and payloads.

Data encryption keys (DEK) encrypt the data. Key encryption keys (KEK) stay in a key management
service (KMS) and encrypt the DEKs. The registry stores the encrypted DEKs.
"""
