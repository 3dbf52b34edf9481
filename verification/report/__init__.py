"""What Stormproof must be able to prove, and the page that says which test proves it (`python -m
verification.report`)."""
