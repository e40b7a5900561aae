"""spec.model: where the model comes from, and the name and length by which it is served."""

from __future__ import annotations

from pydantic import Field

from forebay_operator.resource.schema import IMAGE, ObjectName, Part, ShortText, checked, rule

SOURCE_RULE = (
    rf"self.matches('^oci://{IMAGE}$') || self.matches('^pvc://[a-z0-9]([-a-z0-9.]*[a-z0-9])?(/[^/].*)?$')"
    r" || self.matches('^hf://[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+(@[A-Za-z0-9_./-]+)?$')"
)


class Model(Part):
    source: str = Field(
        description="Where the model's files come from: oci://IMAGE (an image whose root holds them, mounted as a "
        "volume), pvc://CLAIM[/PATH] (a volume that holds them), or hf://ORG/NAME[@REVISION] (a hub).",
        min_length=1,
        max_length=1024,
        json_schema_extra=checked(
            rule(SOURCE_RULE, "must be oci://IMAGE, pvc://CLAIM[/PATH] or hf://ORG/NAME[@REVISION]")
        ),
    )
    file: str | None = Field(
        default=None,
        description="The model's file within the source, such as a GGUF file; the whole directory when left out.",
        min_length=1,
        max_length=253,
        pattern=r"^[A-Za-z0-9_][A-Za-z0-9_./-]*$",
        json_schema_extra=checked(rule("!self.contains('..')", "file lies within the source: no '..'")),
    )
    revision: str | None = Field(
        default=None,
        description="The branch, tag or commit of an hf:// source; what follows @ in the source, else main, when left "
        "out.",
        min_length=1,
        max_length=253,
        pattern=r"^[A-Za-z0-9_][A-Za-z0-9_./-]*$",
    )
    served_name: ShortText | None = Field(
        default=None, description="The model name by which requests ask for it; the resource's own name when left out."
    )
    aliases: list[ShortText] = Field(
        default=[],
        max_length=16,
        description="Further names by which requests may ask for it.",
        json_schema_extra={"x-kubernetes-list-type": "set"},
    )
    context_length: int | None = Field(
        default=None,
        ge=16,
        le=16_777_216,
        description="The most tokens of one sequence, prompt and answer together; what the model allows when left out.",
    )
    credentials_secret: ObjectName | None = Field(
        default=None,
        description="Name of a Secret in the same namespace for getting the model: for hf:// its key `token` is the "
        "hub's token, for oci:// it is a pull secret. The pods are rolled when its contents change.",
    )

    @property
    def origin(self) -> str:
        """The source with its revision."""
        return f"{self.source}@{self.revision}" if self.revision else self.source
