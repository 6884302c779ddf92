"""A Stable Diffusion pipeline of the real classes, with a few random weights: it is drawn in milliseconds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import torch

if (
    TYPE_CHECKING
):  # every worker collects the tests of diffusion, and one runs them: imported where it is used
    from transformers import CLIPTokenizer

LENGTH = 77


def tokenizer(folder: Path) -> CLIPTokenizer:
    """Letters and the ends of words, nothing longer."""
    from transformers import CLIPTokenizer
    from transformers.convert_slow_tokenizer import bytes_to_unicode

    letters = list(bytes_to_unicode().values())
    pieces = [*letters, *(f"{letter}</w>" for letter in letters), "<|startoftext|>", "<|endoftext|>"]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.json").write_text(json.dumps({piece: at for at, piece in enumerate(pieces)}))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    return CLIPTokenizer(str(folder / "vocab.json"), str(folder / "merges.txt"), model_max_length=LENGTH)


def pipeline(folder: Path, *, prediction: str = "v_prediction", seed: int = 0, width: int = 8) -> Path:
    """Write all five parts as diffusers does."""
    from diffusers import AutoencoderKL, DDIMScheduler, UNet2DConditionModel
    from transformers import CLIPTextConfig, CLIPTextModel

    torch.manual_seed(seed)
    unet = UNet2DConditionModel(
        sample_size=8,
        in_channels=4,
        out_channels=4,
        block_out_channels=(width, 2 * width),
        layers_per_block=1,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        cross_attention_dim=16,
        attention_head_dim=4,
        norm_num_groups=4,
    )
    vae = AutoencoderKL(
        in_channels=3,
        out_channels=3,
        down_block_types=("DownEncoderBlock2D",) * 3,
        up_block_types=("UpDecoderBlock2D",) * 3,
        block_out_channels=(4, 4, 8),
        latent_channels=4,
        norm_num_groups=4,
        sample_size=32,
    )
    pieces = tokenizer(folder / "tokenizer")
    text_encoder = CLIPTextModel(
        CLIPTextConfig(
            vocab_size=len(pieces),
            hidden_size=16,
            intermediate_size=32,
            num_hidden_layers=2,
            num_attention_heads=2,
            max_position_embeddings=LENGTH,
            bos_token_id=pieces.bos_token_id,
            eos_token_id=pieces.eos_token_id,
        )
    )
    scheduler = DDIMScheduler(
        beta_start=0.00085,
        beta_end=0.012,
        beta_schedule="scaled_linear",
        clip_sample=False,
        set_alpha_to_one=False,
        steps_offset=1,
        prediction_type=prediction,
    )
    for name, part in (
        ("unet", unet),
        ("vae", vae),
        ("text_encoder", text_encoder),
        ("tokenizer", pieces),
        ("scheduler", scheduler),
    ):
        part.save_pretrained(folder / name)
    return folder


def clip(folder: Path, seed: int = 0) -> Path:
    """CLIP of 16 numbers, with the same letters."""
    from transformers import CLIPConfig, CLIPModel, CLIPVisionConfig

    torch.manual_seed(seed)
    pieces = tokenizer(folder)
    small = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    text = {"vocab_size": len(pieces), "max_position_embeddings": LENGTH, **small}
    ends = {"bos_token_id": pieces.bos_token_id, "eos_token_id": pieces.eos_token_id}
    vision = CLIPVisionConfig(image_size=32, patch_size=8, **small)
    model = CLIPModel(CLIPConfig(text_config=text | ends, vision_config=vision.to_dict(), projection_dim=16))
    model.save_pretrained(folder)
    pieces.save_pretrained(folder)
    return folder


def dino(folder: Path, seed: int = 0) -> Path:
    """DINOv2 with registers."""
    from transformers import Dinov2WithRegistersConfig, Dinov2WithRegistersModel

    torch.manual_seed(seed)
    config = Dinov2WithRegistersConfig(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, image_size=28, patch_size=14
    )
    Dinov2WithRegistersModel(config).save_pretrained(folder)
    return folder
