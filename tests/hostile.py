# SPDX-License-Identifier: Apache-2.0
"""Input that nobody would write by mistake, and what must hold whatever the input is.

Each surface that the property tests look at gets 2,000 examples; ``DASHGEN_EXAMPLES=100000``, as in a nightly run,
asks for more. A failure prints the seed, and the blob that repeats it.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from processes import tool

from dashgen.engine.programs import run
from dashgen.guard.text import LONGEST, line

EXAMPLES = 2000


def examples(part: float = 1.0) -> settings:
    """Settings for the examples of a surface, or for a part of them where several tests look at it.

    In CI hypothesis draws the same examples every time; a run that asks for a number of them draws others each night.
    """
    asked = os.environ.get("DASHGEN_EXAMPLES")
    return settings(
        max_examples=max(1, round(int(asked or EXAMPLES) * part)),
        derandomize=settings.default.derandomize and not asked,  # type: ignore[union-attr]
        deadline=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )


_WORDS = """
and or unless atan2 sum group count_values quantile limitk offset smoothed anchored by without on ignoring group_left
group_right fill bool step start end inf nan Inf NaN true null le __name__ job
"""
_PATTERNS = r"""
a{1001} a{1000} (a{500}){3} (?R) (?x)a (?=a) (?!a) (a)\1 a++ (?>a) (?P<n>a) (?<n>a) \pN \p{Foo} \Q.\E a{,5} { [ (
[a&&b] \C \z \Z \x{110000} \u00e9 (?i)k .* [^]] a|* ^* \07 (?:) (?U)a \d{1,1000} \_ \é ) ] \\
"""
_EXPRESSIONS = ["up", "sum(", "1", "up[5m]", "up # c", 'up{a=~"("}', "up offset -1d", "((up))" * 2]
_DEEP = ["(" * 200 + "up" + ")" * 200, "up" + "+up" * 300]

WORDS = st.sampled_from(_WORDS.split())
PATTERNS = st.sampled_from(_PATTERNS.split())
NAMES = st.sampled_from(["a", "_x", "job_name", "J0B", "a:b", "a-b", "été", "1a", "", "x" * 300, "a\nb", "a b"])
TEXTS = st.text(
    st.sampled_from("ab1 \"'\\`{}<>[]()$,#:%&*!|@~=.+?^;-_/\n\t\r\x00\x1b\x85\u2028\u202eé🙂"), max_size=12
) | st.sampled_from(
    ["<job>", "<3 dumps>", "{{", "${__from}", "##[error]x", "\r::error::x", "---", "1e3", "9" * 50, "x" * 2000, "../x"]
)
NUMBERS = st.sampled_from([0, -1, 1, 30, 1e308, -1e-320, 10**30, 2**63, float("inf"), float("nan"), 0.1, True])
PROMQL = st.sampled_from(_EXPRESSIONS + _DEEP) | PATTERNS.map(lambda each: f"up{{a=~{json.dumps(each)}}}")
DURATIONS = st.sampled_from(["30s", "1m", "90s", "999999999999h", "1d", "0s", "-1s", "1m30s", "30", "٣s", "1e3s", ""])
ANYTHING: st.SearchStrategy[Any] = st.recursive(
    st.none() | NUMBERS | TEXTS | WORDS | PATTERNS | NAMES | PROMQL | DURATIONS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS | NAMES, inner, max_size=3),
    max_leaves=4,
)


@st.composite
def damaged(draw: st.DrawFn, whole: bytes) -> bytes:
    """Bytes of which some are others, twice there, or gone."""
    data = bytearray(whole)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(0, len(data) - 1)))
        width = draw(st.integers(0, 40))
        kind = draw(st.sampled_from(["other", "gone", "twice", "word", "end"]))
        if kind == "other":
            data[at : at + 1] = draw(st.binary(min_size=1, max_size=1))
        elif kind == "gone":
            del data[at : at + width]
        elif kind == "twice":
            data[at:at] = data[at : at + width]
        elif kind == "word":
            data[at:at] = str(draw(TEXTS | WORDS | NUMBERS | DURATIONS)).encode()
        else:
            del data[at:]
    return bytes(data)


@st.composite
def changed(draw: st.DrawFn, whole: Any) -> Any:
    """Plain data in which some values are anything, or have gone."""
    data = json.loads(json.dumps(whole))
    for _ in range(draw(st.integers(1, 3))):
        places = list(_places(data))
        container, key = draw(st.sampled_from(places))
        kind = draw(st.sampled_from(["anything", "gone", "moved", "inside"]))
        if kind == "gone" and isinstance(container, dict):
            del container[key]
        elif kind == "moved":
            # What is sound at another place is most like what is sound here.
            other, name = draw(st.sampled_from(places))
            container[key] = json.loads(json.dumps(other[name]))
        elif kind == "inside":
            container[key] = draw(st.sampled_from([{}, [], {"": container[key]}, [container[key]] * 3]))
        else:
            container[key] = draw(ANYTHING)
    return data


def _places(data: Any) -> Any:
    keys = list(data) if isinstance(data, dict) else list(range(len(data)))
    for key in keys:
        yield data, key
        if isinstance(data[key], dict | list) and data[key]:
            yield from _places(data[key])
    if not keys:
        yield {"": 0}, ""


class Packs:
    """Packs that promtool has to accept, in a few calls: starting promtool takes longer than reading a pack."""

    AT_ONCE = 100

    def __init__(self) -> None:
        tool("promtool")
        self._seen: set[int] = set()
        self._waiting: list[str] = []

    def add(self, pack: str) -> None:
        """One more, unless it was there before."""
        if hash(pack) not in self._seen:
            self._seen.add(hash(pack))
            self._waiting.append(pack)
        if len(self._waiting) == self.AT_ONCE:
            self.check()

    def check(self) -> None:
        """Ask promtool about those of which it has not been asked."""
        with tempfile.TemporaryDirectory() as made:
            paths = [Path(made) / f"{number}.yaml" for number in range(len(self._waiting))]
            for path, pack in zip(paths, self._waiting, strict=True):
                path.write_text(pack, encoding="utf-8")
            self._waiting = []
            if paths:
                done = run("promtool", "check", "rules", "--lint=none", *paths, timeout=300)
                assert done.code == 0, done.said[:2000]


def is_one_line(error: Exception, *parts: str) -> None:
    """What a user reads of an error: one line, not too long, that begins with the place and ends with the remedy."""
    said = line(str(error))
    assert len(said) <= LONGEST and said.isprintable() and "##[" not in said
    for part in parts:
        assert line(part, 100)[:40] in said, said
