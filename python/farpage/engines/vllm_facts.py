"""What of vLLM's configuration decides what is in a page, beside its place and layout."""

from __future__ import annotations

import logging
import sys
from types import FrameType
from typing import Any, Optional

from vllm.config import VllmConfig
from vllm.config.utils import normalize_value

# Of vLLM's ModelConfig, CacheConfig and SpeculativeConfig.
MODEL = ("code_revision", "quantization", "quantization_config", "disable_sliding_window", "model_class_overrides")
CACHE = ("cache_dtype", "kv_cache_dtype_skip_layers", "calculate_kv_scales", "mamba_cache_dtype", "mamba_ssm_cache_dtype", "prefix_caching_hash_algo")
DRAFT = ("model", "revision")  # whose layers have KV as well
_log = logging.getLogger("farpage")


def engine_facts(vllm_config: Optional[VllmConfig]) -> dict[str, str]:
    """For `page_space()`. The model's configuration is the one that it runs with: with
    `--hf-overrides` and whatever else vLLM changed in it."""
    if vllm_config is None:
        return {}
    model: Any = vllm_config.model_config
    config = str(normalize_value(model.hf_config))
    facts = {"revision": model.revision or "", "download_folder": vllm_config.load_config.download_dir or "", "config": config,
             "computed_dtype": str(model.dtype), "load_format": str(vllm_config.load_config.load_format)}
    if "longrope" in config:  # its factors follow the longest request
        facts["max_model_len"] = str(model.max_model_len)
    for names, kind, source in ((MODEL, "model", model), (CACHE, "cache", vllm_config.cache_config), (DRAFT, "draft", vllm_config.speculative_config)):
        facts |= {f"{kind}.{name}": str(normalize_value(getattr(source, name, None))) for name in names}
    return facts


def config_of_maker() -> Optional[VllmConfig]:
    """That of the engine which makes a tier now, in this thread. vLLM tells a tier nothing of
    overrides and revisions: only vLLM's scheduler, which calls the tier, knows them."""
    frame: Optional[FrameType] = sys._getframe()
    while frame is not None:
        config = frame.f_locals.get("vllm_config")
        if isinstance(config, VllmConfig):
            return config
        frame = frame.f_back
    _log.warning("farpage: vLLM's configuration is unknown to the tier: give engines that differ in --hf-overrides, --revision, --quantization or "
                 "--kv-cache-dtype different salts")
    return None
