"""What a model sees: tools with schemas, their answers as JSON, and nothing that could be taken for an instruction."""
