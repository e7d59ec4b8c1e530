"""Text to batches: corpus (which text), tokenizer (text to numbers), loader (which rank gets which
sequence)."""
