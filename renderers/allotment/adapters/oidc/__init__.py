"""The login of a person at an identity provider: requests, the callback, and the stored tokens."""
