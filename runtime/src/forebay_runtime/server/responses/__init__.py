"""/v1/responses: translated to chats, answered as items, kept in memory."""
