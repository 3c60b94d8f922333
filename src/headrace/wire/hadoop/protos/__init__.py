"""Our `.proto` files with the public field numbers, and the code generated from them."""
