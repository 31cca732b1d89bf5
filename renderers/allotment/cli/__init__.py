"""The command line: one module per command, which parses arguments, calls the services, and prints the result."""
