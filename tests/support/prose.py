"""Idioms that CONTRIBUTING.md bans from pages, help texts, messages and comments, each with what to write."""

import re

BANNED = {
    r"\b(?:is|are|was|were|be|being|not|as|has) told\b|\btells?\b": "reports, logs, prints",
    r"\b(?:says?|said|speaks?|spoken of)\b": "reports, prints, describes",
    r"\bis heard\b|\bhears\b|\bknows\b|\blooks at\b": "receives, has, reads, attends to",
    r"\bgoes on\b|\bgo on\b|\bwent on\b|\bgone back\b|\bgoes back\b|\bbegins anew\b|\banew\b|\bmade again\b":
        "continues, resumes, rolls back, restarts, recomputes",
    r"\bbesides?\b": "next to, together with, in parallel",
    r"\bwanted\b|\bis to be\b|\bare to be\b": "expected, must be",
    r"\b(?:goes|go) with\b|\b(?:go|goes) together\b": "can be combined with, requires, supports",
    r"\bbecame of\b|\bbecomes of\b|\bwhat of it\b": "status of, outcome of",
    r"\bwhoever\b|\bsomeone who\b|\bother people's\b|\bby hand\b": "a user, a caller, third-party, manually",
    r"\balike\b|\bas \w+ has it\b": "equally, the same way, as in",
    r"\bkept keys\b": "KV cache",
    r"\bis no number\b|\bare no numbers\b|\bthat is none\b|\bunsound\b": "NaN, non-finite, invalid",
    r"\bwords at once\b|\bmasked decoder\b": "non-autoregressive decoding",
    r"\bfarthest\b|\bfar reach\b": "max distance, lookback",
    r"\b(?:mistake|mistakes|complaint|complaints|remedy|remedies)\b": "error, diagnostic, hint",
    r"\bstrangers?\b|\brooms?\b(?! (?:for|\d|\{))|\bthe house\b": "unexpected tensors, module, architecture",
    r"\bdear(?:er|est)?\b|\bfalls silent\b|\bfell silent\b|\bis gone\b": "most expensive, unresponsive, failed",
}
OPENINGS = r"(?:Of|What|Whose|To what|The same|Likewise)"  # no sentence of a comment begins so

BRITISH = {
    "colour": "color", "labelled": "labeled", "labelling": "labeling", "neighbour": "neighbor", "normalis": "normaliz",
    "orthogonalis": "orthogonaliz", "finalis": "finaliz", "utilis": "utiliz", "behaviour": "behavior", "optimis": "optimiz",
    "initialis": "initializ", "serialis": "serializ", "recognis": "recogniz", "parallelise": "parallelize", "licence": "license",
    "centre": "center", "organis": "organiz", "summaris": "summariz", "quantis": "quantiz", "synchronis": "synchroniz",
    "tokenis": "tokeniz", "travell": "travel", "cancelled": "canceled",
}


def findings(text):
    """(position, found, what to write) of each banned idiom and British spelling in a text."""
    found = [(match.start(), match[0], advice) for pattern, advice in BANNED.items() for match in re.finditer(pattern, text, re.IGNORECASE)]
    found += [(match.start(), match[0], american) for british, american in BRITISH.items()
              for match in re.finditer(rf"\b\w*{british}\w*", text, re.IGNORECASE)]
    return sorted(found)


def without_code(page):
    """A Markdown page without its code blocks, code spans and targets of links, at the same positions."""
    blank = lambda match: re.sub(r"[^\n]", " ", match[0])
    page = re.sub(r"(?ms)^```.*?^```", blank, page)
    page = re.sub(r"`[^`\n]*`", blank, page)
    return re.sub(r"\]\([^)]*\)", blank, page)


def literals_and_comments(source):
    """The string literals and the comments of a C++ source, each as (position, text)."""
    pattern = re.compile(r'R"(?P<delimiter>[^(\s]*)\((?P<raw>.*?)\)(?P=delimiter)"|"(?P<text>(?:[^"\\\n]|\\.)*)"|\'(?:[^\'\\\n]|\\.)+\''
                         r"|//(?P<line>[^\n]*)|/\*(?P<block>.*?)\*/", re.DOTALL)
    literals, comments = [], []
    for match in pattern.finditer(source):
        if match["raw"] is not None:
            literals.append((match.start(), match["raw"]))
        elif match["text"] is not None:
            before = source[source.rfind("\n", 0, match.start()) + 1:match.start()]
            if not before.lstrip().startswith("#include"):
                literals.append((match.start(), match["text"]))
        elif match["line"] is not None:
            comments.append((match.start(), match["line"]))
        elif match["block"] is not None:
            comments.append((match.start(), match["block"]))
    return literals, comments
