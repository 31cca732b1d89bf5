"""The observed state: derives the status of tenants from live objects, with reasons that the owners understand."""
