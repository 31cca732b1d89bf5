"""The pages of the portal, for a browser. Pure: facts in, HTML out."""
