"""`kvcalc speculate`."""

from typing import Literal

from kvcalc.cli.flags import GPU, OUTPUT, SERVED, SERVING, WORKLOAD, Flag
from kvcalc.cli.options import Flags, ModelArgument, takes
from kvcalc.cli.output import DRAWN, FORMATS, PICTURES, Output


def _flag(field: str, metavar: str, help: str, panel: str, kind: Literal["text", "texts"] = "text") -> Flag:
    return Flag(field, ("--" + field.replace("_", "-"),), metavar, help, panel, kind)


DRAFT = (
    _flag("draft", "DRAFT", "A model, or ngram, mtp, eagle, eagle-2, eagle-3, medusa.", "Draft"),
    _flag("draft_cost", "C", "Time of a draft pass over that of a plain step, if it is known.", "Draft"),
    _flag("draft_quantization", "SCHEME", "Store the draft's weights as fp8, int4, ...", "Draft"),
    _flag("gamma", "N", "Draft tokens (levels of a tree) per pass. Default: the best.", "Draft"),
    _flag("tree_width", "N", "Candidates in a level; once for each level.", "Draft", "texts"),
    Flag("tree", ("--tree",), None, "The tree that the method was published with; else a chain.", "Draft", "bool"),
    _flag("tree_nodes", "N", "Drafted tokens of a tree that grows where it is likely.", "Draft"),
)
ACCEPTANCE = (
    _flag("acceptance", "A", "Once: the same at every position. Repeated: each position's.", "Acceptance", "texts"),
    _flag("decay", "R", "Factor from one position's acceptance to the next.", "Acceptance"),
    _flag("accepted_length", "[N:]LENGTH", "Tokens per pass, measured with N draft tokens.", "Acceptance", "texts"),
    _flag("target_probs", "FILE", "Target distributions: .npy, .json or .csv; with --draft-probs.", "Acceptance"),
    _flag("draft_probs", "FILE", "Draft distributions of the same positions.", "Acceptance"),
)

BESIDE = tuple(flag for flag in SERVING if flag.field not in ("draft", "acceptance"))  # this command's own say more


@takes(GPU, DRAFT, ACCEPTANCE, WORKLOAD, SERVED, BESIDE, OUTPUT, says=DRAWN)
def command(model: ModelArgument, flags: Flags) -> None:
    """Tokens per pass, speed-up and best draft length of speculative decoding, and where it stops paying.

    \b
      kvcalc speculate llama-3-8b --gpu l40s --draft llama-3.2-1b --acceptance 0.8
      kvcalc speculate qwen3-8b --gpu l40s --draft eagle-3 --accepted-length 4:3.1
      kvcalc speculate deepseek-v3 --gpu b200-sxm -tp 8 --draft mtp --gamma 1
      kvcalc speculate llama-3-8b --gpu l40s --draft-cost 0.15 --acceptance 0.8
    """
    output = Output(flags, formats=(*FORMATS, *PICTURES))
    from kvcalc.answers.speculate.ask import speculate_from
    from kvcalc.render.pages.speculate import page, pictures, rows

    output.emit(speculate_from(model, flags, explain=output.explain), page, rows, pictures)
