"""The weights that all contenders get: one bf16 checkpoint a model, and what each one's own tools make of it.

The sample models come as quantized GGUF files. They are widened to bf16 once, and that is the model from then on: the
runtime reads the bf16 file and quantizes on load, llama.cpp's own llama-quantize makes its Q8_0 and Q4_0 files, and
transformers gets the same numbers as a Hugging Face directory. All of it lies in the state folder, not in the checkout.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from bench import llama_cpp_tools, random_model
from bench.state import STATE

ROOT = Path(__file__).parents[1]
SAMPLES = {
    "smollm2": ROOT / ".models/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    "gemma3": ROOT / ".models/gemma3/gemma-3-270m-q4_k_m.gguf",
}


@dataclass(frozen=True, slots=True)
class Model:
    """One model in each contender's own form; a form is made when it is first asked for."""

    name: str

    @property
    def folder(self) -> Path:
        return STATE / "models" / self.name

    @property
    def bf16(self) -> Path:
        """The GGUF file that all others are made of."""
        path = self.folder / "bf16.gguf"
        if not path.is_file():
            self.folder.mkdir(parents=True, exist_ok=True)
            if self.name in SAMPLES:
                _quantize(SAMPLES[self.name], path, "BF16")
            else:
                random_model.write(path, self.folder / "hf", vocabulary=SAMPLES["smollm2"])
        return path

    def quantized(self, kind: str) -> Path:
        """`kind`: Q8_0 or Q4_0, by llama.cpp's own choice of what each tensor gets."""
        path = self.folder / f"{kind.lower()}.gguf"
        if not path.is_file():
            _quantize(self.bf16, path, kind)
        return path

    @property
    def hf(self) -> Path:
        """A Hugging Face directory with the same numbers in bf16."""
        path = self.folder / "hf"
        if not (path / "config.json").is_file():
            _convert(self.bf16, path)
        return path


def _quantize(source: Path, path: Path, kind: str) -> None:
    """A file is there only once it is whole."""
    part = path.with_suffix(".part")
    command = [llama_cpp_tools.path("llama-quantize"), "--allow-requantize", str(source), str(part), kind]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    part.rename(path)


def _convert(gguf: Path, path: Path) -> None:
    """Of the Llama family. transformers' own reader of GGUF weights wants one more package, and dequantizes as ours."""
    import torch
    import transformers

    from forebay_runtime.gguf_file import read_gguf
    from forebay_runtime.models.weights import GgufSource
    from forebay_runtime.progress import Progress

    config = transformers.AutoConfig.from_pretrained(gguf.parent, gguf_file=gguf.name)
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    source = GgufSource(read_gguf(gguf), Progress())
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            rows = source.get(name, torch.bfloat16)
            if ".q_proj." in name or ".k_proj." in name:  # GGUF's Llama rotates neighbours, transformers rotates halves
                rows = rows.view(-1, config.head_dim // 2, 2, rows.shape[1]).transpose(1, 2).flatten(0, 2)
            parameter.copy_(rows)
    transformers.AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name).save_pretrained(path)
    model.save_pretrained(path)
