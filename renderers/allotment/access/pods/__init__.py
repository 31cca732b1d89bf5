"""Finds the pods of declared resources and accesses them with the rights of the caller."""
