"""The same bytes within milliseconds for any shape: a stage of each kind is played once, and its
changes are added up along the rank's actions. Tests hold it to exact/, byte by byte."""
