"""What lesson 13 measures: runs of our engine at any rates, left and taken up again (runs), Adam's
first steps (first_steps), the gradient's noise (noise), and the recording of what takes minutes
(recorded)."""
