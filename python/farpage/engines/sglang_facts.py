"""What decides what is in a page of SGLang's."""

from __future__ import annotations

from typing import Any

import sglang
from sglang.srt.mem_cache.hicache_storage import PoolName
from sglang.srt.mem_cache.pool_host.mha import MHATokenToKOnlyPoolHost, MHATokenToKVPoolHost

import farpage
from farpage.engines.namespaces import page_space, weights_digest

KNOWN = ("0.5.23",)
PLACE = "download_dir"  # where models of a hub are: it decides nothing
# Whatever of SGLang's command line decides what is in a page.
SERVER_FACTS = ("model_path", "revision", "dtype", "quantization", "quantization_param_path", "modelopt_quant", "kv_cache_dtype", "load_format",
                "json_model_override_args", "speculative_draft_model_path", "speculative_draft_model_revision", PLACE)
RANKS = ("tp_size", "pp_rank", "pp_size", "attn_cp_rank", "attn_cp_size", "dcp_rank", "dcp_size")
GEOMETRY = ("layer_num", "head_num", "head_dim", "kv_cache_dim", "storage_format_tag")
# With tensor parallelism each process has its own part of these, also where KV is the same in all.
SHARDED = (MHATokenToKVPoolHost, MHATokenToKOnlyPoolHost)


def check_version(version: str, allow_untested: bool) -> None:
    if allow_untested or version in KNOWN:
        return
    raise farpage.InvalidError(f"SGLang {version} was not tested with Farpage {farpage.__version__}, and its pools change between releases: use "
                               f"{', '.join(KNOWN)}, or set \"allow_untested\": true")


def server_facts() -> dict[str, str]:
    """Of the server that this process belongs to; empty where SGLang's classes run without one."""
    try:
        from sglang.srt.runtime_context import get_server_args

        arguments = get_server_args()
    except (ImportError, ValueError):
        return {}
    values = {name: getattr(arguments, name, None) for name in SERVER_FACTS}
    return {name: "" if value is None else str(value) for name, value in values.items()}


def logical_dtype(pool: Any, said: str, server: dict[str, str]) -> str:
    """What the numbers of a pool mean. SGLang keeps both formats of fp8 as uint8."""
    logical = said or server.get("kv_cache_dtype", "")
    if not logical and pool.dtype.itemsize == 1:
        raise farpage.InvalidError(f"SGLang stores KV as {pool.dtype} and does not say what that is: set \"dtype\", as in \"fp8_e4m3\"")
    return f"{logical or pool.dtype} in {pool.dtype}"


def space_of(config: Any, name: str, pool: Any, dtype: str, salt: str) -> farpage.KeySpace:
    """The namespace of all that decides what is in a page of this pool."""
    server = server_facts()
    ranks = {fact: getattr(config, fact, 0) for fact in RANKS}
    # Processes of data parallelism compute the same, and share pages. Those of tensor parallelism
    # share what is the same in all of them.
    if not config.is_mla_model or name == PoolName.MAMBA.value or isinstance(pool, SHARDED):
        ranks["tp_rank"] = config.tp_rank
    scales = server.get("quantization_param_path")
    geometry = " ".join(f"{fact}={getattr(pool, fact, '')}" for fact in GEOMETRY)
    return page_space(
        engine="sglang", version=sglang.__version__, model=server.get("model_path") or str(config.model_name),
        dtype=logical_dtype(pool, dtype, server), layout=f"{pool.layout} {geometry}",
        block_tokens=getattr(pool, "logical_page_size", pool.page_size), ranks=ranks, salt=salt, pool=name,
        revision=server.get("revision", ""), download_folder=server.get(PLACE, ""), scales=weights_digest(scales) if scales else "",
        name=config.model_name, is_mla_model=config.is_mla_model, **{f"server.{fact}": value for fact, value in server.items() if fact != PLACE})
