"""Image-text models of open_clip that are known to expand: each is built, run and trained a step by the tests, with random weights.

Any other open_clip model of an image tower with blocks and open_clip's own text tower can be named too. How good they are was not
measured here; their papers and the pages of their weights say what their makers measured.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["EXPANDABLE", "Expandable"]


@dataclass(frozen=True, kw_only=True)
class Expandable:
    """A configuration of open_clip that can be given as ``name`` wherever a model is named.

    Attributes:
        model, tag: open_clip's names of the architecture and of its weights; tag is "" where open_clip lists no weights.
        tower: the kind of image tower.
        image_size: pixels of a side.
        num_parameters: of the model expanded to 8 frames.
        num_new_parameters: those of them that expansion adds.
        training_data: of the image-text model, as its tag says; the video parts are untrained.
        scored_by: ``softmax`` among the labels, or ``sigmoid`` for each by itself.
        tokenizer: ``CLIP``, which is in the package, or the repository on the Hub that it is fetched from.
        use_for: one line for people who must choose.
    """

    model: str
    tag: str
    tower: str
    image_size: int = 224
    num_parameters: int
    num_new_parameters: int
    training_data: str
    scored_by: str = "softmax"
    tokenizer: str = "CLIP"
    use_for: str

    @property
    def name(self) -> str:
        return f"open_clip:{self.model}" + (f"/{self.tag}" if self.tag else "")


EXPANDABLE = (
    Expandable(
        model="ViT-B-32",
        tag="openai",
        tower="plain ViT",
        num_parameters=203_672_833,
        num_new_parameters=52_395_520,
        training_data="OpenAI's image-text pairs",
        use_for="the cheapest start for training on your own videos; X-CLIP's own start",
    ),
    Expandable(
        model="ViT-B-32",
        tag="laion2b_s34b_b79k",
        tower="plain ViT",
        num_parameters=203_672_833,
        num_new_parameters=52_395_520,
        training_data="LAION-2B",
        use_for="as openai, from weights whose training data is documented",
    ),
    Expandable(
        model="ViT-B-16",
        tag="openai",
        tower="plain ViT",
        num_parameters=202_016_257,
        num_new_parameters=52_395_520,
        training_data="OpenAI's image-text pairs",
        use_for="finer patches, 4 times dearer than patch 32; X-CLIP's own start",
    ),
    Expandable(
        model="ViT-B-16",
        tag="laion2b_s34b_b88k",
        tower="plain ViT",
        num_parameters=202_016_257,
        num_new_parameters=52_395_520,
        training_data="LAION-2B",
        use_for="as openai, from weights whose training data is documented",
    ),
    Expandable(
        model="ViT-B-16-SigLIP2",
        tag="webli",
        tower="plain ViT, attention pooling",
        num_parameters=439_587_842,
        num_new_parameters=64_399_872,
        training_data="WebLI",
        scored_by="sigmoid",
        tokenizer="timm/ViT-B-16-SigLIP2",
        use_for="whether a label fits, each label by itself; labels in many languages",
    ),
    Expandable(
        model="EVA02-B-16",
        tag="merged2b_s8b_b131k",
        tower="plain ViT, rotary positions",
        num_parameters=202_086_657,
        num_new_parameters=52_395_520,
        training_data="Merged-2B",
        use_for="your own words, at the cost of ViT-B-16",
    ),
    Expandable(
        model="PE-Core-B-16",
        tag="meta",
        tower="plain ViT, rotary positions, attention pooling",
        num_parameters=528_783_361,
        num_new_parameters=81_122_816,
        training_data="Meta's images and videos",
        use_for="your own words; an image model whose makers trained it on video frames too; labels up to 30 tokens",
    ),
    Expandable(
        model="convnext_base",
        tag="laion400m_s13b_b51k",
        tower="hierarchical, convolutions",
        num_parameters=233_922_689,
        num_new_parameters=82_403_840,
        training_data="LAION-400M",
        use_for="a hierarchical start, as X-Florence's is",
    ),
    Expandable(
        model="swin_base_patch4_window7_224",
        tag="",
        tower="hierarchical, shifted windows",
        num_parameters=250_737_593,
        num_new_parameters=72_175_488,
        training_data="none: open_clip lists no weights",
        use_for="experiments nearest to X-Florence's CoSwin, from weights of your own",
    ),
)
