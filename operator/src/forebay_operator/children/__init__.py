"""The desired children of a resource, one kind per file: (resource, config) -> manifest. No I/O, no clock."""
