"""Optimizers beyond torch's own fused ones. Each is an ordinary torch.optim.Optimizer that knows
nothing of ranks; where a rule needs more of a tensor than a rank holds, it is given a function that
asks the others."""
