"""What lesson 11 measures: signals through depth (signal), training with and without remedies
(trial), activations against width (coordinates), and the recording of what takes minutes
(recorded)."""
