"""Copies files between the local computer and a storage: resumable, checked by hash, several at a time."""
