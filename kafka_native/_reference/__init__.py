"""Tables of facts (error codes, configuration properties): data without behaviour, imported by the modules that use them."""
