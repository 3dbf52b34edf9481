"""The server behind ``stormproof lab``."""
