"""spec.model: where the model comes from, and the name and length by which it is served."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from forebay_operator.resource.schema import IMAGE, Bytes, ObjectName, Part, ShortText, checked, rule

SOURCE_RULE = (
    rf"self.matches('^oci://{IMAGE}$') || self.matches('^pvc://[a-z0-9]([-a-z0-9.]*[a-z0-9])?(/[^/].*)?$')"
    r" || self.matches('^hf://[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+(@[A-Za-z0-9_./-]+)?$')"
    r" || self.matches('^s3://[a-z0-9][a-z0-9.-]+[a-z0-9](/[^/].*)?$')"
)


class ModelCache(Part):
    claim: ObjectName | None = Field(
        default=None, description="Name of a claim in the same namespace that is there already; not with size."
    )
    size: Bytes | None = Field(
        default=None,
        description="Asks for a claim of so many bytes, such as 20Gi, one for all resources of the source; more is "
        "asked for later where the storage class lets a claim grow.",
    )
    storage_class: ObjectName | None = Field(
        default=None, description="The storage class of that claim; the cluster's own when left out."
    )
    access_mode: Literal["ReadWriteOnce", "ReadWriteMany"] | None = Field(
        default=None,
        description="ReadWriteMany where pods on several nodes are to read it, which the storage class must offer; "
        "ReadWriteOnce when left out.",
    )
    delete_when_unused: bool | None = Field(
        default=None,
        description="Whether that claim goes with the last resource that uses it; it stays when left out.",
    )


class Model(Part):
    source: str = Field(
        description="Where the model's files come from: oci://IMAGE (an image whose root holds them, mounted as a "
        "volume), pvc://CLAIM[/PATH] (a volume that holds them), hf://ORG/NAME[@REVISION] (a hub), or "
        "s3://BUCKET[/PREFIX] (a store that speaks S3).",
        min_length=1,
        max_length=1024,
        json_schema_extra=checked(
            rule(
                SOURCE_RULE,
                "must be oci://IMAGE, pvc://CLAIM[/PATH], hf://ORG/NAME[@REVISION] or s3://BUCKET[/PREFIX]",
            )
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
        "hub's token, for s3:// its keys are AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and, where needed, AWS_REGION, "
        "AWS_ENDPOINT_URL and AWS_SESSION_TOKEN, for oci:// it is a pull secret. The pods are rolled when its contents "
        "change.",
    )
    cache: ModelCache | None = Field(
        default=None,
        description="A volume that a model of hf:// or s3:// is downloaded to once, for all pods and all resources of "
        "that source in the namespace; without it each pod downloads its own.",
        json_schema_extra=checked(
            rule("has(self.claim) != has(self.size)", "cache needs claim or size, not both"),
            rule(
                "!has(self.claim) || !(has(self.storageClass) || has(self.accessMode) || has(self.deleteWhenUnused))",
                "storageClass, accessMode and deleteWhenUnused are of a claim that is asked for by size",
            ),
        ),
    )

    @property
    def origin(self) -> str:
        """The source with its revision."""
        return f"{self.source}@{self.revision}" if self.revision else self.source
