"""Farpage as the remote tier of serving engines: `farpage.engines.vllm`, docs/engines.md.

Nothing here is imported with `farpage`, and nothing imports an engine before the engine has named
the module.
"""
