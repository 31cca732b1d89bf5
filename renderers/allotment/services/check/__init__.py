"""Checking: a whole source is read and held against every rule, tenant by tenant on all cores."""
