"""Records of the namespace's log and of its checkpoints: our own messages, and generated code."""
