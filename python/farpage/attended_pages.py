"""Records the pages that each KV head of a transformers model attends to: an attention function
that calls the model's own."""

import sys

import torch
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

NAME = "farpage_attended_pages"


class UnrecordableError(Exception):
    """The model does not show what is to be recorded."""


class AttendedPages:
    """In a with block, each forward of one token, announced by begin(), leaves in `layers` what the
    heads attended to.

    `layers`: {layer: tensor of [page, mass, score, similarity] x KV heads x pages}, in the pages'
    order. Of earlier steps it keeps the last queries, and each page's least and greatest keys.
    """

    def __init__(self, model, page_tokens):
        self.config, self.page_tokens = model.config.get_text_config(), page_tokens
        self.queries, self.bounds = {}, {}

    def __enter__(self):
        ALL_ATTENTION_FUNCTIONS[NAME] = self
        self.before, self.config._attn_implementation = self.config._attn_implementation, NAME
        return self

    def __exit__(self, *_):
        self.config._attn_implementation = self.before

    def begin(self, tokens, most_pages):
        """The next forward is of one token, with which there are so many; of each head only the
        pages with the most mass matter."""
        self.tokens, self.most_pages, self.layers = tokens, most_pages, {}

    def __call__(self, module, query, key, value, attention_mask, **options):
        own = getattr(sys.modules[type(module).__module__], "eager_attention_forward", None)
        if own is None:
            raise UnrecordableError(f"{type(module).__name__} has no eager attention, which alone has weights to record")
        output, weights = own(module, query, key, value, attention_mask, **options)
        layer, window = module.layer_idx, options.get("sliding_window")
        if key.shape[2] != self.tokens or window and window < self.tokens:
            raise UnrecordableError(f"layer {layer} looks back at {min(key.shape[2], window or self.tokens)} of {self.tokens} tokens: its window slides, and what fell "
                                    "out of it would pass for pages that are not needed. Record fewer tokens, or a model without a window")
        heads = key.shape[1]
        # Of a KV head's query heads, which share its pages, the mean.
        shares = weights[0, :, -1].float().view(heads, -1, self.tokens).mean(1)
        queries = query[0, :, -1].float().view(heads, -1, query.shape[3])
        self.layers[layer] = self._selected(self._mass(shares), self._scores(layer, queries, key[0]), self._similarity(layer, queries.mean(1)))
        return output, weights

    def _by_page(self, values, filling):
        """heads x tokens x … becomes heads x pages x tokens of a page x …"""
        short = -values.shape[1] % self.page_tokens
        padding = values.new_full((values.shape[0], short, *values.shape[2:]), filling)
        return torch.cat([values, padding], 1).view(values.shape[0], -1, self.page_tokens, *values.shape[2:])

    def _mass(self, shares):
        return self._by_page(shares, 0).sum(2).clamp(max=1)

    def _scores(self, layer, queries, keys):
        """Quest's bound of what a key of the page could score: the sum over dimensions of max(q *
        least, q * greatest)."""
        if layer not in self.bounds:
            self.bounds[layer] = [self._by_page(keys, float("inf")).amin(2), self._by_page(keys, float("-inf")).amax(2)]
        elif self.tokens % self.page_tokens == 1 % self.page_tokens:
            self.bounds[layer] = [torch.cat([bound, keys[:, -1:]], 1) for bound in self.bounds[layer]]
        else:
            least, greatest = self.bounds[layer]
            least[:, -1] = torch.minimum(least[:, -1], keys[:, -1])
            greatest[:, -1] = torch.maximum(greatest[:, -1], keys[:, -1])
        least, greatest = self.bounds[layer]
        above, below = queries.clamp(min=0).mean(1), queries.clamp(max=0).mean(1)
        return torch.einsum("hd,hpd->hp", above, greatest.float()) + torch.einsum("hd,hpd->hp", below, least.float())

    def _similarity(self, layer, queries):
        """With the step before; 0 in the first, which has none."""
        before = self.queries.get(layer, torch.zeros_like(queries))
        self.queries[layer] = queries
        return torch.cosine_similarity(queries, before, dim=1).clamp(-1, 1)

    def _selected(self, mass, scores, similarity):
        rank = mass.clone()
        rank[:, -1] = 2  # the newest page is always among them
        pages = rank.topk(min(rank.shape[1], self.most_pages)).indices.sort(1).values
        return torch.stack([pages.float(), mass.gather(1, pages), scores.gather(1, pages), similarity[:, None].expand_as(pages)])
