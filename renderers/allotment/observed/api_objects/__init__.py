"""The types of live objects as the API server sends them, one module per kind, and functions that summarize objects.

Decoding skips every field that isn't defined here, so that tens of thousands of objects stay small and cheap to read.
"""
