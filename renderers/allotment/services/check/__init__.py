"""The repository check: reads a whole source and applies every rule, tenant by tenant on all cores."""
