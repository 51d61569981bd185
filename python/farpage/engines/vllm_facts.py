"""What of vLLM's configuration decides what is in a page, beside its place and layout."""

from __future__ import annotations

import logging
import sys
from types import FrameType
from typing import Any, Optional, TypeVar

from vllm import envs
from vllm.config import VllmConfig
from vllm.config.utils import normalize_value
from vllm.platforms import current_platform
from vllm.v1.kv_cache_interface import KVCacheConfig

# Of vLLM's ModelConfig, CacheConfig and SpeculativeConfig.
MODEL = ("code_revision", "quantization", "quantization_config", "disable_sliding_window", "model_class_overrides")
CACHE = ("cache_dtype", "kv_cache_dtype_skip_layers", "calculate_kv_scales", "mamba_cache_dtype", "mamba_ssm_cache_dtype", "prefix_caching_hash_algo")
DRAFT = ("model", "revision")  # whose layers have KV as well
# By which vLLM chooses attention's backend, beside its configuration and the device.
ENVIRONMENT = ("VLLM_MLA_DISABLE", "VLLM_ROCM_SHUFFLE_KV_CACHE_LAYOUT", "VLLM_ROCM_USE_AITER", "VLLM_ROCM_USE_AITER_MHA", "VLLM_ROCM_USE_AITER_MLA",
               "VLLM_ROCM_USE_AITER_UNIFIED_ATTENTION")
_Kind = TypeVar("_Kind")
_log = logging.getLogger("farpage")


def engine_facts(vllm_config: Optional[VllmConfig]) -> dict[str, str]:
    """For `page_space()`. The model's configuration is the one that it runs with: with
    `--hf-overrides` and whatever else vLLM changed in it."""
    if vllm_config is None:
        return {}
    model: Any = vllm_config.model_config
    config = str(normalize_value(model.hf_config))
    facts = {"revision": model.revision or "", "download_folder": vllm_config.load_config.download_dir or "", "config": config,
             "computed_dtype": str(model.dtype), "load_format": str(vllm_config.load_config.load_format),
             "attention": str(normalize_value(vllm_config.attention_config)),
             "attention.chosen_by": f"{current_platform.device_type} {current_platform.get_device_capability()} {[getattr(envs, name, None) for name in ENVIRONMENT]}"}
    if "longrope" in config:  # its factors follow the longest request
        facts["max_model_len"] = str(model.max_model_len)
    for names, kind, source in ((MODEL, "model", model), (CACHE, "cache", vllm_config.cache_config), (DRAFT, "draft", vllm_config.speculative_config)):
        facts |= {f"{kind}.{name}": str(normalize_value(getattr(source, name, None))) for name in names}
    return facts


def specs_of_maker() -> str:
    """What each group's blocks hold, as the backend of its layers wants it."""
    config = _of_maker("kv_cache_config", KVCacheConfig)
    return "" if config is None else ";".join(str(group.kv_cache_spec) for group in config.kv_cache_groups)


def _of_maker(name: str, kind: type[_Kind]) -> Optional[_Kind]:
    frame: Optional[FrameType] = sys._getframe()
    while frame is not None:
        value = frame.f_locals.get(name)
        if isinstance(value, kind):
            return value
        frame = frame.f_back
    return None


def config_of_maker() -> Optional[VllmConfig]:
    """That of the engine which makes a tier now, in this thread. vLLM tells a tier nothing of
    overrides and revisions: only vLLM's scheduler, which calls the tier, knows them."""
    config = _of_maker("vllm_config", VllmConfig)
    if config is not None:
        return config
    _log.warning("farpage: vLLM's configuration is unknown to the tier: give engines that differ in --hf-overrides, --revision, --quantization or "
                 "--kv-cache-dtype different salts")
    return None
