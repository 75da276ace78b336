"""Training of expanded models: their own tokenizer and preprocessing, which parameters decay, and what is saved."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from test_xclip_expanded import architecture_of, clips_for, expanded, tokenizer_folder

from watchword.errors import ConfigError
from watchword.training import load_recipe, run
from watchword.xclip import XClip
from watchword.xclip.class_heads import make_head
from watchword.xclip.cost import count_cost
from watchword.xclip.expanded import ExpandedXClip
from watchword.xclip.recipe import SupervisedProgram, parameter_groups

pytestmark = [pytest.mark.filterwarnings("ignore:torch.searchsorted"), pytest.mark.filterwarnings("ignore:Using a non-tuple")]
SIGLIP = "SigLIP: no class token, attention pooling"
OPTIMIZER = SimpleNamespace(learning_rate=0.1, new_parts_factor=10.0, weight_decay=0.5, muon_learning_rate=None, decay_logit_scale=True)
RECIPE = """
program: supervised
name: mine
model: {num_frames: 3}
start: START
data: {kind: playground_clips, num_clips: 4, num_held_out: 3}
training: {num_steps: 1, batch_size: 2, device: cpu, optimizer: {learning_rate: 0.001}}
"""


def test_a_run_uses_the_model_s_own_tokenizer_and_saves_it(tmp_path: Path) -> None:
    architecture = architecture_of(SIGLIP)
    architecture["text_cfg"] |= {"hf_tokenizer_name": "nobody/tokenizer", "context_length": 16}
    _, model = expanded(architecture)
    model.tokenizer_folder = tokenizer_folder(tmp_path / "tokenizer")
    program = SupervisedProgram(model, (), class_names=["a dog", "a cat"], trained="video", label_smoothing=0.0, mixing=None, held_out={})
    assert program.head.token_ids[:, :4].tolist() == [[3, 4, 1, 0], [3, 5, 1, 0]]
    program.save(tmp_path / "saved", model.state_dict())
    again = XClip.from_pretrained(tmp_path / "saved")
    assert isinstance(again, ExpandedXClip) and torch.equal(again.tokenize(["a cat"]), model.tokenize(["a cat"]))
    assert all(torch.equal(tensor, model.state_dict()[name]) for name, tensor in again.state_dict().items())


def test_a_recipe_starts_from_an_expanded_folder_and_leaves_the_image_text_model_as_it_is(tmp_path: Path) -> None:
    _, model = expanded(architecture_of("own ViT"), mit_layers=2)
    model.save_pretrained(tmp_path / "start")
    (tmp_path / "recipe.yaml").write_text(RECIPE.replace("START", str(tmp_path / "start")))
    run(load_recipe(tmp_path / "recipe.yaml"), tmp_path / "run", progress=False)
    trained = XClip.from_pretrained(tmp_path / "run" / "model")
    assert isinstance(trained, ExpandedXClip) and trained.config.mit_layers == 2 and len(trained.config.class_names) == 576
    assert trained.config.preprocessing == model.config.preprocessing and trained.config.weights == "mine"
    changed = {name for name, tensor in trained.state_dict().items() if not torch.equal(tensor, model.state_dict()[name])}
    assert any(name.startswith("visual.") for name in changed) and not [name for name in changed if name.startswith(("text.", "logit"))]
    with pytest.raises(ConfigError, match=r"model\.image_size is the image-text model's own"):
        run(load_recipe(tmp_path / "recipe.yaml", {"model.image_size": 64}), tmp_path / "other", progress=False)


def test_learned_context_is_for_clip_s_text_encoder() -> None:
    _, model = expanded(architecture_of("own ViT"))
    with pytest.raises(ConfigError, match="an expanded model's head is"):
        make_head("context", model, ["a dog", "a cat"], text_learns=False)


@pytest.mark.parametrize("tower", ["own ViT", SIGLIP, "EVA02: rotary positions, SwiGLU", "Swin"])
def test_positions_and_vectors_do_not_decay(tower: str) -> None:
    _, model = expanded(architecture_of(tower))
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    groups = parameter_groups(model, OPTIMIZER, trained="all")
    decays = {names[id(parameter)]: group["weight_decay"] > 0 for group in groups for parameter in group["params"]}
    assert decays.keys() == set(names.values())
    for name, parameter in model.named_parameters():
        kept = parameter.ndim == 1 or any(word in name for word in ("pos", "cls_token", "reg_token", "latent", ".bias"))
        assert decays[name] is not kept, name


def test_its_cost_is_counted() -> None:
    _, model = expanded(architecture_of("own ViT"), num_frames=4)
    cost = count_cost(model.config)
    assert cost.parameters == pytest.approx(sum(parameter.numel() for parameter in model.parameters()) / 1e6)
    blocks = 4 * 2 * 5 * 12 * 64**2  # 4 frames, 2 blocks, 5 tokens
    assert blocks < cost.video * 1e9 < 2 * blocks and cost.text > 0 and cost.score > 0


@pytest.mark.parametrize(("tower", "message"), [("own ViT", "on"), (SIGLIP, "on"), ("ConvNeXt", "on"), (SIGLIP, "off")])
def test_checkpointed_activations_give_equal_gradients(tower: str, message: str) -> None:
    _, model = expanded(architecture_of(tower), message=message)
    gradients = []
    for on in (False, True):
        kept = [0]
        model.checkpoint_activations(on)
        model.zero_grad()
        with torch.autograd.graph.saved_tensors_hooks(lambda tensor, kept=kept: _count(tensor, kept), lambda tensor: tensor):
            features = model.train().encode_video(clips_for(model))
        features.video.square().sum().backward()
        gradients.append(({name: weight.grad.clone() for name, weight in model.named_parameters() if weight.grad is not None}, kept[0]))
    (plain, all_kept), (checkpointed, some_kept) = gradients
    assert some_kept < all_kept
    assert plain.keys() == checkpointed.keys()
    assert all(torch.allclose(checkpointed[name], gradient, atol=1e-6, rtol=1e-5) for name, gradient in plain.items())


def _count(tensor: torch.Tensor, kept: list[int]) -> torch.Tensor:
    kept[0] += tensor.numel()
    return tensor
