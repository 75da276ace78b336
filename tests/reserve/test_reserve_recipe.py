from __future__ import annotations

from tiny_reserve import tiny_reserve
from watchword.reserve.program import parameter_groups


def test_every_parameter_is_in_one_group_and_biases_of_heads_decay_in_pretraining_only() -> None:
    model = tiny_reserve(width=96)  # so that every matrix has more numbers than finetuning leaves free
    names = {parameter: name for name, parameter in model.named_parameters()}
    decaying, free = ([names[p] for p in group["params"]] for group in parameter_groups(model, learning_rate=0.1))
    assert sorted(decaying + free) == sorted(names.values())
    assert {name.rpartition(".")[2] for name in free} == {"weight", "bias", "cls", "contrastive_scales"}
    assert all("ln" in name for name in free if name.endswith("weight"))
    assert "joint_transformer.layers.0.attn.in_proj_bias" in decaying
    assert "vision_encoder.seq_attnpool.key.bias" in decaying
    assert "token_encoder.weight" in decaying
    decaying_later, _ = ([names[p] for p in group["params"]] for group in parameter_groups(model, learning_rate=0.1, finetuning=True))
    assert {name for name in decaying if name not in decaying_later} == {name for name in decaying if name.endswith("bias")}
