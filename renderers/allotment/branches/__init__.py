"""The branches at remotes: the merged commits, the published and the reported state, and the trusted commits."""
