"""Families of the operators in torch's database, and what of each ran natively throughout.

python tests/e2e/op_families.py ROWS.jsonl       rows as check/opinfo.py --out writes them; --list names the others
"""

from __future__ import annotations

import collections
import fnmatch
import json
import sys
from collections.abc import Iterable
from typing import Any

import torch

FAMILIES = ("pointwise", "reduction", "view", "index", "norm")

# What torch's own types and tags do not say, as shell patterns; the first family that has the name counts.
_NORMS = """*_norm *_batch_norm_* renorm *normalize *local_response_norm"""
_BY_NAME = {
    "index": """
        _unsafe_masked_index* __getitem__ gather scatter* index_* take* put masked_fill masked_select masked_scatter
        nonzero* argwhere *_scatter searchsorted bucketize nn.functional.embedding*
    """,
    "reduction": """
        *softmax* *softmin logsumexp masked.logsumexp logcumsumexp *median *cumsum *cumprod *.norm norm
        linalg.vector_norm var_mean std_mean aminmax max_reduction* min_reduction* cummax cummin trace mode kthvalue
        cumulative_trapezoid trapezoid trapz *quantile dist sum_to_size
    """,
    "view": """
        *_copy *cat *stack *split* *chunk flip fliplr flipud rot90 roll repeat tile tril triu clone contiguous
        *unfold meshgrid atleast_?d broadcast_* block_diag constant_pad_nd nn.functional.pad reshape* ravel flatten
        unflatten expand* squeeze t T H mT mH transpose permute movedim swapaxes view* *diagonal diag diag_embed
        diagflat select slice narrow unbind resolve_* combinations cartesian_prod fft.fftshift fft.ifftshift
        nn.functional.*_shuffle nn.functional.*_unshuffle
    """,
    "pointwise": """
        nn.functional.*relu nn.functional.relu6 nn.functional.*elu nn.functional.*silu nn.functional.mish
        nn.functional.hard* nn.functional.*shrink nn.functional.logsigmoid nn.functional.softplus
        nn.functional.softsign nn.functional.threshold nn.functional.glu where clamp lerp addcmul addcdiv isin
        isclose allclose equal to float double half bfloat16 int long short byte char bool chalf cfloat cdouble
        type_as frexp polar complex fill zero_ heaviside nan_to_num masked.logaddexp
    """,
}


def _named(name: str, patterns: str) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns.split())


def family(op: Any) -> str:
    """Of an OpInfo: one of FAMILIES, or "other" (linear algebra, convolution, pooling, losses, creation, ...)."""
    from torch.testing._internal.opinfo import core

    if _named(op.name, _NORMS) and not op.name.startswith("linalg."):
        return "norm"
    if isinstance(op, (core.UnaryUfuncInfo, core.BinaryUfuncInfo)):
        return "pointwise"
    if isinstance(op, core.ReductionOpInfo) or op.variant_test_name.startswith("reduction"):  # min, max
        return "reduction"
    if found := next((f for f, patterns in _BY_NAME.items() if _named(op.name, patterns)), None):
        return found
    packet = getattr(torch.ops.aten, op.name.replace("nn.functional.", "").replace("special.", "special_"), None)
    overloads = [getattr(packet, name) for name in packet.overloads()] if packet is not None else []
    if any(torch.Tag.pointwise in overload.tags for overload in overloads):
        return "pointwise"
    returned = [r.alias_info for overload in overloads for r in overload._schema.returns]
    return "view" if any(alias is not None and not alias.is_write for alias in returned) else "other"


class Shares:
    """Items counted by family: those that are right, and of these the ones that ran natively throughout."""

    def __init__(self) -> None:
        self.right: collections.Counter[str] = collections.Counter()
        self.native: collections.Counter[str] = collections.Counter()

    def add(self, op: Any, native_ops: Iterable[str], extern_ops: Iterable[str]) -> bool:
        """Counts an item that is right; whether it ran natively throughout: in graphs, none with an extern call."""
        native = bool(list(native_ops)) and not list(extern_ops)
        self.right[family(op)] += 1
        self.native[family(op)] += native
        return native

    def share(self) -> float:
        """Of the families' items together."""
        return sum(self.native[f] for f in FAMILIES) / max(sum(self.right[f] for f in FAMILIES), 1)

    def __str__(self) -> str:
        lines = [f"{f:10} {self.native[f]:5} of {self.right[f]:5}" for f in (*FAMILIES, "other")]
        native, right = (sum(c[f] for f in FAMILIES) for c in (self.native, self.right))
        return "\n".join([*lines, f"the five together: {native} of {right}, {self.share():.1%}"])


def main() -> None:
    from torch.testing._internal.common_methods_invocations import op_db

    ops = {(op.name, op.variant_test_name): op for op in op_db}
    shares, others = Shares(), []
    with open(sys.argv[1]) as rows:
        for row in map(json.loads, rows):
            item, op = row["item"], ops[row["item"]["op"], row["item"]["variant"]]
            if row["status"] == "right" and not shares.add(op, row["native"], row["extern"]) and family(op) in FAMILIES:
                others.append(
                    f"{family(op)}: {item['op']} {item['variant']} {item['dtype']}: {', '.join(row['extern'])}"
                )
    if "--list" in sys.argv:
        print("\n".join(sorted(others)))
    print(shares)


if __name__ == "__main__":
    main()
