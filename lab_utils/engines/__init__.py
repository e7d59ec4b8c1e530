"""Production libraries behind the same configuration and the same Report, to hold ours against."""
