"""Access to pods and storages: logs, shells and files with the rights of the caller, and SSH by declared keys."""
