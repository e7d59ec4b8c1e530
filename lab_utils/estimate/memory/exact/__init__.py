"""One optimizer step of one rank played through, buffer by buffer, without numbers: what is alive
at every moment."""
