"""/v1/messages in Anthropic's wire format: translated to chats, answered as content blocks."""
