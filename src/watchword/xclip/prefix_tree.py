"""Texts that begin alike, encoded together: each distinct beginning is computed once.

The text encoder is causal: a token's vectors depend on the tokens before it alone. All the beginnings of a list of labels form
a tree whose nodes attend to their ancestors. Of Kinetics-400's names a third of all tokens are repeated beginnings; with a sentence around
each name, most are.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from ..layers import Attention, TransformerBlock
from .model import XClip

__all__ = ["PrefixTree", "encode_tree", "prefix_tree"]


@dataclass(frozen=True)
class PrefixTree:
    """The distinct beginnings of K rows of tokens, as nodes (n,) with parents before children.

    Attributes:
        tokens: (n,) the last token of each beginning.
        depths: (n,) how many tokens are before it.
        paths: (n, longest) the nodes from the root to this one, itself last, then padding with 0.
        ends: (K,) the node of each row's end token.
    """

    tokens: Tensor
    depths: Tensor
    paths: Tensor
    ends: Tensor


def prefix_tree(token_ids: Tensor) -> PrefixTree:
    """The tree of token ids (K, L) up to each row's end token, which is its largest id."""
    nodes: dict[tuple[int, int], int] = {}
    paths: list[list[int]] = []
    tokens: list[int] = []
    ends = []
    for row, end in zip(token_ids.tolist(), token_ids.argmax(dim=1).tolist(), strict=True):
        path: list[int] = []
        for token in row[: end + 1]:
            node = nodes.setdefault((path[-1] if path else -1, token), len(tokens))
            path = [*path, node]
            if node == len(tokens):
                tokens.append(token)
                paths.append(path)
        ends.append(path[-1])
    longest = max(map(len, paths))
    return PrefixTree(
        tokens=torch.tensor(tokens),
        depths=torch.tensor([len(path) - 1 for path in paths]),
        paths=torch.tensor([path + [0] * (longest - len(path)) for path in paths]),
        ends=torch.tensor(ends),
    )


def encode_tree(model: XClip, tree: PrefixTree) -> Tensor:
    """The text features (K, E) of the tree's rows: what ``model.encode_text`` gives for them."""
    device = model.text_projection.device
    tokens, depths, paths, ends = (part.to(device) for part in (tree.tokens, tree.depths, tree.paths, tree.ends))
    seen = torch.arange(paths.shape[1], device=device) <= depths[:, None]
    x = model.token_embedding(tokens) + model.positional_embedding[depths]
    for block in model.transformer.resblocks:
        assert isinstance(block, TransformerBlock)
        x = x + _attend_to_ancestors(block.attn, block.ln_1(x), paths, seen)
        x = x + block.mlp(block.ln_2(x))
    out: Tensor = model.ln_final(x[ends]) @ model.text_projection
    return out


def _attend_to_ancestors(attention: Attention, x: Tensor, paths: Tensor, seen: Tensor) -> Tensor:
    packed = F.linear(x, attention.in_proj_weight, attention.in_proj_bias)
    query, key, value = packed.view(len(x), 3, attention.num_heads, -1).unbind(1)  # (n, heads, head_dim)
    scores = torch.einsum("nhd,nlhd->nhl", query * query.shape[-1] ** -0.5, key[paths])
    shares = scores.masked_fill(~seen[:, None], float("-inf")).softmax(dim=-1).to(value.dtype)
    out: Tensor = attention.out_proj(torch.einsum("nhl,nlhd->nhd", shares, value[paths]).flatten(1))
    return out
