"""What people wrote: from (path, bytes) to an inventory of checked declarations."""
