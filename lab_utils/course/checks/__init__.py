"""The checks of the labs, a package for each, and what they share: `verdict` (what a check answers)
and `ranks` (how it watches)."""
