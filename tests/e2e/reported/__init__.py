"""End-to-end tests on one cloud that is reported as quickly as it changes: edits, reports, storages."""
