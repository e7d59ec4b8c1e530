"""What lesson 12 measures: training with every optimizer of the engine, judged on text that no step
has seen (trial), the recording of what takes minutes (recorded), singular values of real momentum
(spectra), and real moments in eight bits (moments)."""
