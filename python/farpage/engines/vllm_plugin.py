"""What makes vLLM know Farpage by short names: the tier `farpage` and the connector
`FarpageConnector`. vLLM calls `register()` in each of its processes, because the package names it
in the entry points `vllm.general_plugins`."""

from __future__ import annotations


def register() -> None:
    """Imports neither of the two: vLLM does where a configuration names one. Raises nothing where
    vLLM has no tiers or connectors, for it would not start then."""
    try:
        from vllm.distributed.kv_transfer.kv_connector.factory import KVConnectorFactory
        from vllm.v1.kv_offload.tiering.factory import SecondaryTierFactory
    except ImportError:
        return
    for add, name, module, class_name in (
            (SecondaryTierFactory.register_tier, "farpage", "farpage.engines.vllm", "FarpageTier"),
            (KVConnectorFactory.register_connector, "FarpageConnector", "farpage.engines.vllm_connector", "FarpageConnector")):
        try:
            add(name, module, class_name)
        except ValueError:  # that name is there already
            continue
