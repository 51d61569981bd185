"""What decides what is in a page of SGLang's."""

from __future__ import annotations

from typing import Any

import sglang
import torch
from sglang.kernels.ops.quantization.fp8_kernel import fp8_dtype
from sglang.srt.environ import envs
from sglang.srt.mem_cache.hicache_storage import PoolName
from sglang.srt.mem_cache.pool_host.mha import MHATokenToKOnlyPoolHost, MHATokenToKVPoolHost

import farpage
from farpage.engines.namespaces import page_space, weights_digest

KNOWN = ("0.5.23",)
PLACE = "download_dir"  # where models of a hub are: it decides nothing
# Whatever of SGLang's command line decides what is in a page.
SERVER_FACTS = (
    "model_path", "revision", "dtype", "quantization", "quantization_param_path", "modelopt_quant", "modelopt_checkpoint_restore_path", "kv_cache_dtype",
    "qsa_indexer_dtype", "enable_deepseek_v4_fp4_indexer", "load_format", "json_model_override_args",
    "speculative_algorithm", "speculative_draft_model_path", "speculative_draft_model_revision", "speculative_draft_load_format",
    "speculative_draft_model_quantization", "speculative_draft_kv_cache_dtype", "speculative_draft_window_size", "speculative_draft_sink_size",
    "uno_lora_path", PLACE)
# Of these, paths of weights, whose bytes count, and where their revision stands.
WEIGHTS = {"quantization_param_path": "", "modelopt_checkpoint_restore_path": "", "uno_lora_path": "",
           "speculative_draft_model_path": "speculative_draft_model_revision"}
# Of SGLang's variables, those that change what bytes of the same length mean.
ENVIRONMENT = ("SGLANG_DSV4_COMPRESS_STATE_DTYPE", "SGLANG_OPT_USE_ONLINE_COMPRESS", "SGLANG_HIP_DSV41_INDEX_K_PAGE8")
RANKS = ("tp_size", "pp_rank", "pp_size", "attn_cp_rank", "attn_cp_size", "dcp_rank", "dcp_size")
# Of pools, by the words of each kind: of KV, of the indexer, of compressed states, of Mamba's.
GEOMETRY = ("layer_num", "head_num", "head_dim", "v_head_dim", "head_group_num", "kv_cache_dim", "kv_lora_rank", "qk_rope_head_dim", "storage_format_tag",
            "indexer_dtype", "row_bytes", "item_bytes", "ring_size", "state_page_bytes",
            "num_mamba_layers", "conv_dtype", "temporal_dtype", "conv_state_shapes", "temporal_state_shape")
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


def logical_dtype(name: str, pool: Any, said: str, server: dict[str, str]) -> str:
    """What the numbers of a pool mean. SGLang keeps both formats of fp8 as uint8. `said`: what the
    operator says of the target's; a draft follows it unless it has its own."""
    own = server.get("speculative_draft_kv_cache_dtype", "") if name.startswith(PoolName.DRAFT.value) else ""
    logical = own or said or server.get("kv_cache_dtype", "")
    if not logical and pool.dtype.itemsize == 1:
        raise farpage.InvalidError(f"SGLang stores KV as {pool.dtype} and does not say what that is: set \"dtype\", as in \"fp8_e4m3\"")
    return f"{logical or pool.dtype} in {pool.dtype}"


def geometry(pool: Any) -> str:
    """Where each number of a page stands."""
    # As the attention's kernels have them.
    orders = [info.buffers.layout for info in getattr(pool, "_buffer_infos", ())]
    sides = [(tuple(each.shape[1:]), each.dtype) for each in getattr(pool, "slot_state_buffers", ())]
    return " ".join([*(f"{fact}={getattr(pool, fact, '')}" for fact in GEOMETRY), f"orders={orders}", f"sides={sides}"])


def space_of(config: Any, name: str, pool: Any, dtype: str, salt: str) -> farpage.KeySpace:
    """The namespace of all that decides what is in a page of this pool."""
    server = server_facts()
    folder = server.get(PLACE, "")
    ranks = {fact: getattr(config, fact, 0) for fact in RANKS}
    # Processes of data parallelism compute the same, and share pages. Those of tensor parallelism
    # share what is the same in all of them.
    if not is_shared(config, name, pool):
        ranks["tp_rank"] = config.tp_rank
    facts = {f"server.{fact}": value for fact, value in server.items() if fact != PLACE}
    facts |= {f"weights.{fact}": weights_digest(server.get(fact, ""), server.get(revision, ""), folder) for fact, revision in WEIGHTS.items()}
    facts |= {f"environment.{variable}": getattr(envs, variable).get() for variable in ENVIRONMENT}
    return page_space(
        engine="sglang", version=sglang.__version__, model=server.get("model_path") or str(config.model_name),
        dtype=logical_dtype(name, pool, dtype, server), layout=f"{pool.layout} {geometry(pool)}",
        block_tokens=getattr(pool, "logical_page_size", pool.page_size), ranks=ranks, salt=salt, pool=name,
        revision=server.get("revision", ""), download_folder=folder, name=config.model_name, is_mla_model=config.is_mla_model,
        fp8=fp8_dtype, is_hip=bool(torch.version.hip), **facts)


def is_shared(config: Any, name: str, pool: Any) -> bool:
    """Whether this pool has the same in all ranks of tensor parallelism."""
    return bool(config.is_mla_model) and name != PoolName.MAMBA.value and not isinstance(pool, SHARDED)


def is_stored_by_one_rank(config: Any, name: str, pool: Any) -> bool:
    """Whether SGLang stores from one rank what differs in all of them: of an MLA model it stores
    KV once, and of side pools Mamba's alone from each rank (its should_backup())."""
    return bool(config.is_mla_model) and config.tp_size > 1 and name != PoolName.MAMBA.value and not is_shared(config, name, pool)
