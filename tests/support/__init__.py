"""Helpers that tests of several modules share: one module per concept, without tests."""
