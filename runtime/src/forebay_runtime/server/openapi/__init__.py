"""The OpenAPI document: every route, every status, and the bodies as the models that read them say."""
