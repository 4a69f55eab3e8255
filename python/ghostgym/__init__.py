"""ghostgym: train a CPU scheduling policy in Gymnasium and deploy it in the same Go agent."""

__version__ = "0.1.0"
