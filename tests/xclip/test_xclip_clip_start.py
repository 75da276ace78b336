"""Image-text CLIP weights as the untrained start of X-CLIP."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from watchword.errors import CheckpointError, DownloadError, InputError
from watchword.xclip import XClip

SIZES: dict[str, Any] = {
    "embed_dim": 64,
    "vision_cfg": {"image_size": 32, "patch_size": 16, "width": 64, "layers": 2, "head_width": 64},
    "text_cfg": {"context_length": 16, "vocab_size": 120, "width": 64, "heads": 1, "layers": 2},
}


@pytest.fixture(scope="module", params=[True, False], ids=["quick_gelu", "gelu"])
def clip(request: pytest.FixtureRequest) -> Any:
    open_clip = pytest.importorskip("open_clip")
    with torch.random.fork_rng():
        torch.manual_seed(2)
        model = open_clip.CLIP(**SIZES, quick_gelu=request.param).eval()
        for parameter in model.parameters():
            parameter.data += 0.05 * torch.randn_like(parameter)
    return model


@torch.no_grad()
def assert_same_image_and_text_features(clip: Any, ours: XClip) -> None:
    """Without the untrained parts, each frame and each text is encoded as CLIP encodes it."""
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(4, 3, 32, 32, generator=generator)
    token_ids = torch.randint(1, 118, (3, 16), generator=generator)
    token_ids[:, 0], token_ids[:, 7] = 118, 119
    assert torch.allclose(ours.encode_text(token_ids), clip.encode_text(token_ids), atol=1e-5)
    for block in ours.visual.transformer.resblocks:
        block.message = False
    assert torch.allclose(ours.visual(images[None])[0][0], clip.encode_image(images), atol=1e-5)


def activation_of(clip: Any) -> str:
    return "gelu" if isinstance(clip.transformer.resblocks[0].mlp.gelu, nn.GELU) else "quick_gelu"


def test_a_file_of_clip_weights(clip: Any, tmp_path: Path) -> None:
    path = tmp_path / "clip.pt"
    extra = {"input_resolution": torch.tensor(32), "context_length": torch.tensor(16), "vocab_size": torch.tensor(120)}
    torch.save({"state_dict": {f"module.{name}": tensor.half() for name, tensor in {**clip.state_dict(), **extra}.items()}}, path)
    ours = XClip.from_pretrained(f"clip:{path}", num_frames=4, activation=activation_of(clip), seed=3)
    assert ours.config.activation == activation_of(clip)
    assert ours.config.num_frames == 4 and not ours.training
    assert "untrained" in ours.config.weights and str(path) in ours.config.weights
    own = ours.state_dict()
    assert all(torch.equal(own[name], tensor.half().float()) for name, tensor in clip.state_dict().items())
    assert all(parameter.dtype == torch.float32 for parameter in ours.parameters())


def test_features_are_those_of_clip(clip: Any, tmp_path: Path) -> None:
    save_file(clip.state_dict(), tmp_path / "clip.safetensors")
    ours = XClip.from_pretrained(f"clip:{tmp_path}/clip.safetensors", num_frames=4, activation=activation_of(clip))
    assert_same_image_and_text_features(clip, ours)


def test_a_torchscript_archive_as_openai_published_them(clip: Any, tmp_path: Path) -> None:
    class Holder(nn.Module):
        def __init__(self, state: dict[str, Tensor]) -> None:
            super().__init__()
            for name, tensor in state.items():
                module: nn.Module = self
                *path, last = name.split(".")
                for part in path:
                    if not hasattr(module, part):
                        module.add_module(part, nn.Module())
                    module = getattr(module, part)
                module.register_parameter(last, nn.Parameter(tensor.half(), requires_grad=False))

        def forward(self, x: Tensor) -> Tensor:
            return x

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        torch.jit.save(torch.jit.script(Holder(clip.state_dict())), tmp_path / "ViT-T-16.pt")
    ours = XClip.from_pretrained(f"clip:{tmp_path}/ViT-T-16.pt")
    assert torch.equal(ours.visual.proj, clip.visual.proj.half().float())
    with pytest.raises(CheckpointError, match="load it as clip:"):
        XClip.from_pretrained(tmp_path / "ViT-T-16.pt")


def test_new_parts_are_drawn_from_the_seed(clip: Any, tmp_path: Path) -> None:
    save_file(clip.state_dict(), tmp_path / "clip.safetensors")
    state = torch.get_rng_state()
    first, again, other = (XClip.from_pretrained(f"clip:{tmp_path}/clip.safetensors", seed=seed).state_dict() for seed in (1, 1, 2))
    assert torch.equal(state, torch.get_rng_state())
    old = set(clip.state_dict())
    assert all(torch.equal(first[name], again[name]) for name in first)
    new = {name for name in first if not torch.equal(first[name], other[name])}
    assert new and not new & old
    constant = set(first) - old - new
    assert all(name.endswith(("bias", "alpha")) or ".ln_" in name or "norm" in name or "_ln" in name for name in constant)
    assert torch.equal(first["prompts_generator.alpha"], torch.full((64,), 0.1))
    assert all(not first[name].any() for name in constant if name.endswith("bias"))


def test_the_untrained_start_can_be_saved_and_loaded(clip: Any, tmp_path: Path) -> None:
    save_file(clip.state_dict(), tmp_path / "clip.safetensors")
    ours = XClip.from_pretrained(f"clip:{tmp_path}/clip.safetensors", num_frames=4)
    ours.save_pretrained(tmp_path / "start")
    assert XClip.from_pretrained(tmp_path / "start").config == ours.config


def test_a_file_that_is_not_whole_is_refused(clip: Any, tmp_path: Path) -> None:
    state = clip.state_dict()
    del state["visual.ln_pre.bias"]
    save_file(state, tmp_path / "clip.safetensors")
    with pytest.raises(CheckpointError, match=r"1 missing: visual\.ln_pre\.bias"):
        XClip.from_pretrained(f"clip:{tmp_path}/clip.safetensors")


def test_names_of_open_clip() -> None:
    pytest.importorskip("open_clip")
    with pytest.raises(InputError, match="near it: clip:ViT-B-32"):
        XClip.from_pretrained("clip:ViT-B-32/opnai")
    with pytest.raises(InputError, match="trained with quick_gelu, not gelu"):
        XClip.from_pretrained("clip:ViT-B-32/openai", activation="gelu")


def test_a_name_that_is_not_in_the_cache_is_not_downloaded_offline(tmp_path: Path) -> None:
    pytest.importorskip("open_clip")
    with pytest.raises(DownloadError, match=r"vit_base_patch32_clip_224\.openai is not on this machine.*playground"):
        XClip.from_pretrained("clip:ViT-B-32/openai", offline=True, cache_dir=tmp_path)


def test_a_name_that_is_in_the_cache_is_used_offline(clip: Any, tmp_path: Path) -> None:
    pytest.importorskip("open_clip")
    repository = tmp_path / "models--timm--vit_base_patch32_clip_224.openai"
    snapshot = repository / "snapshots" / ("0" * 40)
    snapshot.mkdir(parents=True)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("0" * 40)
    save_file(clip.state_dict(), snapshot / "open_clip_model.safetensors")
    ours = XClip.from_pretrained("clip:ViT-B-32/openai", offline=True, cache_dir=tmp_path)
    assert torch.equal(ours.text_projection, clip.text_projection)
    assert ours.config.activation == "quick_gelu" and ours.config.weights.startswith("clip:ViT-B-32/openai")
