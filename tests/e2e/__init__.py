"""End-to-end tests: what Allotment renders, on a real control plane."""
