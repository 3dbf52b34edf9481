"""The server's half of the contract, as rules without a server: ASGI, WSGI and gRPC drive them."""
