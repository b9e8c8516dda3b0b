"""Tables of facts, error codes and configuration properties: data without behaviour."""
