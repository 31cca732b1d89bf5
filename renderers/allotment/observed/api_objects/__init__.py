"""The shapes of live objects as the API has them, one module a kind, no field more than is needed; and what is kept
of each.

Decoding skips every field that isn't named here, so that tens of thousands of objects stay small and cheap to read.
"""
