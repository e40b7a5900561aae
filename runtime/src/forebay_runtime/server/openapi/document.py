"""Puts the document together."""

from __future__ import annotations

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from pydantic.json_schema import models_json_schema

from forebay_runtime.server.openapi.operations import OPERATIONS, Operation, Schema

Json = dict[str, Any]

# Before OpenAPI 3.2 the schema of a stream is read as that of each of its events.
_EVENT: Json = {
    "description": "One server-sent event of many; `data` is JSON, or the word [DONE] at the end.",
    "type": "object",
    "properties": {"event": {"type": "string"}, "data": {"type": "string"}},
    "required": ["data"],
}


def document(version: str, *, with_key: bool) -> Json:
    """OpenAPI 3.1. `with_key`: the server asks for its key."""
    schemas = {schema for o in OPERATIONS for schema in (*o.body, o.error, o.reply) if not isinstance(schema, str)}
    ordered = sorted(schemas, key=lambda schema: schema.__name__)
    refs, defined = models_json_schema(
        [(schema, "validation") for schema in ordered], ref_template="#/components/schemas/{model}"
    )
    describe = _Describer({schema: refs[schema, "validation"] for schema in ordered}, with_key=with_key)
    paths: dict[str, Json] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method] = describe.operation(operation)
    components: Json = {"schemas": defined["$defs"]}
    if with_key:
        components["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    about = {"title": "Forebay", "version": version}
    return {"openapi": "3.1.0", "info": about, "paths": paths, "components": components}


class _Describer:
    def __init__(self, refs: Mapping[Schema, Json], *, with_key: bool) -> None:
        self._refs, self._with_key = refs, with_key

    def operation(self, operation: Operation) -> Json:
        guarded = self._with_key and operation.needs_key
        described: Json = {
            "operationId": f"{operation.method}_{re.sub('[^a-z]+', '_', operation.path).strip('_')}",
            "summary": operation.summary,
            "responses": {"200": self._reply(operation), **self._failures(operation, guarded=guarded)},
        }
        if operation.parameters:
            described["parameters"] = list(operation.parameters)
        if operation.body:
            described["requestBody"] = {"required": True, "content": self._json_of(operation.body)}
        if guarded:
            described["security"] = [{"key": []}]
        return described

    def _reply(self, operation: Operation) -> Json:
        reply = operation.reply
        content = {reply: {"schema": {}}} if isinstance(reply, str) else self._json_of((reply,))
        if operation.streams:
            content["text/event-stream"] = {"schema": _EVENT}
        return {"description": "The answer.", "content": content}

    def _failures(self, operation: Operation, *, guarded: bool) -> Json:
        statuses = sorted({*operation.failures, *((401,) if guarded else ())})
        content = self._json_of((operation.error,))
        return {str(status): {"description": HTTPStatus(status).phrase, "content": content} for status in statuses}

    def _json_of(self, schemas: tuple[Schema, ...]) -> Json:
        refs = [self._refs[schema] for schema in schemas]
        return {"application/json": {"schema": refs[0] if len(refs) == 1 else {"anyOf": refs}}}
