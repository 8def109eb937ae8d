"""Sessions after the fact: finding them, what became of them and why, and what people say of them."""
