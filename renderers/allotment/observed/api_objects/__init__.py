"""The types of live objects in the API's form, one module per kind, and the functions that summarize them.

Decoding skips every field that isn't defined here, so that tens of thousands of objects stay small and cheap to read.
"""
