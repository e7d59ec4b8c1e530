"""The command line's verbs: `train`, `estimate`, `compare`. Flags are made from the dataclasses of
config/."""
