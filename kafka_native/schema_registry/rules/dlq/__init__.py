"""The action DLQ: messages whose rule fails go to a dead letter queue."""
