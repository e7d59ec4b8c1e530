"""The model's forward and backward pass over values without numbers: what every kernel allocates,
saves, computes, moves and sends."""
