"""vLLM on the CPU with Farpage below it, generating: in this process, or in one that a test starts
as a Program."""

import dataclasses
import importlib.metadata
import json
import os
import pathlib
import random
import sys
import time

SOURCE = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(SOURCE / "python"), str(pathlib.Path(__file__).parent)]
MODEL_VARIABLE = "FARPAGE_TEST_MODEL"
AT_LENGTH = "0.32"
LONGEST_S = 100  # of a request or a tier's work, whatever happens
BLOCK_TOKENS = 32
GPU_BLOCKS, CPU_CHUNKS = 20, 8  # two prompts of the tests' fill both
PROMPT_TOKENS, NEW_TOKENS = 200, 6
PROMPT_CHUNKS = PROMPT_TOKENS // BLOCK_TOKENS
ENVIRONMENT = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_LOGGING_LEVEL": "ERROR",
               "VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": "1"}


def why_not_at_length():
    """Why this release generates in short tests alone; "" where it does in all: a long one takes a
    minute."""
    try:
        version = importlib.metadata.version("vllm-cpu")
    except importlib.metadata.PackageNotFoundError:
        version = importlib.metadata.version("vllm")
    return "" if version.startswith(AT_LENGTH) else f"vLLM {AT_LENGTH} is tested at length, and this is {version}"


def model_folder(folder):
    """That of SmolLM2-135M where the variable names it, or of a tiny Llama, made in `folder`. Says
    which."""
    named = os.environ.get(MODEL_VARIABLE)
    if named:
        print(f"the model is {named}", flush=True)
        return named
    print(f"the model is a tiny Llama of random weights; {MODEL_VARIABLE} names the folder of another", flush=True)
    return tiny_model(folder)


def tiny_model(folder):
    """A Llama of random weights, made in `folder`: a token of it takes a hundredth of the time."""
    import torch
    import transformers

    torch.manual_seed(23)
    config = transformers.LlamaConfig(vocab_size=1024, hidden_size=256, intermediate_size=512, num_hidden_layers=4, num_attention_heads=4,
                                      num_key_value_heads=2, max_position_embeddings=4096, initializer_range=0.1)
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    return str(folder)


def chunk_bytes(model):
    """Of a chunk of one block, in float32: K and V of all layers."""
    config = json.loads((pathlib.Path(model) / "config.json").read_text(encoding="utf-8"))
    width = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    return 2 * 4 * config["num_hidden_layers"] * config["num_key_value_heads"] * width * BLOCK_TOKENS


def prompt(number, tokens=PROMPT_TOKENS):
    chosen = random.Random(number)
    return [chosen.randrange(3, 1000) for _ in range(tokens)]


@dataclasses.dataclass
class Answer:
    tokens: list
    logprobs: list  # of the tokens
    margin: float  # the least between a token's logprob and the next one's
    cached: int  # tokens of the prompt that were not computed
    steps: int
    seconds: float


def tiered(model, tiers, cpu_chunks=CPU_CHUNKS):
    """vLLM's tier on the CPU, with these below it."""
    transfer = json.loads((SOURCE / "configs/engines/vllm.json").read_text(encoding="utf-8"))
    extra = transfer["kv_connector_extra_config"]
    given = extra["secondary_tiers"][0]
    extra.update(spec_name="CpuTieringSpec", spec_module_path="vllm_cpu", cpu_bytes_to_use=cpu_chunks * chunk_bytes(model),
                 secondary_tiers=[{**({} if "type" in tier else given), **tier} for tier in tiers])
    return transfer


def connected(**settings):
    """FarpageConnector."""
    transfer = json.loads((SOURCE / "configs/engines/vllm-connector.json").read_text(encoding="utf-8"))
    transfer["kv_connector_extra_config"].update(settings)
    return transfer


class Engine:
    """`tiers`: those below vLLM's; or, with `transfer`, its whole configuration in their place."""

    def __init__(self, model, tiers=(), transfer=None, **options):
        import torch
        from vllm import LLM, _custom_ops  # noqa: F401 (it loads the kernels that this release has)
        from vllm.config import KVTransferConfig

        if not hasattr(torch.ops._C, "cpu_attention_with_kv_cache"):
            import vllm_kernels  # noqa: F401
        if transfer is None:
            transfer = tiered(model, tiers, options.pop("cpu_chunks", CPU_CHUNKS))
        transfer["engine_id"] = options.pop("engine_id", None)
        self._llm = LLM(**{**dict(
            model=model, skip_tokenizer_init=True, dtype="float32", enforce_eager=True, block_size=BLOCK_TOKENS, max_model_len=512, max_num_seqs=2,
            max_num_batched_tokens=512, num_gpu_blocks_override=GPU_BLOCKS, seed=0, kv_transfer_config=KVTransferConfig(**transfer)), **options})
        self._requests = 0

    @property
    def tiers(self):
        """Of an engine in this process."""
        return self._manager.secondary_tiers

    @property
    def connector(self):
        """In the scheduler of an engine in this process."""
        return self._llm.llm_engine.engine_core.engine_core.scheduler.connector

    @property
    def _manager(self):
        return self.connector.connector_scheduler.manager

    def generate(self, prompts, new_tokens=NEW_TOKENS, at_a_time=1, before_step=lambda ended: None):
        """[an Answer for each]. `before_step(ended)` is called with how many have ended; the time
        that it takes is no request's."""
        from vllm import SamplingParams

        sampling = SamplingParams(temperature=0, max_tokens=new_tokens, logprobs=2, ignore_eos=True, detokenize=False)
        engine, answers, begun, steps, held_s = self._llm.llm_engine, {}, {}, 0, 0
        names = [f"r{self._requests + number}" for number in range(len(prompts))]
        self._requests += len(prompts)
        while len(answers) < len(prompts):
            while len(begun) < min(len(answers) + at_a_time, len(prompts)):
                name = names[len(begun)]
                engine.add_request(name, {"prompt_token_ids": prompts[len(begun)]}, sampling)
                begun[name] = steps, time.monotonic() - held_s
            held_from_s = time.monotonic()
            before_step(len(answers))
            held_s += time.monotonic() - held_from_s
            steps += 1
            if any(time.monotonic() - held_s - begun_s > LONGEST_S for name, (_, begun_s) in begun.items() if name not in answers):
                raise AssertionError(f"a request has waited for {LONGEST_S} s: {len(answers)} of {len(prompts)} have ended")
            for output in engine.step():
                if output.finished:
                    first, begun_s = begun[output.request_id]
                    answers[output.request_id] = self._answer(output, steps - first, time.monotonic() - held_s - begun_s)
        return [answers[name] for name in names]

    @staticmethod
    def _answer(output, steps, seconds):
        chosen = output.outputs[0]
        logprobs = [found[token].logprob for found, token in zip(chosen.logprobs, chosen.token_ids)]
        others = [max(each.logprob for other, each in found.items() if other != token) for found, token in zip(chosen.logprobs, chosen.token_ids)]
        return Answer(list(chosen.token_ids), logprobs, min(one - other for one, other in zip(logprobs, others)), output.num_cached_tokens, steps, seconds)

    def settle(self):
        """Until the tiers or the connector of an engine in this process have nothing under way:
        vLLM begins and ends their work in steps of other requests."""
        until_s = time.monotonic() + LONGEST_S
        self.generate([[5, 6, 7]], new_tokens=4)
        while self._under_way:
            if time.monotonic() > until_s:
                raise AssertionError(f"work is under way after {LONGEST_S} s")
            self.generate([[5, 6, 7]], new_tokens=4)

    @property
    def _under_way(self):
        if hasattr(self.connector, "connector_scheduler"):
            return self._manager._jobs
        from vllm.distributed.kv_transfer import get_kv_transfer_group
        return get_kv_transfer_group()._worker._stores._under_way

    def close(self):
        self._llm.llm_engine.engine_core.shutdown()

    def exit_in_a_load(self, numbers, node):
        """Ends this process when the first load has begun, from which on the node is silent."""
        from program import stop  # of the tests alone: benches use this module too

        tier = self.tiers[0]
        submit = tier.submit_load

        def submit_load(job):
            stop(node)
            submit(job)
            sys.exit(0)

        tier.submit_load = submit_load
        self.generate([prompt(number) for number in numbers])


def main():
    """An engine of its own process. Each line that it reads names a method and its arguments."""
    engine = Engine(**json.loads(sys.argv[1]))
    print("ready", flush=True)
    for line in sys.stdin:
        method, *arguments = json.loads(line)
        if method == "generate":
            answers = engine.generate([prompt(number) for number in arguments[0]])
            print("answers", json.dumps([dataclasses.asdict(answer) for answer in answers]), flush=True)
        else:
            getattr(engine, method)(*arguments)
    engine.close()


if __name__ == "__main__":
    main()
