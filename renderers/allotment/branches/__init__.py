"""The branches at remotes: the merged commits with their settings, the published and the reported state, and the trusted commits."""
