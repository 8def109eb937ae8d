"""What may be done, in the application's words. Functions take keywords only; none of them knows of ASGI or HTTP."""
