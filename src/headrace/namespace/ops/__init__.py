"""One file an operation: `decide` what is asked (pure), `replay` what was decided; or `read`."""
