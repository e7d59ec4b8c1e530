"""Instruments: they fill a Report from live tensors, sent buffers and the clock, never from a
formula."""
