"""The gate: reads what was rendered again, and refuses what lies outside what its owner may have."""
