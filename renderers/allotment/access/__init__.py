"""Access to pods and storages: logs, shells, files and SSH, always with the rights of the caller."""
