"""What one layer is made of."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Layer:
    """Equal layers become one group."""

    mixer: str  # full | sliding | chunked | indexed | compressed_* | cross | linear (one matrix instead) | none
    mlp: str  # dense | moe | hash_moe | linear | none
    recurrent: bool = False  # a recurrent mixer, alone or beside attention
    owns_cache: bool = True  # False: it reads an earlier layer's keys and values
    owns_index: bool = True  # False: it reads what an earlier layer's indexer chose
    place: str = ""  # first, rest or last, where only some have a tensor
    says: tuple[tuple[str, object], ...] = ()  # keys that this layer has otherwise

    @property
    def tags(self) -> set[str]:
        """Names by which norms and extra tensors choose their layers."""
        tags = {"layer", self.mixer, self.mlp, "owner" if self.owns_cache else "shared", *self.place.split()}
        if self.mixer != "none":
            tags.add("attention")
        if self.mixer == "indexed" and self.owns_index:
            tags.add("indexer")
        if self.recurrent:
            tags.add("recurrent")
        if self.mlp == "hash_moe":
            tags.add("moe")
        elif self.mlp == "moe":
            tags.add("plain_moe")
        return tags
