"""What lesson 12 measures: training with every optimizer of the engine, judged on text that no step
has seen (trial), and the recording of what takes minutes (recorded); optimizer states of a real run
(states), what becomes of them in fewer bytes (small_states), and of momentum made orthogonal
(orthogonal)."""
