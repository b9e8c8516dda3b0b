"""kfake, the brokers that franz-go's own tests use, as one more independent broker."""
