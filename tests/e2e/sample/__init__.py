"""End-to-end tests of the sample as it is applied: admission, quota, secrets, the dashboard. They change nothing of it."""
